import { type Delivery, type DeliveryFacts, deliveryOf, type Processing } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { placesOf } from '../places.ts'
import type { Row } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { idOf } from './row-keys.ts'

/** What a claim gives of a delivery, as `toProcessing` reads it. Then come the columns of its event. */
const claimNames = [
  'id',
  'lane',
  'received_at',
  'version',
  'attempts',
  'tries_in_budget',
  'retry_after',
  'last_error',
  'last_attempt_at',
  'replayed_at',
  'endpoint',
  'due_at',
  'interruptions',
] as const
const claimAt = placesOf(claimNames)
export const claimCells = claimNames.length

export function endpointNoIn(row: Row, at: number): number {
  return row[at + claimAt.endpoint] as number
}

export function interruptionsIn(row: Row, at: number): number {
  return row[at + claimAt.interruptions] as number
}

function toFacts(row: Row, at: number, endpoints: EndpointTable, eventKey: string): DeliveryFacts {
  return {
    id: idOf('dlv', row[at + claimAt.id] as string),
    eventId: idOf('evt', eventKey),
    endpointId: endpoints.idOf(endpointNoIn(row, at)),
    lane: row[at + claimAt.lane] as string | null,
    receivedAt: row[at + claimAt.received_at] as number,
    version: row[at + claimAt.version] as number,
    attempts: row[at + claimAt.attempts] as number,
    triesInBudget: row[at + claimAt.tries_in_budget] as number,
    retryAfter: row[at + claimAt.retry_after] as number | null,
    lastError: row[at + claimAt.last_error] as string | null,
    lastAttemptAt: row[at + claimAt.last_attempt_at] as number | null,
    replayedAt: row[at + claimAt.replayed_at] as number | null,
  }
}

/** `at`: where its columns begin; those of its event follow. */
export function toProcessing(row: Row, at: number, endpoints: EndpointTable): Processing {
  const facts = toFacts(row, at, endpoints, row[at + claimCells] as string)
  return { ...facts, status: 'processing', leaseEndsAt: row[at + claimAt.due_at] as number }
}

/**
 * Live and ended deliveries as one. The columns are those of a claim, then the event's key, who owns it, and what has
 * become of it: `toDelivery` reads them.
 */
export function deliveriesSql(schema: string): string {
  const common = 'id, lane, received_at, version, attempts, tries_in_budget'
  return `(
    SELECT ${common}, retry_after, last_error, last_attempt_at, replayed_at, endpoint, due_at, interruptions, event_id,
      CASE WHEN owner IS NULL THEN 'pending' ELSE 'processing' END AS status, NULL::text AS reason,
      NULL::bigint AS settled_at, replay
    FROM ${schema}.live
    UNION ALL
    SELECT ${common}, NULL, last_error, last_attempt_at, replayed_at, endpoint, NULL, 0, event_id, status, reason,
      settled_at, replay
    FROM ${schema}.ended)`
}

/** For `toProcessing`. */
const heldNames = [...claimNames, 'event_id'] as const
export const heldColumns = heldNames.map((name) => `d.${name}`).join(', ')

const deliveryNames = [...heldNames, 'status', 'reason', 'settled_at'] as const
const deliveryAt = placesOf(deliveryNames)
export const deliveryColumns = deliveryNames.map((name) => `d.${name}`).join(', ')
export const deliveryCells = deliveryNames.length

export function toDelivery(row: Row, at: number, endpoints: EndpointTable): Delivery {
  const facts = toFacts(row, at, endpoints, row[at + deliveryAt.event_id] as string)
  return deliveryOf(facts, {
    status: row[at + deliveryAt.status] as Delivery['status'],
    dueAt: row[at + deliveryAt.due_at] as number | null,
    settledAt: row[at + deliveryAt.settled_at] as number,
    reason: row[at + deliveryAt.reason] as Reason,
  })
}
