import type { Attempt } from '../core/attempt.ts'
import type { Condition } from '../core/condition.ts'
import type { Delivery, Pending, Processing } from '../core/delivery.ts'
import type { Event } from '../core/event.ts'
import type { BornEnded } from '../core/lifecycle.ts'
import type { Reason } from '../core/outcome.ts'
import type { EndedDelivery } from './upkeep-store.ts'

/** The part of the store port that the way of an event crosses: kept, claimed, changed. Every write takes a batch. */
export interface PipelineStore {
  /**
   * Keeps events and their deliveries, all of one call or none of it. Order of acceptance is the order of calls and,
   * inside a call, of the batch.
   *
   * An arrival whose idempotency key is known answers with the first event when the fingerprint is the same. With
   * another fingerprint it is a conflict: then nothing of the call is kept and only the conflicts are told.
   *
   * An arrival whose origin is known answers with the first event from there, whatever its key and content are.
   *
   * A delivery that asks to be claimed is born `processing` under the lease, if its lane is free. In a lane that is
   * not free it waits behind the others, however it asked. A delivery to an endpoint that was removed meanwhile is
   * kept as `failed` with reason `endpoint_deleted`. One that is born ended is kept as `failed` with its reason and its
   * attempt, holds up no lane, and can be replayed like any other.
   */
  append(arrivals: readonly Arrival[]): Promise<Appended>

  /**
   * Takes due work under a lease: pending deliveries of one endpoint, longest due first, or the named ones whether
   * due or not. Only the head of an ordered lane can be taken. What is claimed reads `processing` and is given to
   * nobody else before its lease ends. The bodies fit into `bytesMax` in sum; if the first does not, nothing is taken.
   * A large body (`largeBytesMin`) is the same object wherever it is given out, as long as somebody holds it. A delivery whose lease ended without an outcome comes back with the count of
   * such ends in `interruptions`. One with `aloneFrom` or more of them is never claimed together
   * with others.
   */
  claim(request: ClaimRequest): Promise<ClaimAnswer>

  /**
   * The only way an outcome of an attempt is written. A change applies if the delivery still has the version before the new one;
   * otherwise it is stale and changes nothing. Its attempt, if any, goes to the attempt log with it. When a change
   * ends the head of an ordered lane, the next in line becomes due, or, with `claimNext`, is claimed and returned.
   * That one has no interruptions: only a head can have been in hand. One with a large body becomes due in any case:
   * whoever claims it says what fits into memory.
   */
  commit(changes: readonly Change[]): Promise<readonly ChangeResult[]>

  /**
   * What waits in a lane behind the named delivery, in the order of the lane: read, not claimed. It may have changed when
   * the answer comes; a change that `follows` finds out.
   */
  ahead(request: AheadRequest): Promise<readonly Upcoming[]>

  /** Moves the end of the leases of these deliveries, if they are still `processing` with this version. */
  renew(leases: readonly LeaseRenewal[]): Promise<void>

  /**
   * For every endpoint with pending deliveries that are not behind another, or with lapsed leases: when the first is
   * due. And every removed endpoint at which anything is pending.
   */
  backlog(now: number): Promise<readonly Backlog[]>

  /**
   * Pulls due times of one endpoint back that a clock which ran ahead has left: after a failure to `latestDueAt`, and of
   * what no failure has put off to `untriedDueAt`. With `lastError` only those whose last error begins with it. Answers
   * how many.
   */
  pullBack(request: PullBackRequest): Promise<number>

  /**
   * Ends at most `limit` deliveries of a removed endpoint as failed that are pending, or whose lease has lapsed; answers
   * which. Fewer than `limit` means: none is left.
   */
  endPending(request: EndPendingRequest): Promise<readonly EndedDelivery[]>
  /** The breaker, the hold, the failing and the last error of endpoints, kept so that they survive a restart. */
  putConditions(conditions: readonly Condition[]): Promise<void>
  /** Of every endpoint for which one was put: the last. */
  listConditions(): Promise<readonly Condition[]>
}

