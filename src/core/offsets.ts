import { decodeDone, encodeDone, type OffsetRange } from './offset-metadata.ts'

/** What is committed for a partition: every offset below it is done. */
export type Committable = Readonly<{ offset: number; metadata: string }>

/**
 *   fresh     process it
 *   done      it was processed before the restart: do not process it again
 *   repeated  it is not above the last one received: the partition was rewound, and what is known of it is void
 */
export type Reception = 'fresh' | 'done' | 'repeated'

/**
 * Which records of one partition are done, from its assignment to its end. It knows the offsets that were received and
 * nothing in between: offsets that compaction, retention or transaction markers leave out count as done.
 */
export class Offsets {
  /** Those received and not known to be done with all below them, ascending, from `#head` on. */
  #received: number[] = []
  #head = 0
  /** Of them, those that are done. */
  readonly #completed = new Set<number>()
  /** Done before the restart, ascending; those below `#restoredAt` are passed. */
  #restored: readonly OffsetRange[]
  #restoredAt = 0
  #last: number | null = null
  /** Where to go on after a restart if nothing received is incomplete; null: nobody knows yet. */
  #position: number | null

  /** `committed`: what the group has committed for the partition, with its metadata; null: nothing. */
  constructor(committed: Readonly<{ offset: number; metadata: string | null }> | null) {
    this.#position = committed?.offset ?? null
    this.#restored = committed === null ? [] : decodeDone(committed.offset, committed.metadata)
  }

  /** How many received ones are not done. */
  get incomplete(): number {
    return this.#received.length - this.#head - this.#completed.size
  }

  /** Of the oldest one that is not done; null: all are. */
  get lowestIncomplete(): number | null {
    return this.#received[this.#head] ?? null
  }

  received(offset: number): Reception {
    if (this.#last !== null && offset <= this.#last) return 'repeated'
    // The partition starts below what was committed, as after its topic was made anew: these are other records.
    if (this.#last === null && offset < (this.#position ?? 0)) this.#restored = []
    this.#last = offset
    this.#received.push(offset)
    if (!this.#wasDone(offset)) return 'fresh'
    this.completed(offset)
    return 'done'
  }

  /** Each offset is completed once, after it was received. */
  completed(offset: number): void {
    this.#completed.add(offset)
    for (let at = this.#received[this.#head]; at !== undefined && this.#completed.delete(at); ) {
      this.#position = at + 1
      this.#head += 1
      at = this.#received[this.#head]
    }
    // So that what is done takes no memory, and each offset is moved about once.
    if (this.#head * 2 <= this.#received.length) return
    this.#received = this.#received.slice(this.#head)
    this.#head = 0
  }

  /** What can be committed now; null: nothing was committed or received yet. */
  committable(metadataBytesMax?: number): Committable | null {
    const offset = this.lowestIncomplete ?? this.#position
    return offset === null ? null : { offset, metadata: encodeDone(offset, this.#doneAbove(offset), metadataBytesMax) }
  }

  #wasDone(offset: number): boolean {
    let range = this.#restored[this.#restoredAt]
    while (range !== undefined && range.to <= offset) {
      this.#restoredAt += 1
      range = this.#restored[this.#restoredAt]
    }
    return range !== undefined && range.from <= offset
  }

  /** Offsets that were never received join the range below them. */
  #doneAbove(offset: number): readonly OffsetRange[] {
    const ranges: OffsetRange[] = []
    let from: number | null = null
    for (let at = this.#head; at < this.#received.length; at++) {
      const received = this.#received[at] ?? offset
      const isDone = this.#completed.has(received)
      if (isDone) from ??= received
      if (isDone || from === null) continue
      ranges.push({ from, to: received })
      from = null
    }
    const end = (this.#last ?? offset - 1) + 1
    if (from !== null) ranges.push({ from, to: end })
    const ahead = this.#restored.slice(this.#restoredAt).filter(({ to }) => to > end)
    return [...ranges, ...ahead.map((range) => ({ from: Math.max(range.from, end, offset), to: range.to }))]
  }
}
