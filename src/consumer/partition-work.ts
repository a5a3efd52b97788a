import { Buffer } from 'node:buffer'
import { type ConsumerOrdering, laneOfRecord } from '../core/consumer.ts'
import { type Committable, Offsets } from '../core/offsets.ts'
import type { CommittedOffset, KafkaRecord, Partition } from '../kafka/driver.ts'
import { Queue } from './queue.ts'
import { RecordWork } from './record-work.ts'

/** So many offsets above the oldest one that is not done are known at most: each takes memory. */
const spanMax = 100_000

/**
 * One partition from its assignment to its end: its records in memory, in lanes, and which offsets are done.
 *
 *   open     its records are tried
 *   closing  it goes to another member: what is under way ends, and nothing begins
 *   gone     it is not ours: what ends now changes nothing
 */
export class PartitionWork implements Partition {
  readonly topic: string
  readonly partition: number
  /** Higher with each assignment in this process. */
  readonly epoch: number
  readonly #ordering: ConsumerOrdering
  readonly #offsets: Offsets
  readonly #lanes = new Map<string, Queue<RecordWork>>()
  readonly #underway = new Set<RecordWork>()
  readonly #ending = new AbortController()
  readonly #closing = new AbortController()
  #state: 'open' | 'closing' | 'gone' = 'open'
  #leaderEpoch: number | null = null
  #last: number | null = null
  #committed: Committable | null
  /** Why dead letters cannot be written, by the offset of the record. */
  readonly #blocked = new Map<number, string>()
  #onIdle: (() => void) | null = null

  constructor(at: Partition, epoch: number, ordering: ConsumerOrdering, committed: CommittedOffset | null) {
    this.topic = at.topic
    this.partition = at.partition
    this.epoch = epoch
    this.#ordering = ordering
    this.#committed = committed
    this.#offsets = new Offsets(committed)
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  get isGone(): boolean {
    return this.#state === 'gone'
  }

  /** Aborts when what is under way no longer matters. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** Aborts when nothing more may begin. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  get committed(): Committable | null {
    return this.#committed
  }

  /** Why its dead letters cannot be written, so that its offset stands; null: they can, as far as we know. */
  get blocked(): string | null {
    return this.#blocked.values().next().value ?? null
  }

  /** Too many records were received above the oldest one that is not done. */
  get isTooFarAhead(): boolean {
    const { lowestIncomplete } = this.#offsets
    return lowestIncomplete !== null && (this.#last ?? 0) - lowestIncomplete > spanMax
  }

  /** The oldest record that is not done, if it is in memory. */
  find(offset: number): RecordWork | null {
    for (const lane of this.#lanes.values()) {
      if (lane.first?.record.offset === offset) return lane.first
    }
    return null
  }

  /** `rewound`: the partition starts again at a lower offset. null: it is done already. */
  receive(record: KafkaRecord): RecordWork | 'rewound' | null {
    const reception = this.#offsets.received(record.offset)
    if (reception === 'repeated') return 'rewound'
    this.#leaderEpoch = record.leaderEpoch
    this.#last = record.offset
    if (reception === 'done') return null
    const key = record.key === null ? null : Buffer.from(record.key).toString('latin1')
    const name = laneOfRecord(this.#ordering, { offset: record.offset, key })
    const lane = this.#lanes.get(name) ?? new Queue<RecordWork>()
    this.#lanes.set(name, lane)
    const work = new RecordWork(record, this, name)
    lane.push(work)
    return work
  }

  isHead(work: RecordWork): boolean {
    return this.#lanes.get(work.lane)?.first === work
  }

  begin(work: RecordWork): void {
    this.#underway.add(work)
  }

  /** Nothing happens to it at this moment. */
  rest(work: RecordWork): void {
    this.#underway.delete(work)
    if (this.#underway.size === 0) this.#onIdle?.()
  }

  /** It is done, whatever became of it. Answers the next of its lane. */
  complete(work: RecordWork): RecordWork | null {
    this.rest(work)
    this.block(work.record.offset, null)
    this.#offsets.completed(work.record.offset)
    const lane = this.#lanes.get(work.lane)
    lane?.shift()
    const next = lane?.first
    if (next !== undefined) return next
    this.#lanes.delete(work.lane)
    return null
  }

  /** What can be committed and is not; null: nothing. */
  get uncommitted(): CommittedOffset | null {
    const now = this.#offsets.committable()
    if (now === null || this.isGone) return null
    const { offset, metadata } = now
    if (this.#committed?.offset === offset && this.#committed.metadata === metadata) return null
    return { topic: this.topic, partition: this.partition, offset, metadata, leaderEpoch: this.#leaderEpoch }
  }

  noteCommitted(offset: Committable): void {
    this.#committed = offset
  }

  /** null: no longer. */
  block(offset: number, why: string | null): void {
    if (why === null) this.#blocked.delete(offset)
    else this.#blocked.set(offset, why)
  }

  /** Resolves when nothing of it is under way. */
  async close(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closing'
    this.#closing.abort()
    if (this.#underway.size === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
  }

  /** Aborts what is under way. */
  leave(): void {
    this.#state = 'gone'
    this.#closing.abort()
    this.#ending.abort()
    for (const work of this.records()) work.forgetDue()
    this.#lanes.clear()
    this.#onIdle?.()
  }

  /** Everything in memory. */
  *records(): Generator<RecordWork> {
    for (const lane of this.#lanes.values()) yield* lane
  }
}
