import {
  type Delivery,
  type DeliveryFilter,
  type DeliveryStatus,
  deadStatuses,
  deliveryStatuses,
  isSettled,
  type Pending,
  type Processing,
  type Settled,
  settledStatuses,
} from './delivery.ts'
import { formatDuration } from './duration.ts'
import { askedFor, isUnwanted, type Reason } from './outcome.ts'

/**
 * What may be replayed, recovered, retried, discarded, cancelled, expired or ended unserved. A store translates the filters
 * that come from here into its own language and adds no condition of its own. What it found is judged again when it is
 * changed, as it is then.
 */

/** What a replay brings back: dead letters by filter, or what an endpoint should have had since an instant. */
export type Selection =
  | Readonly<{ kind: 'deliveries'; filter: DeliveryFilter }>
  | Readonly<{ kind: 'recover'; endpointId: string; since: number; until?: number; only: RecoverOnly }>

/** `missing` are events that the endpoint wants and has no delivery of; `all` also sends again what was delivered. */
export const recoverOnly = ['failed', 'missing', 'all'] as const
export type RecoverOnly = (typeof recoverOnly)[number]

/** A selection that makes deliveries. It is found by walking over events: what is missing is not among deliveries. */
export type Recovery = Extract<Selection, { kind: 'recover' }> & Readonly<{ only: 'missing' | 'all' }>

export function isRecovery(selection: Selection): selection is Recovery {
  return selection.kind === 'recover' && selection.only !== 'failed'
}

/** How many dead letters a replay leaves out, unless it asks for the reason. */
export type LeftOut = Readonly<Record<(typeof askedFor)[number], number>>

/** A selection of what has no delivery yet: none of those that exist is meant. */
export function isOfMissing(selection: Selection): boolean {
  return selection.kind === 'recover' && selection.only === 'missing'
}

// ── Deliveries ────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * The deliveries that a job means, of those that exist: all that it requeues, except for the deliveries that a recovery
 * makes. A job of one tenant never reaches another's.
 */
export function selectedDeliveries(selection: Selection, tenant: string | null): DeliveryFilter {
  const filter = filterOf(selection)
  if (tenant === null) return replayable(filter)
  if (filter.tenant !== undefined && filter.tenant !== tenant) return { ...filter, statuses: [] }
  return replayable({ ...filter, tenant })
}

/**
 * Which deliveries a replay with this filter means: dead letters unless it names other statuses, never what is still
 * under way, and what a person cancelled or whose endpoint was deleted only when that reason is asked for.
 */
export function replayable(filter: DeliveryFilter): DeliveryFilter {
  const statuses = (filter.statuses ?? deadStatuses).filter(isSettled)
  return filter.reason === undefined ? { ...filter, statuses, exceptReasons: askedFor } : { ...filter, statuses }
}

/** Which dead letters are grouped: of the statuses that the filter names only these. */
export function deadOnly(filter: DeliveryFilter): DeliveryFilter {
  const { statuses } = filter
  return { ...filter, statuses: deadStatuses.filter((status) => statuses === undefined || statuses.includes(status)) }
}

/** Which deliveries may be discarded: dead letters that were settled at this instant or before. */
export function discardable(filter: DeliveryFilter, settledBy: number): DeliveryFilter {
  return { ...deadOnly(filter), settledBy }
}

/** Which deliveries may be cancelled. */
export function cancellable(filter: DeliveryFilter): DeliveryFilter {
  return { ...filter, statuses: deliveryStatuses.filter(isWaiting) }
}

// ── One delivery, when its turn comes ─────────────────────────────────────────────────────────────────────────────

/** What is in hand cannot be called back, and what has ended stays as it is. */
export function mayCancel(delivery: Delivery): delivery is Pending {
  return isWaiting(delivery.status)
}

/** What is in hand comes back by itself, and is judged then. */
export function mayExpire(delivery: Delivery): delivery is Pending {
  return isWaiting(delivery.status)
}

