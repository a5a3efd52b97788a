import type { Delivery, DeliveryFacts, DeliveryStatus } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { type Cell, type CellsOf, placesOf } from './rows.ts'

/** The columns of a delivery that never change. */
const fixedNames = ['id', 'lane', 'received_at'] as const

/** Those that a change writes. A new one has its line here, in `toFacts` and in `changedCellsOf`. */
export const changedNames = [
  'version',
  'status',
  'due_at',
  'attempts',
  'tries_in_budget',
  'retry_after',
  'last_error',
  'last_attempt_at',
  'replayed_at',
  'settled_at',
  'reason',
] as const
const deliveryNames = [...fixedNames, ...changedNames] as const

export const deliveryAt = placesOf(deliveryNames)
export const deliveryCells = deliveryNames.length
export const deliveryColumns = deliveryNames.map((name) => `d.${name}`).join(', ')

/** ?1 is the row key, ?2 says whether interruptions still count, and then come the changed cells, the version first. */
export const changeDeliverySql = `
  UPDATE deliveries SET ${changedNames.map((name, place) => `${name} = ?${place + 3}`).join(', ')},
    interruptions = interruptions * ?2
  WHERE no = ?1 AND version = ?3 - 1`

export function toFacts(row: readonly Cell[], at: number, ids: { eventId: string; endpointId: string }): DeliveryFacts {
  return {
    id: row[at + deliveryAt.id] as string,
    eventId: ids.eventId,
    endpointId: ids.endpointId,
    lane: row[at + deliveryAt.lane] as string | null,
    receivedAt: row[at + deliveryAt.received_at] as number,
    attempts: row[at + deliveryAt.attempts] as number,
    triesInBudget: row[at + deliveryAt.tries_in_budget] as number,
    version: row[at + deliveryAt.version] as number,
    retryAfter: row[at + deliveryAt.retry_after] as number | null,
    lastError: row[at + deliveryAt.last_error] as string | null,
    lastAttemptAt: row[at + deliveryAt.last_attempt_at] as number | null,
    replayedAt: row[at + deliveryAt.replayed_at] as number | null,
  }
}

export function toDelivery(row: readonly Cell[], at: number, ids: { eventId: string; endpointId: string }): Delivery {
  const facts = toFacts(row, at, ids)
  const status = row[at + deliveryAt.status] as DeliveryStatus
  const dueAt = row[at + deliveryAt.due_at] as number | null
  const settledAt = row[at + deliveryAt.settled_at] as number
  const reason = row[at + deliveryAt.reason] as Reason
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

export function changedCellsOf(delivery: Delivery): CellsOf<typeof changedNames> {
  const [dueAt, settledAt, reason] = statusCells(delivery)
  return [
    delivery.version,
    delivery.status,
    dueAt,
    delivery.attempts,
    delivery.triesInBudget,
    delivery.retryAfter,
    delivery.lastError,
    delivery.lastAttemptAt,
    delivery.replayedAt,
    settledAt,
    reason,
  ]
}

/** What a status says beyond the facts: due_at, settled_at, reason. */
function statusCells(delivery: Delivery): readonly [number | null, number | null, Reason | null] {
  switch (delivery.status) {
    case 'pending':
      return [delivery.dueAt, null, null]
    case 'processing':
      return [delivery.leaseEndsAt, null, null]
    case 'delivered':
      return [null, delivery.deliveredAt, null]
    case 'failed':
      return [null, delivery.settledAt, delivery.reason]
    case 'dead_letter':
      return [null, delivery.settledAt, delivery.reason]
  }
}
