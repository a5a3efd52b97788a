import type { CommittedOffset, ConnectionOptions, KafkaAdmin, NewTopic, Partition, PartitionEnds } from '../driver.ts'
import { answerMsMaxDefault, configured } from './connection.ts'
import type { Native, NativeAdmin, NativeError, NativePartition } from './native.ts'
import { asked, kafkaError, kindOf, reported } from './problems.ts'
import { committedOffsets } from './records.ts'
import { connectionSettings } from './settings.ts'

export class ConfluentAdmin implements KafkaAdmin {
  readonly #native: Native
  readonly #client: NativeAdmin
  readonly #timeout: number
  #isClosed = false

  constructor(native: Native, options: ConnectionOptions) {
    this.#native = native
    this.#timeout = options.answerMsMax ?? answerMsMaxDefault
    const onError = (error: NativeError) => options.onProblem?.(reported(error))
    const settings = connectionSettings(options)
    this.#client = configured(() => native.AdminClient.create(settings, { 'event.error': onError }))
  }

  async createTopics(topics: readonly NewTopic[]): Promise<void> {
    await Promise.all(
      topics.map(({ topic, partitions, replicas = 1, settings = {} }) => {
        // Without settings there must be no `config` at all: an undefined one ends the process.
        const config = Object.keys(settings).length === 0 ? {} : { config: settings }
        const wanted = { topic, num_partitions: partitions, replication_factor: replicas, ...config }
        const what = `The topic ${topic} could not be created`
        return asked<void>(what, (done) => this.#client.createTopic(wanted, this.#timeout, done))
      }),
    )
  }

  async partitionCounts(topics: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (topics.length === 0) return new Map()
    const described = await asked<readonly { name: string; error?: NativeError; partitions: readonly unknown[] }[]>(
      'The topics cannot be read',
      (done) => this.#client.describeTopics(topics, { timeout: this.#timeout }, done),
    )
    const counts = new Map<string, number>()
    for (const { name, error, partitions } of described) {
      if (error === undefined) counts.set(name, partitions.length)
      else if (kindOf(error) !== 'unknown_topic') throw kafkaError(`The topic ${name} cannot be read`, error)
    }
    return counts
  }

  async ends(partitions: readonly Partition[]): Promise<readonly PartitionEnds[]> {
    if (partitions.length === 0) return []
    const { EARLIEST, LATEST } = this.#native.AdminClient.OffsetSpec
    const [earliest, latest] = await Promise.all([
      this.#offsets(partitions, EARLIEST),
      this.#offsets(partitions, LATEST),
    ])
    return partitions.map(({ topic, partition }) => {
      const of = (offsets: readonly NativePartition[]) =>
        offsets.find((it) => it.topic === topic && it.partition === partition)?.offset ?? 0
      return { topic, partition, earliest: of(earliest), latest: of(latest) }
    })
  }

  async groups(): Promise<readonly string[]> {
    const { groups } = await asked<Readonly<{ groups: readonly Readonly<{ groupId: string }>[] }>>(
      'The consumer groups cannot be listed',
      (done) => this.#client.listGroups({ timeout: this.#timeout }, done),
    )
    return groups.map(({ groupId }) => groupId)
  }

  async committed(group: string): Promise<readonly CommittedOffset[]> {
    const what = `The offsets of group ${group} cannot be read`
    const [answer] = await asked<readonly { error?: NativeError; partitions: readonly NativePartition[] }[]>(
      what,
      (done) => this.#client.listConsumerGroupOffsets([{ groupId: group }], { timeout: this.#timeout }, done),
    )
    if (answer?.error !== undefined) throw kafkaError(what, answer.error)
    return committedOffsets(answer?.partitions ?? [])
  }

  async deleteTopics(topics: readonly string[]): Promise<void> {
    await Promise.all(
      topics.map((topic) => {
        const what = `The topic ${topic} could not be deleted`
        return asked<void>(what, (done) => this.#client.deleteTopic(topic, this.#timeout, done))
      }),
    )
  }

  async deleteGroups(groups: readonly string[]): Promise<void> {
    if (groups.length === 0) return
    const what = `The consumer groups ${groups.join(', ')} could not be deleted`
    const answers = await asked<readonly { error?: NativeError }[]>(what, (done) =>
      this.#client.deleteGroups(groups, { timeout: this.#timeout }, done),
    )
    const failed = answers.find(({ error }) => error !== undefined)?.error
    if (failed !== undefined) throw kafkaError(what, failed)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#client.disconnect()
  }

  async #offsets(partitions: readonly Partition[], offset: unknown): Promise<readonly NativePartition[]> {
    const what = 'The ends of partitions cannot be read'
    const wanted = partitions.map(({ topic, partition }) => ({ topic, partition, offset }))
    const answers = await asked<readonly NativePartition[]>(what, (done) =>
      this.#client.listOffsets(wanted, { timeout: this.#timeout }, done),
    )
    const failed = answers.find(({ error }) => error !== undefined && error.code !== 0)?.error
    if (failed !== undefined) throw kafkaError(what, failed)
    return answers
  }
}
