import { Buffer } from 'node:buffer'
import type { KafkaAdmin, KafkaHeader, KafkaMessage, KafkaProducer } from '../kafka/driver.ts'
import { KafkaError } from '../kafka/kafka-error.ts'
import type { DeadLetter, DeadLetters } from './dead-letters.ts'

/** What is added to the record's own headers. A header that it had under such a name is kept under another. */
const added = [
  'x-error-reason',
  'x-retry-attempt',
  'source-topic',
  'partition',
  'offset',
  'epoch',
  'x-error-class',
  'x-error-kind',
  'x-failed-at',
  'x-consumer-group',
] as const
type Added = (typeof added)[number]
const ownNames: ReadonlySet<string> = new Set(added)
const keptAs = 'x-original-header-'

export type DeadLetterTopicParts = Readonly<{
  admin: KafkaAdmin
  openProducer: () => Promise<KafkaProducer>
  suffix: string
}>

/** Dead letters in a topic beside that of the record: `orders.dlq`. */
export class DeadLetterTopic implements DeadLetters {
  readonly #parts: DeadLetterTopicParts
  #producer: Promise<KafkaProducer> | null = null

  constructor(parts: DeadLetterTopicParts) {
    this.#parts = parts
  }

  /** Creates the topics that are missing, each with as many partitions as the one whose dead letters it takes. */
  async prepare(topics: readonly string[]): Promise<void> {
    const { admin, suffix } = this.#parts
    const counts = await admin.partitionCounts(topics.flatMap((topic) => [topic, topic + suffix]))
    for (const topic of topics) {
      const partitions = counts.get(topic)
      if (partitions === undefined || counts.has(topic + suffix)) continue
      await admin.createTopics([{ topic: topic + suffix, partitions }]).catch((error) => {
        // Another process was quicker.
        if (!(error instanceof KafkaError && error.kind === 'exists')) throw error
      })
    }
  }

  async put(letter: DeadLetter): Promise<void> {
    const { openProducer, suffix } = this.#parts
    const topic = `${letter.record.topic}${suffix}`
    this.#producer ??= openProducer()
    const producer = await this.#producer.catch((error) => {
      this.#producer = null
      throw error
    })
    const [answer] = await producer.send([messageOf(letter, topic)])
    if (answer?.kind === 'acknowledged') return
    const error = answer?.error ?? new KafkaError('closed', `No broker has acknowledged the dead letter in ${topic}.`)
    throw await this.#afterFailure(error, letter.record.topic)
  }

  /** May be called twice. */
  async close(): Promise<void> {
    const producer = await this.#producer?.catch(() => null)
    await producer?.close()
  }

  /** Does what lets the next try succeed, where that can be done here. */
  async #afterFailure(error: KafkaError, source: string): Promise<KafkaError> {
    const topic = source + this.#parts.suffix
    // The topic whose dead letters it takes was made after the start.
    if (error.kind === 'unknown_topic') await this.prepare([source])
    if (error.kind === 'fenced' || error.kind === 'closed') {
      await this.close().catch(() => {})
      this.#producer = null
    }
    if (error.kind !== 'too_large') return error
    const advice = `raise max.message.bytes of that topic above that of ${source}, because headers are added`
    return new KafkaError('too_large', `The dead letter is larger than ${topic} takes: ${advice}.`, { cause: error })
  }
}

/** The record as it was: key, value, headers and time, by which it also goes to the same partition number where it can. */
function messageOf({ record, ...letter }: DeadLetter, topic: string): KafkaMessage {
  const facts: Record<Added, string | null> = {
    'x-error-reason': letter.failure.error,
    'x-retry-attempt': String(letter.attempts),
    'source-topic': record.topic,
    partition: String(record.partition),
    offset: String(record.offset),
    epoch: String(letter.epoch),
    'x-error-class': letter.failure.errorClass,
    'x-error-kind': letter.reason,
    'x-failed-at': new Date(letter.failedAt).toISOString(),
    'x-consumer-group': letter.group,
  }
  const names = new Set(record.headers.map(([name]) => name))
  // It was a dead letter before and was produced again: what was added then is replaced.
  const isAgain = added.every((name) => name === 'x-error-class' || names.has(name))
  const headers: KafkaHeader[] = record.headers
    .filter(([name]) => !(isAgain && ownNames.has(name)))
    .map(([name, value]) => [ownNames.has(name) ? keptAs + name : name, value])
  for (const name of added) {
    const value = facts[name]
    if (value !== null) headers.push([name, Buffer.from(value)])
  }
  const timestamp = record.timestamp !== null && record.timestamp > 0 ? record.timestamp : null
  return { topic, partition: null, key: record.key, value: record.value, headers, timestamp }
}
