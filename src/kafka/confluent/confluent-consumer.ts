import type {
  CommittedOffset,
  ConsumerOptions,
  KafkaConsumer,
  KafkaRecord,
  Partition,
  PartitionOwner,
} from '../driver.ts'
import { KafkaError } from '../kafka-error.ts'
import { Assignment, nameOf } from './assignment.ts'
import { Commits, metadataProblem } from './commits.ts'
import { answerMsMaxDefault, configured, connect, disconnect } from './connection.ts'
import type { Native, NativeConsumer, NativeError, NativeMessage, NativePartition } from './native.ts'
import { asked, kafkaError, kindOf, thrown } from './problems.ts'
import { committedOffsets, recordOf } from './records.ts'
import { consumerSettings } from './settings.ts'

const pollRecordsMaxDefault = 1_000
/** A poll that finds nothing returns after so long. It holds one thread of Node's pool meanwhile. */
const pollMsMax = 100
/** Smaller than the client's own: it would wait a second after its queue was full, and that queue would hold 64 MB. */
const fetching = { 'fetch.queue.backoff.ms': 10, 'queued.min.messages': 20_000 }
/** By then a client that is closed says what it gives up. */
const leaveMsMax = 10_000
const assign = -175
const revoke = -174
const pollTooLate = -147

export class ConfluentConsumer implements KafkaConsumer {
  readonly #client: NativeConsumer
  readonly #owner: PartitionOwner
  readonly #options: ConsumerOptions
  readonly #assignment = new Assignment()
  readonly #commits: Commits
  /** What is done while no records are on their way from the client: each of them, one after the other. */
  #between: Promise<void> = Promise.resolve()
  /** How much of it is to be done. */
  #waiting = 0
  #consuming: Promise<readonly NativeMessage[]> | null = null
  /** Assigning and revoking, one after the other. */
  #rebalancing: Promise<void> = Promise.resolve()
  #rebalances = 0
  #failure: unknown = null
  #closed: Promise<void> | null = null