export type Arrival = Readonly<{
  event: Event
  idempotency: Idempotency | null
  /** Default: none. */
  origin?: Origin
  deliveries: readonly NewDelivery[]
}>

/** Where an event was read (an outbox row, a Kafka record): known for as long as the event is kept. */
export type Origin = Readonly<{ scope: string; id: string }>

/** A key is known within its scope: a tenant, or a source. */
export type Idempotency = Readonly<{ scope: string; key: string; fingerprint: string; expiresAt: number }>

export type NewDelivery = Readonly<{
  id: string
  endpointId: string
  lane: string | null
  /** Not before this, if it has to wait. */
  dueAt: number
  /** When the lease ends if the dispatcher wants it at once; null when it is to wait. */
  leaseEndsAt: number | null
  /** It has ended already. Default: it has not. */
  ended?: BornEnded
}>

export type Appended =
  | Readonly<{ kind: 'kept'; items: readonly AppendedItem[] }>
  /** Indexes into the batch of the arrivals that re-used a key for something else. */
  | Readonly<{ kind: 'conflict'; conflicts: readonly number[] }>

export type AppendedItem = Readonly<{
  eventId: string
  deliveries: number
  duplicate: boolean
  /** Which of the arrival's deliveries were claimed, in their order. Empty for a duplicate. */
  claimed: readonly boolean[]
  /** Places of those that were born ended, or ended at once, because their endpoint was removed meanwhile. */
  ended: readonly number[]
}>

export type EndPendingRequest = Readonly<{ endpointId: string; reason: Reason; now: number; limit: number }>

/** A body of this size or more is in memory once, however many deliveries need it. Smaller ones may be copied. */
export const largeBytesMin = 16 * 1_024

/** Work in hand: a claimed delivery with its event. */
export type Claim<E = Event> = Readonly<{ delivery: Processing; event: E; interruptions: number }>

export type ClaimRequest = Readonly<{
  /** Either what is due at one endpoint, or these deliveries. */
  from: Readonly<{ endpointId: string }> | Readonly<{ deliveryIds: readonly string[] }>
  now: number
  leaseEndsAt: number
  limit: number
  /** The bodies are not larger than this in sum. */
  bytesMax: number
  /** Default null: all may be claimed together. */
  aloneFrom?: number | null
}>

export type ClaimAnswer<E = Event> = Readonly<{
  claims: readonly Claim<E>[]
  /** Nothing was taken because the first body has this many bytes, more than `bytesMax`; otherwise null. */
  tooLarge: number | null
  /** When the next pending delivery of the endpoint is due (may be in the past); null: none waits. */
  nextDueAt: number | null
}>

export type AheadRequest = Readonly<{
  endpointId: string
  lane: string
  /** The id of a delivery of this lane. */
  after: string
  limit: number
  /** The bodies are not larger than this in sum. */
  bytesMax: number
}>

/** Not in hand yet: it waits in its lane. */
export type Upcoming<E = Event> = Readonly<{ delivery: Pending; event: E }>

export type PullBackRequest = Readonly<{
  endpointId: string
  latestDueAt: number
  untriedDueAt: number
  lastError?: string
}>

export type Change = Readonly<{
  /** The delivery as it shall be; its version is one more than the one it was claimed or read with. */
  to: Delivery
  attempt: Attempt | null
  /** When the lease of the lane's next delivery ends if the dispatcher wants it at once; null to leave it waiting. */
  claimNext: number | null
  /** It came back from a try, whatever that brought: its interruptions are forgotten. Default false. */
  ran?: boolean
  /**
   * It was never claimed: its lane's head is the change right before it in this call, and ends with it. Applied only if
   * that one was, and this one is still next in its lane with the version it was read with; otherwise it is stale (and
   * so is what follows it), and the head's end brings up the next as always. Default false.
   */
  follows?: boolean
}>

export type ChangeResult =
  | Readonly<{ kind: 'applied'; next: Claim | null; released: boolean }>
  | Readonly<{ kind: 'stale' }>

export type LeaseRenewal = Readonly<{ deliveryId: string; version: number; leaseEndsAt: number }>

export type Backlog = Readonly<{ endpointId: string; nextDueAt: number }>
