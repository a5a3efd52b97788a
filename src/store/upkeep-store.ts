import type { Correction } from '../core/clock.ts'
import type { Reason } from '../core/outcome.ts'
import type { Retention } from '../core/retention.ts'

export type { Retention } from '../core/retention.ts'

/**
 * The part of the store port that lets nothing grow without bound. Every call does a bounded piece of work. Instants of
 * rows are judged as `correction` (core/clock) corrects them.
 */
export interface UpkeepStore {
  /**
   * Ends deliveries of an endpoint as dead_letter, reason `expired`, that are pending (not leased) and whose
   * max(receivedAt, replayedAt) is plausible (core/clock) and before `bornBefore`; looks at no more than `limit` rows after `after`. The next in an
   * ordered lane becomes due.
   */
  expire(request: ExpireRequest): Promise<Expired>

  /**
   * Looks at the next rows of one subject after `after`, at most `limit`, and deletes those that were kept long enough:
   *
   * - `events`, oldest first: their deliveries whose time is over (with their attempts), and the events of which none is
   *   left. One that went to nobody goes when its own time is over (core/retention).
   * - `keys`: idempotency keys that ended before `now`.
   * - `replays`: jobs that ended and settled before `before`.
   * - `dead_letter_counts`: counts of hours that ended before `before`.
   */
  prune(request: PruneRequest): Promise<Pruned>

  /**
   * How many deliveries became dead letters since `at` (from the beginning of its hour), by endpoint and reason: counted
   * in one transaction with their end, whatever became of them later, removed endpoints included. The cost depends on
   * the number of endpoints that have failed, not on the number of deliveries.
   */
  deadLettersSince(at: number): Promise<readonly DeadLetterCount[]>

  /** What waits, and what is dead, by endpoint. Read on the side: it delays nobody. */
  stats(): Promise<StoreStats>

  /**
   * How many ordered lanes have deliveries that wait and none that is due or in hand. Such a lane stands still: this is a
   * proof that there is none, and not a repair. Read on the side.
   */
  headlessLanes(): Promise<number>
}

/** Where a call ended, in words that only the store understands. As `after` of a request, null means: from the beginning. */
export type Cursor = string

export type ExpireRequest = Readonly<{
  endpointId: string
  bornBefore: number
  /** When what expires ends, and the next in its lane is due: steady time. */
  now: number
  correction?: Correction | null
  limit: number
  after: Cursor | null
}>

export type Expired = Readonly<{
  deliveries: readonly EndedDelivery[]
  /** Where to go on; null: that was all. */
  after: Cursor | null
}>
/** A delivery that ended without a try, and what there is to tell of it. */
export type EndedDelivery = Readonly<{ deliveryId: string; eventId: string; tenant: string; type: string }>

export type PruneRequest = PruneSubject & Readonly<{ limit: number; after: Cursor | null }>

export type PruneSubject =
  | Readonly<{ what: 'events'; now: number; correction?: Correction | null; retention: Retention }>
  | Readonly<{ what: 'keys'; now: number; correction?: Correction | null }>
  | Readonly<{ what: 'replays'; before: number }>
  | Readonly<{ what: 'dead_letter_counts'; before: number }>

export type Pruned = Readonly<{
  /** Rows of the subject. */
  deleted: number
  /** Deliveries of events, also of events that stay. */
  deliveries: number
  /** Where to go on; null: that was all. */
  after: Cursor | null
  /** When the youngest event that was looked at was received; null: there was none. */
  youngestAt: number | null
}>

/** Of an hour or longer. */
export type DeadLetterCount = Readonly<{ endpointId: string; tenant: string; reason: Reason; count: number }>

export type StoreStats = Readonly<{
  /** Endpoints with pending deliveries: how many, and when the oldest of them was received. */
  backlog: readonly Readonly<{ endpointId: string; pending: number; oldestAt: number }>[]
  /** Dead letters that are kept, and at which endpoints. */
  deadLetters: number
  deadLettersAt: readonly Readonly<{ endpointId: string; count: number }>[]
}>

/** For a store whose files Posthorn keeps small itself. One that a database server keeps has no such part. */
export interface StoreSpace {
  /** Gives free space back to the file system, at most `pagesMax` pages; answers how many pages are still free. */
  shrink(pagesMax: number): Promise<number>

  /** Read on the side: it delays nobody. */
  sizes(): Promise<SpaceSizes>
}

export type SpaceSizes = Readonly<{
  fileBytes: number
  walBytes: number
  /** Of the file, what holds nothing. */
  freeBytes: number
}>