  static async open(native: Native, options: ConsumerOptions, owner: PartitionOwner): Promise<ConfluentConsumer> {
    const consumer = configured(() => new ConfluentConsumer(native, options, owner))
    await connect(consumer.#client, options)
    consumer.#client.subscribe(options.topics)
    return consumer
  }

  private constructor(native: Native, options: ConsumerOptions, owner: PartitionOwner) {
    this.#owner = owner
    this.#options = options
    const settings = {
      ...fetching,
      ...consumerSettings(options),
      rebalance_cb: (error: NativeError, partitions: readonly NativePartition[]) => this.#rebalance(error, partitions),
      offset_commit_cb: (error: NativeError | null | undefined) => this.#commits.answered(error),
    }
    const client = new native.KafkaConsumer(settings)
    client.setDefaultConsumeTimeout(pollMsMax)
    client.setDefaultIsTimeoutOnlyForFirstMessage(true)
    this.#client = client
    this.#commits = new Commits((offsets) => client.commit(offsets))
  }

  async poll(): Promise<readonly KafkaRecord[]> {
    this.#check()
    await this.#nothingBetween()
    this.#check()
    const messages = await this.#consume()
    this.#check()
    return messages.filter((message) => this.#assignment.stateOf(message) === 'serving').map(recordOf)
  }

  pause(partitions: readonly Partition[]): void {
    this.#client.pause(plain(this.#assignment.pause(partitions)))
  }

  resume(partitions: readonly Partition[]): void {
    this.#client.resume(plain(this.#assignment.resume(partitions)))
  }

  async seek(partition: Partition, offset: number): Promise<void> {
    await this.#betweenPolls(async () => {
      if (this.#assignment.stateOf(partition) !== 'serving') throw notOurs([partition])
      const what = `${nameOf(partition)} cannot be read from offset ${offset} on`
      await asked<void>(what, (done) => this.#client.seek({ ...partition, offset }, this.#answerMsMax, done))
    })
  }

  async commit(offsets: readonly CommittedOffset[]): Promise<void> {
    await this.#commits.commit(offsets, () => {
      const strange = offsets.filter((offset) => this.#assignment.stateOf(offset) === null)
      return strange.length > 0 ? notOurs(strange) : metadataProblem(offsets)
    })
  }

  async committed(partitions: readonly Partition[]): Promise<readonly CommittedOffset[]> {
    const what = `The offsets of group ${this.#options.group} cannot be read`
    const found = await asked<readonly NativePartition[]>(what, (done) =>
      this.#client.committed(plain(partitions), this.#answerMsMax, done),
    )
    return committedOffsets(found)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  /** Leaving takes polls too. A commit in a revoke that `disconnect` had caused would come too late. */
  async #close(): Promise<void> {
    await this.#consuming
    this.#client.unsubscribe()
    const giveUpAt = performance.now() + leaveMsMax
    // The owner takes its time; the client does not, once it was told.
    while (this.#rebalances > 0 || (!this.#assignment.isEmpty && performance.now() < giveUpAt)) {
      await this.#nothingBetween()
      await this.#consume()
    }
    this.#commits.close()
    await disconnect((done) => this.#client.disconnect(done))
  }

  get #answerMsMax(): number {
    return this.#options.answerMsMax ?? answerMsMaxDefault
  }

  #check(): void {
    if (this.#closed !== null) throw new KafkaError('closed', 'The Kafka consumer is closed.')
    if (this.#failure !== null) throw this.#failure
  }

  async #consume(): Promise<readonly NativeMessage[]> {
    const { promise, resolve } = Promise.withResolvers<readonly NativeMessage[]>()
    this.#consuming = promise
    this.#client.consume(this.#options.pollRecordsMax ?? pollRecordsMaxDefault, (error, messages) => {
      if (error) this.#noteProblem(error)
      resolve(error ? [] : messages)
    })
    const messages = await promise
    this.#consuming = null
    return messages
  }

  /** What the client gets over by itself is reported; after the rest it would say the same for ever. */
  #noteProblem(error: NativeError): void {
    // The partitions are lost, which comes as a rebalance.
    if (error.code === pollTooLate) return
    const problem = kafkaError('The Kafka consumer has a problem', error)
    const kind = kindOf(error)
    if (kind === 'closed' || kind === 'fenced') this.#fail(problem)
    else this.#options.onProblem?.(problem)
  }

  /** Polls reject from now on. */
  #fail(problem: unknown): void {
    this.#failure ??= problem
  }

  async #betweenPolls(work: () => Promise<void>): Promise<void> {
    this.#waiting += 1
    const done = this.#between.then(() => this.#consuming).then(work)
    const noteEnd = () => {
      this.#waiting -= 1
    }
    this.#between = done.then(noteEnd, noteEnd)
    await done
  }

  async #nothingBetween(): Promise<void> {
    while (this.#waiting > 0) await this.#between
  }

  #rebalance(error: NativeError, partitions: readonly NativePartition[]): void {
    const parts = plain(partitions)
    // The client knows this during its call only.
    const isLost = error.code === revoke && this.#client.assignmentLost()
    this.#rebalances += 1
    const turn = this.#rebalancing.then(() => this.#turnOf(error, parts, isLost))
    this.#rebalancing = turn
      .catch((problem) => this.#fail(problem))
      .finally(() => {
        this.#rebalances -= 1
      })
  }

  async #turnOf(error: NativeError, partitions: readonly Partition[], isLost: boolean): Promise<void> {
    if (error.code === assign) await this.#assign(partitions)
    else if (error.code !== revoke) this.#noteProblem(error)
    else if (isLost) this.#lose(partitions)
    else await this.#revoke(partitions)
  }

  /** The client waits for its partitions to be assigned and given up, whatever the owner makes of it. */
  async #assign(partitions: readonly Partition[]): Promise<void> {
    this.#assignment.set(partitions, 'coming')
    if (partitions.length > 0) await this.#owner.assigned(partitions).catch((error) => this.#fail(error))
    // Records that are on their way are of an earlier assignment.
    await this.#betweenPolls(async () => {
      this.#client.incrementalAssign(partitions)
      this.#assignment.set(partitions, 'serving')
      // To the client, a pause outlasts the assignment.
      this.#client.resume(partitions)
      this.#client.pause(partitions.filter((partition) => this.#assignment.isPaused(partition)))
    })
  }

  async #revoke(partitions: readonly Partition[]): Promise<void> {
    this.#assignment.set(partitions, 'leaving')
    if (partitions.length > 0) await this.#owner.revoked(partitions).catch((error) => this.#fail(error))
    this.#assignment.remove(partitions)
    this.#giveUp(partitions)
  }

  #lose(partitions: readonly Partition[]): void {
    this.#assignment.remove(partitions)
    if (partitions.length > 0) this.#owner.lost(partitions)
    this.#giveUp(partitions)
  }

  #giveUp(partitions: readonly Partition[]): void {
    try {
      this.#client.incrementalUnassign(partitions)
    } catch (error) {
      // They are gone already.
      this.#options.onProblem?.(thrown(`${partitions.map(nameOf).join(', ')} could not be given up`, error))
    }
  }
}

/** Without offsets, which the client would take for a place to begin at. */
function plain(partitions: readonly Partition[]): readonly Partition[] {
  return partitions.map(({ topic, partition }) => ({ topic, partition }))
}

function notOurs(partitions: readonly Partition[]): KafkaError {
  return new KafkaError('lost', `Not assigned to this consumer: ${partitions.map(nameOf).join(', ')}.`)
}
