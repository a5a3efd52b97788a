import type { Reason } from './outcome.ts'

export const deliveryStatuses = ['pending', 'processing', 'delivered', 'failed', 'dead_letter'] as const
export type DeliveryStatus = (typeof deliveryStatuses)[number]
export const settledStatuses = ['delivered', 'failed', 'dead_letter'] as const satisfies readonly DeliveryStatus[]

/** What every delivery has, whatever its status. */
export type DeliveryFacts = Readonly<{
  id: string
  eventId: string
  endpointId: string
  /** The ordered lane inside the endpoint; null when order does not matter. */
  lane: string | null
  receivedAt: number
  /** Every try ever made: the number on the wire. */
  attempts: number
  /** Tries since the event arrived or was last replayed: what the retry policy counts. */
  triesInBudget: number
  /** Bumped by every write; the version a claim returns is its fencing token. */
  version: number
  /** When the last failure said to try again; null until a failure. */
  retryAfter: number | null
  lastError: string | null
  lastAttemptAt: number | null
  replayedAt: number | null
}>

/** Waiting. `dueAt` null means: behind another delivery in its lane. */
export type Pending = DeliveryFacts & Readonly<{ status: 'pending'; dueAt: number | null }>
/** Taken by a dispatcher, until the lease ends. */
export type Processing = DeliveryFacts & Readonly<{ status: 'processing'; leaseEndsAt: number }>
export type Delivered = DeliveryFacts & Readonly<{ status: 'delivered'; deliveredAt: number }>
export type Failed = DeliveryFacts & Readonly<{ status: 'failed'; reason: Reason; settledAt: number }>
export type DeadLetter = DeliveryFacts & Readonly<{ status: 'dead_letter'; reason: Reason; settledAt: number }>

export type Delivery = Pending | Processing | Delivered | Failed | DeadLetter
export type Settled = Delivered | Failed | DeadLetter

export const statusClasses = ['2xx', '3xx', '4xx', '5xx'] as const
export type StatusClass = (typeof statusClasses)[number]

/** Which deliveries are meant: all conditions hold. */
export type DeliveryFilter = Readonly<{
  tenant?: string
  /** One of these. */
  statuses?: readonly DeliveryStatus[]
  endpointId?: string
  eventId?: string
  /** The replay that requeued it last. */
  replayId?: string
  /** The key of its event. */
  key?: string
  /** The type of its event, or a pattern of types (core/routing). */
  type?: string
  /** The HTTP status of its last attempt is in one of these classes. */
  statusClasses?: readonly StatusClass[]
  reason?: Reason
  /** None of these. */
  exceptReasons?: readonly Reason[]
  /** Text that occurs in lastError. */
  error?: string
  /** receivedAt >= from, < to. */
  from?: number
  to?: number
  /** It ended at this instant or before. */
  settledBy?: number
  ids?: readonly string[]
}>

export const deadStatuses = ['failed', 'dead_letter'] as const satisfies readonly DeliveryStatus[]

/** What dead letters can be grouped by. */
export const groupings = ['error', 'endpoint', 'type', 'reason'] as const
export type GroupBy = (typeof groupings)[number]

/** What a store keeps of a status besides the facts. `dueAt`: of what is in hand, the end of its lease. */
export type KeptStatus = Readonly<{
  status: DeliveryStatus
  dueAt: number | null
  settledAt: number
  reason: Reason
}>

export function deliveryOf(facts: DeliveryFacts, { status, dueAt, settledAt, reason }: KeptStatus): Delivery {
  switch (status) {
    case 'pending':
      return { ...facts, status, dueAt }
    case 'processing':
      return { ...facts, status, leaseEndsAt: dueAt ?? 0 }
    case 'delivered':
      return { ...facts, status, deliveredAt: settledAt }
    case 'failed':
      return { ...facts, status, reason, settledAt }
    case 'dead_letter':
      return { ...facts, status, reason, settledAt }
  }
}

export function isSettled(status: DeliveryStatus): boolean {
  return status === 'delivered' || status === 'failed' || status === 'dead_letter'
}

/** What is true of a delivery before anything has happened to it. */
export function newborn(
  given: Pick<DeliveryFacts, 'id' | 'eventId' | 'endpointId' | 'lane' | 'receivedAt'>,
): DeliveryFacts {
  return {
    id: given.id,
    eventId: given.eventId,
    endpointId: given.endpointId,
    lane: given.lane,
    receivedAt: given.receivedAt,
    attempts: 0,
    triesInBudget: 0,
    version: 1,
    retryAfter: null,
    lastError: null,
    lastAttemptAt: null,
    replayedAt: null,
  }
}

/**
 * The facts of a delivery for its next version. Field by field, so that a lease or a reason does not travel into a status
 * that has none.
 */
export function advanced(delivery: Delivery): DeliveryFacts {
  return {
    id: delivery.id,
    eventId: delivery.eventId,
    endpointId: delivery.endpointId,
    lane: delivery.lane,
    receivedAt: delivery.receivedAt,
    attempts: delivery.attempts,
    triesInBudget: delivery.triesInBudget,
    version: delivery.version + 1,
    retryAfter: delivery.retryAfter,
    lastError: delivery.lastError,
    lastAttemptAt: delivery.lastAttemptAt,
    replayedAt: delivery.replayedAt,
  }
}
