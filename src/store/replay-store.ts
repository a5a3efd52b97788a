import type { DeliveryFilter, GroupBy } from '../core/delivery.ts'
import type { Ordering } from '../core/endpoint.ts'
import type { Reason } from '../core/outcome.ts'
import type { Replay, ReplayStatus } from '../core/replay.ts'
import type { Selection } from '../core/selection.ts'
import type { Page } from './record-store.ts'
import type { EndedDelivery } from './upkeep-store.ts'

/** The part of the store port for dead letters: what there is, bringing it back, and deleting it. */
export interface ReplayStore {
  /** Dead letters that match, by what they have in common, largest group first, at most `limit`. */
  groupDeadLetters(filter: DeliveryFilter, by: GroupBy, limit: number): Promise<readonly DeadLetterGroup[]>

  /**
   * Deletes dead letters that match and were settled at `settledBy` or before, with their attempts, oldest first, at
   * most `limit`; answers how many. An event stays until upkeep finds that nothing needs it. Deliveries of any other
   * status are never touched.
   */
  discard(filter: DeliveryFilter, limit: number, settledBy: number): Promise<number>

  /**
   * The ids of pending deliveries that match, newest first, at most `limit`, older than the delivery `before`. Fewer than
   * `limit` means: that was all.
   */
  findWaiting(filter: DeliveryFilter, before: string | null, limit: number): Promise<readonly string[]>

  /**
   * Ends those of these deliveries that are still pending as failed with reason `cancelled`, in this order, and answers
   * with them. The next of a lane whose head ends becomes due. What is in hand or has ended stays as it is.
   */
  cancelWaiting(deliveryIds: readonly string[], now: number): Promise<readonly CancelledDelivery[]>

  /** How many a job with this selection would match, for the job of one tenant or (null) of all. */
  countSelection(selection: Selection, tenant: string | null): Promise<number>

  /**
   * Keeps a new job. What it may touch is fixed here: deliveries (for `missing`: events) that exist at this instant, so
   * that one which fails again is not brought back a second time. `matched` is counted here.
   */
  createReplay(replay: Omit<Replay, 'matched'>): Promise<Replay>
  /** A job as it is now; null: there is none with this id, or it was pruned. */
  getReplay(id: string): Promise<Replay | null>
  /** Newest first. */
  listReplays(query: ReplayQuery): Promise<Page<Replay>>
  /** Sets the status if it is still `from`; answers the job as it is then, or null when there is none. */
  changeReplay(id: string, from: ReplayStatus, to: ReplayStatus, now: number): Promise<Replay | null>

  /**
   * Requeues the next of a running job, at most `limit`, oldest first, in one transaction with the job's progress: a
   * crash neither skips one nor requeues one twice. Each gets a fresh budget, its numbering goes on, and in an
   * ordered lane it goes to the tail. A job with nothing left becomes `finished`. Does nothing when it is not running.
   *
   * A step looks at a bounded number of rows, so it may requeue fewer than `limit`, or none, and not be the last:
   * the job's status tells. In a job that recovers `missing` or `all` of an endpoint that is gone, all that is left
   * is skipped.
   *
   * When a requeued delivery ends, by whichever call, that same transaction counts it as `delivered` or `failedAgain`
   * of the job that requeued it, once. Only its first end after the requeue counts: when somebody else requeues it
   * later, it is no longer the job's. With its last outcome a `finished` job becomes `settled`; a `cancelled` one keeps
   * its status and gets `settledAt`.
   */
  stepReplay(step: ReplayStep): Promise<ReplayStepped>
}

export type CancelledDelivery = EndedDelivery & Readonly<{ endpointId: string }>

export type DeadLetterGroup = Readonly<{
  /** The folded error (core/error-groups; the reason where there is none), the endpoint's id, the type, or the reason. */
  common: string
  count: number
  /** How many endpoints are concerned. */
  endpoints: number
  firstAt: number
  lastAt: number
  reasons: readonly Reason[]
  /** The newest delivery of the group. */
  sample: string
}>

export type ReplayQuery = Readonly<{
  tenant?: string
  status?: ReplayStatus
  /** Only those with deliveries whose outcome is not known yet. */
  waiting?: true
  limit: number
  cursor?: string
}>

export type ReplayStep = Readonly<{
  id: string
  limit: number
  now: number
  /** For `missing` and `all`: the types, the tenant and the ordering of the endpoint as it is now. */
  recover: Readonly<{ types: readonly string[]; tenant: string; ordering: Ordering }> | null
  /** Ids for deliveries that have to be made, as many as `limit`. Empty for jobs that make none. */
  newIds: readonly string[]
}>

export type ReplayStepped = Readonly<{
  /** The job after the step; null when there is none. */
  replay: Replay | null
  /** Endpoints that have something due now. */
  endpointIds: readonly string[]
}>
