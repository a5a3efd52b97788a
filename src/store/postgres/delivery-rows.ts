import { type Delivery, type DeliveryFacts, deliveryOf, type Processing } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import type { Row } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { idOf } from './row-keys.ts'

/** What a claim gives of a delivery, as `toProcessing` reads it. Then come the columns of its event. */
const claimNames = [
  ...['id', 'lane', 'received_at', 'version', 'attempts', 'tries_in_budget', 'retry_after', 'last_error'],
  ...['last_attempt_at', 'replayed_at', 'endpoint', 'due_at', 'interruptions'],
]
export const claimCells = claimNames.length
const interruptionsAt = claimNames.indexOf('interruptions')
const endpointAt = claimNames.indexOf('endpoint')

export function endpointNoIn(row: Row, at: number): number {
  return row[at + endpointAt] as number
}

export function interruptionsIn(row: Row, at: number): number {
  return row[at + interruptionsAt] as number
}

/** In the order of `claimNames`. Cell by cell: rows are read for every claim. */
function toFacts(row: Row, at: number, endpoints: EndpointTable, eventKey: string): DeliveryFacts {
  return {
    id: idOf('dlv', row[at] as string),
    eventId: idOf('evt', eventKey),
    endpointId: endpoints.idOf(endpointNoIn(row, at)),
    lane: row[at + 1] as string | null,
    receivedAt: row[at + 2] as number,
    version: row[at + 3] as number,
    attempts: row[at + 4] as number,
    triesInBudget: row[at + 5] as number,
    retryAfter: row[at + 6] as number | null,
    lastError: row[at + 7] as string | null,
    lastAttemptAt: row[at + 8] as number | null,
    replayedAt: row[at + 9] as number | null,
  }
}

/** `at`: where its columns begin; those of its event follow. */
export function toProcessing(row: Row, at: number, endpoints: EndpointTable): Processing {
  const facts = toFacts(row, at, endpoints, row[at + claimCells] as string)
  return { ...facts, status: 'processing', leaseEndsAt: row[at + endpointAt + 1] as number }
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
export const heldColumns = [...claimNames, 'event_id'].map((name) => `d.${name}`).join(', ')
export const deliveryColumns = `${heldColumns}, d.status, d.reason, d.settled_at`
export const deliveryCells = claimCells + 4

export function toDelivery(row: Row, at: number, endpoints: EndpointTable): Delivery {
  const facts = toFacts(row, at, endpoints, row[at + claimCells] as string)
  const [status, reason, settledAt] = row.slice(at + claimCells + 1) as [Delivery['status'], Reason, number]
  return deliveryOf(facts, { status, dueAt: row[at + endpointAt + 1] as number | null, settledAt, reason })
}
