import { Buffer } from 'node:buffer'
import type { Consuming } from '../app.ts'
import { Consumer } from '../consumer/consumer.ts'
import { DeadLetterTopic } from '../consumer/dead-letter-topic.ts'
import { Dependencies } from '../consumer/dependencies.ts'
import { runThrough } from '../consumer/run-record.ts'
import type { ConsumerSnapshot } from '../consumer/snapshot.ts'
import type { ConsumerSettings } from '../core/consumer.ts'
import { PosthornError } from '../core/errors.ts'
import type { Code, Engine, ModuleCode, OwnEngine, RecordHandler } from '../engines/engine.ts'
import type { KafkaDriver, KafkaRecord, Partition } from '../kafka/driver.ts'
import { type ConsumerWish, consumerSchema, consumerSettings } from '../server/consumer-schema.ts'
import { Dedup } from '../shared-state/dedup.ts'
import { codeOf, nowhere, workersOf } from './handler-code.ts'
import type { DurationOption, RetryOption } from './options.ts'
import { invalid, readGiven } from './reading.ts'

export type ConsumerOptions = Readonly<{
  /** What it is called in logs; by default its group. */
  name?: string
  topics: string | readonly string[]
  group: string
  /** A function, or the URL of a module that exports one. */
  handler: RecordHandler | URL
  /** Which records wait for each other: those of one key (the default), of one partition, or none. */
  ordering?: 'key' | 'partition' | 'none'
  /** Attempts at once in this process; 16 by default. */
  concurrency?: number
  timeout?: DurationOption
  retry?: RetryOption
  maxRetries?: number
  retryBackoffMs?: number
  exponentialBackoff?: boolean
  maxRetryBackoffMs?: number
  retryJitterMs?: number
  /** Where a record goes that cannot be processed: a topic beside its own, or (false) only into the log. */
  dlq?: 'topic' | false
  dlqEnabled?: boolean
  dlqTopicSuffix?: string
  /** By what a copy of a message is known for five minutes; false (the default): copies are processed. */
  dedup?: 'key' | 'offset' | Readonly<{ header: string }> | false
  /** What becomes of records while something that they need is down. */
  whenOpen?: 'park' | 'skip' | 'fail'
  /** So large a share of the latest records may become dead letters; beyond it everything waits. */
  budget?: Readonly<{ share: number; window: number }> | false
  protocol?: 'classic' | 'consumer'
  start?: 'earliest' | 'latest'
  engine?: 'async' | 'process'
  workers?: number
  export?: string
}>

/** A consumer that runs in this process. */
export interface ConsumerHandle {
  readonly name: string
  /** Resolves when it is connected and begins to poll; rejects when it cannot. */
  readonly ready: Promise<void>
  /** Starts nothing more until it is resumed. */
  pause(): void
  /** Goes on, whatever holds it. */
  resume(): void
  /** Passes a record that waits, parks or cannot become a dead letter, and is first in its lane. Answers whether it was passed. */
  skip(at: Partition, offset: number): Promise<boolean>
  /** Closes the breaker of a dependency. */
  resetDependency(name: string): Promise<void>
  snapshot(): ConsumerSnapshot | null
  /** Lets what is under way end, commits what is done and leaves the group. May be called twice. */
  stop(): Promise<void>
}

/** Of a message that nobody has acknowledged for so long, nobody knows whether it was kept: it is sent again. */
const deadLetterMsMax = 30_000
const lingerMs = 5

/** The consumers of this process. */
export class Consumers {
  readonly #parts: Consuming
  readonly #schema: ReturnType<typeof consumerSchema>
  readonly #running = new Set<RunningConsumer>()

  constructor(parts: Consuming) {
    this.#parts = parts
    this.#schema = consumerSchema(parts.presets)
  }

  open({ handler, ...options }: ConsumerOptions): ConsumerHandle {
    const what = `The consumer of ${[options.topics].flat().join(', ')}`
    const wish = readGiven(this.#schema, options, what)
    const found = codeOf(handler, wish, nowhere)
    if ('problems' in found) throw invalid(what, found.problems)
    const { kafkaBrokers, dlqTopicSuffix } = this.#parts.config
    if (kafkaBrokers === null) {
      throw new PosthornError(
        'config_invalid',
        `${what} needs a broker: set POSTHORN_KAFKA_BROKERS, or kafkaBrokers in code.`,
      )
    }
    const settings = consumerSettings(wish, dlqTopicSuffix)
    const running = new RunningConsumer(this.#parts, {
      wish,
      settings,
      code: found.code,
      brokers: kafkaBrokers,
      onStopped: (stopped) => this.#running.delete(stopped),
    })
    this.#running.add(running)
    running.start()
    return running
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running].map((running) => running.stop()))
  }
}

type Opened = Readonly<{
  wish: ConsumerWish
  settings: ConsumerSettings
  code: Code
  brokers: string
  onStopped: (consumer: RunningConsumer) => void
}>

