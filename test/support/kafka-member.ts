import type { TestContext } from 'node:test'
import type {
  ConsumerOptions,
  KafkaConsumer,
  KafkaDriver,
  KafkaRecord,
  Partition,
  PartitionOwner,
} from '../../src/kafka/driver.ts'
import { eventually } from './eventually.ts'

/** What a member does when it is told of its partitions. */
export type Doing = Readonly<{
  onAssigned?: (member: Member, partitions: readonly Partition[]) => Promise<void>
  onRevoked?: (member: Member, partitions: readonly Partition[]) => Promise<void>
}>

/** A consumer that polls, and notes what it is told and what it gets. */
export class Member implements PartitionOwner {
  readonly records: KafkaRecord[] = []
  /** In their order, such as `assigned 0 1`. */
  readonly events: string[] = []
  readonly mine = new Set<number>()
  readonly problems: string[] = []
  readonly #doing: Doing
  #consumer: KafkaConsumer | null = null
  #polling: Promise<void> | null = null
  #mayPoll = true

  private constructor(doing: Doing) {
    this.#doing = doing
  }

  static async open(t: TestContext, driver: KafkaDriver, options: ConsumerOptions, doing: Doing = {}): Promise<Member> {
    const member = new Member(doing)
    const onProblem = ({ kind }: { kind: string }) => member.problems.push(kind)
    member.#consumer = await driver.openConsumer({ onProblem, ...options }, member)
    t.after(() => member.close())
    member.start()
    return member
  }

  get consumer(): KafkaConsumer {
    if (this.#consumer === null) throw new Error('it is not open yet')
    return this.#consumer
  }

  async assigned(partitions: readonly Partition[]): Promise<void> {
    this.#note('assigned', partitions)
    await this.#doing.onAssigned?.(this, partitions)
    for (const { partition } of partitions) this.mine.add(partition)
  }

  async revoked(partitions: readonly Partition[]): Promise<void> {
    this.#note('revoked', partitions)
    for (const { partition } of partitions) this.mine.delete(partition)
    await this.#doing.onRevoked?.(this, partitions)
    this.#note('gave up', partitions)
  }

  lost(partitions: readonly Partition[]): void {
    this.#note('lost', partitions)
    for (const { partition } of partitions) this.mine.delete(partition)
  }

  start(): void {
    this.#mayPoll = true
    this.#polling = this.#poll()
    // `stop` says so.
    this.#polling.catch(() => {})
  }

  /** Resolves when no poll is under way. */
  async stop(): Promise<void> {
    this.#mayPoll = false
    await this.#polling
  }

  async close(): Promise<void> {
    await this.stop()
    await this.consumer.close()
  }

  /** What has come of one partition. */
  of(partition: number): readonly number[] {
    return this.records.filter((record) => record.partition === partition).map(({ offset }) => offset)
  }

  async untilRecords(count: number): Promise<void> {
    await this.#until(`${count} records arrive`, () => this.records.length >= count)
  }

  async untilMine(count: number): Promise<void> {
    await this.#until(`it has ${count} partitions`, () => this.mine.size === count)
  }

  async untilEvent(word: string): Promise<void> {
    await this.#until(`"${word}" is told`, () => this.events.some((event) => event.startsWith(word)))
  }

  async untilProblem(kind: string): Promise<void> {
    await this.#until(`${kind} is reported`, () => this.problems.includes(kind))
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    await eventually(what, async () => (holds() ? true : null)).catch((error) => {
      const { events, problems, records } = this
      throw new Error(`${error.message} ${JSON.stringify({ events, problems, records: records.length })}`)
    })
  }

  async #poll(): Promise<void> {
    while (this.#mayPoll) this.records.push(...(await this.consumer.poll()))
  }

  #note(word: string, partitions: readonly Partition[]): void {
    const numbers = partitions.map(({ partition }) => partition).sort((a, b) => a - b)
    this.events.push(`${word} ${numbers.join(' ')}`)
  }
}