/** Whether a person's retry makes sense: what is in hand is being tried. */
export function mayRetry(delivery: Delivery): delivery is Pending | Settled {
  return delivery.status !== 'processing'
}

/** Whether a delivery of a removed endpoint ends: nobody has it in hand, or whoever had it has let its lease lapse. */
export function mayEndUnserved(delivery: Delivery, now: number): delivery is Pending | Processing {
  if (delivery.status === 'processing') return delivery.leaseEndsAt <= now
  return isWaiting(delivery.status)
}

export function mayDiscard(status: DeliveryStatus, settledAt: number | null, settledBy: number): boolean {
  return isDead(status) && settledAt !== null && settledAt <= settledBy
}

/** Whether a delivery that was selected may be requeued now: it has ended, and somebody is there to take it. */
export function mayRequeue(delivery: Delivery, isEndpointGone: boolean): delivery is Settled {
  return isSettled(delivery.status) && !isEndpointGone
}

function isWaiting(status: DeliveryStatus): boolean {
  return status === 'pending'
}

function isDead(status: DeliveryStatus): boolean {
  return (deadStatuses as readonly DeliveryStatus[]).includes(status)
}

function filterOf(selection: Selection): DeliveryFilter {
  if (selection.kind === 'deliveries') return selection.filter
  const { endpointId, since: from, until, only } = selection
  const statuses = only === 'all' ? settledStatuses : deadStatuses
  return until === undefined ? { endpointId, from, statuses } : { endpointId, from, to: until, statuses }
}

// ── Recovery, event by event ──────────────────────────────────────────────────────────────────────────────────────

/** Received since this instant is all that the selection can mean; null: from the beginning. */
export function selectionStart(selection: Selection): number | null {
  return selection.kind === 'deliveries' ? (selection.filter.from ?? null) : selection.since
}

/** Whether a job reaches what belongs to an endpoint of this tenant. */
export function reachesTenant(jobTenant: string | null, tenant: string): boolean {
  return jobTenant === null || jobTenant === tenant
}

/**
 * Whether a recovery still has its endpoint, and may reach it. `tenant` is the endpoint's; null: it is gone. Without it, all
 * that is left is skipped.
 */
export function mayRecoverTo(jobTenant: string | null, tenant: string | null): boolean {
  return tenant !== null && reachesTenant(jobTenant, tenant)
}

/** Whether an event may be recovered at all. If so, its deliveries to the endpoint have to be counted. */
export function mayRecover({ since, until, only }: Recovery, receivedAt: number, isWanted: boolean): boolean {
  if (receivedAt < since || (until !== undefined && receivedAt >= until)) return false
  return isWanted || only === 'all'
}

/** What a recovery does about such an event: make a delivery, send its deliveries again, or nothing. */
export function recoveryStep(only: Recovery['only'], isWanted: boolean, deliveries: number): 'make' | 'again' | 'none' {
  if (deliveries > 0) return only === 'all' ? 'again' : 'none'
  return isWanted ? 'make' : 'none'
}

/** Whether a recovery sends this delivery again. */
export function mayGoAgain(status: DeliveryStatus, reason: Reason | null): boolean {
  return isSettled(status) && (reason === null || isUnwanted(reason))
}

/** A relative time such as "7d ago" is a little more than that when the request arrives. */
const slackMs = 60_000

/**
 * What is wrong with the start of a recovery; null: nothing. Where the record of what was delivered is gone, all of it
 * looks as if it had never been sent.
 */
export function recoveryProblem(selection: Selection, now: number, recordKeptMs: number): string | null {
  if (!isRecovery(selection) || selection.since >= now - recordKeptMs - slackMs) return null
  const kept = formatDuration(recordKeptMs)
  return `since: what was delivered is on record for ${kept}, and would be sent again if it were earlier; name a later instant.`
}