/** One consumer with what only it uses: its engine, its producer of dead letters. */
class RunningConsumer implements ConsumerHandle {
  readonly #parts: Consuming
  readonly #opened: Opened
  #consumer: Consumer | null = null
  /** Before it has started, too. */
  #isPaused = false
  #starting: Promise<void> | null = null
  #closers: (() => Promise<void> | void)[] = []
  #stopped: Promise<void> | null = null

  constructor(parts: Consuming, opened: Opened) {
    this.#parts = parts
    this.#opened = opened
  }

  get name(): string {
    return this.#opened.settings.name
  }

  get ready(): Promise<void> {
    return this.#starting ?? Promise.resolve()
  }

  start(): void {
    this.#starting = this.#start()
    this.#starting.catch((err) => {
      this.#parts.log.error({ err, consumer: this.name }, 'consumer.not_started')
      return this.stop()
    })
  }

  pause(): void {
    this.#isPaused = true
    this.#consumer?.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.#consumer?.resume()
  }

  async skip(at: Partition, offset: number): Promise<boolean> {
    return (await this.#consumer?.skip(at, offset)) ?? false
  }

  async resetDependency(name: string): Promise<void> {
    await this.#consumer?.resetDependency(name)
  }

  snapshot(): ConsumerSnapshot | null {
    return this.#consumer?.snapshot() ?? null
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    await this.#starting?.catch(() => {})
    await this.#consumer?.stop()
    for (const close of this.#closers.reverse()) await close()
    this.#closers = []
    this.#opened.onStopped(this)
  }

  async #start(): Promise<void> {
    const { kafka, state, clock, log } = this.#parts
    const { wish, settings, code, brokers } = this.#opened
    const { name, topics, group, timeoutMs, ordering, dlq } = settings
    const engine = await this.#engineFor(code)
    const driver = await kafka()
    const connection = this.#connection(brokers)
    const deadLetters = dlq === false ? null : await this.#deadLetterTopic(driver)
    const messageId = messageIdOf(wish.dedup)
    const dedup = new Dedup({ state, clock, log, scope: name, leaseMs: 2 * timeoutMs })
    const { protocol = 'classic', start = 'earliest' } = wish
    this.#consumer = new Consumer({
      settings,
      join: (owner) => driver.openConsumer({ ...connection, topics, group, protocol, start }, owner),
      run: runThrough({ consumer: name, code, engine, timeoutMs, ordering, clock }),
      deadLetters,
      dependencies: new Dependencies({ state, clock, log, timeoutMs }),
      copies: messageId === null ? null : { dedup, messageId },
      clock,
      log,
      random: Math.random,
    })
    if (this.#isPaused) this.#consumer.pause()
    await this.#consumer.start()
  }

  #connection(brokers: string) {
    const { config, log } = this.#parts
    let last = ''
    const onProblem = (problem: Error) => {
      // The client repeats itself while a broker is away.
      if (problem.message !== last) log.warn({ consumer: this.name, problem: problem.message }, 'kafka.problem')
      last = problem.message
    }
    return { brokers, settings: config.kafkaSettings ?? {}, onProblem }
  }

  async #deadLetterTopic(driver: KafkaDriver): Promise<DeadLetterTopic> {
    const { brokers, settings } = this.#opened
    const connection = this.#connection(brokers)
    const admin = driver.openAdmin(connection)
    this.#closers.push(() => admin.close())
    const openProducer = () => driver.openProducer({ ...connection, messageMsMax: deadLetterMsMax, lingerMs })
    const deadLetters = new DeadLetterTopic({ admin, openProducer, suffix: settings.dlqTopicSuffix })
    this.#closers.push(() => deadLetters.close())
    await deadLetters.prepare(settings.topics)
    return deadLetters
  }

  async #engineFor(code: Code): Promise<Engine> {
    const { engines } = this.#parts
    const { wish, settings } = this.#opened
    if (wish.engine !== 'process') {
      if (typeof code !== 'function') await loaded(engines.async, code, this.name)
      return engines.async
    }
    const own: OwnEngine = engines.openProcesses(
      this.name,
      workersOf({ workers: wish.workers, concurrency: settings.concurrency }),
    )
    this.#closers.push(() => own.stop())
    await loaded(own, code as ModuleCode, this.name)
    return own
  }
}

/** Code that cannot be used is told before a record is read. */
async function loaded(engine: Engine, code: Code, name: string): Promise<void> {
  const { thrown } = await engine.load(code)
  if (thrown !== null)
    throw new PosthornError('invalid', `The handler of the consumer ${name} cannot be used: ${thrown.message}`)
}

/** null: copies are not looked for. */
function messageIdOf(dedup: ConsumerWish['dedup']): ((record: KafkaRecord) => string) | null {
  const byOffset = ({ topic, partition, offset }: KafkaRecord) => `${topic}/${partition}@${offset}`
  if (dedup === undefined || dedup === false) return null
  if (dedup === 'offset') return byOffset
  if (dedup === 'key')
    return (record) =>
      record.key === null ? byOffset(record) : `${record.topic}=${Buffer.from(record.key).toString('latin1')}`
  const { header } = dedup
  return (record) => {
    const value = record.headers.find(([name]) => name === header)?.[1]
    return value === undefined ? byOffset(record) : `=${Buffer.from(value).toString('latin1')}`
  }
}
