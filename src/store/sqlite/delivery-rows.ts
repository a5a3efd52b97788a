import { type Delivery, type DeliveryFacts, type DeliveryStatus, deliveryOf } from '../../core/delivery.ts'
import type { Birth } from '../../core/lifecycle.ts'
import type { Reason } from '../../core/outcome.ts'
import { placesOf } from '../places.ts'
import { type Cell, type CellsOf, questionMarks } from './rows.ts'

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

/** Its keys and its place, what never changes, and then the cells that changes write. */
export const insertDeliverySql = `
  INSERT INTO deliveries (no, event_no, endpoint_no, position, ${deliveryNames.join(', ')})
  VALUES (?, ?, ?, ?, ${questionMarks(deliveryNames)})`

/** The same for one that arrives, with what its birth says. The defaults of all other columns are those of `newborn`. */
export const insertArrivedSql = `
  INSERT INTO deliveries (no, event_no, endpoint_no, position, ${fixedNames.join(', ')}, version, status, due_at, settled_at, reason)
  VALUES (?, ?, ?, ?, ${questionMarks(fixedNames)}, 1, ?, ?, ?, ?)`

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
  return deliveryOf(toFacts(row, at, ids), {
    status: row[at + deliveryAt.status] as DeliveryStatus,
    dueAt: row[at + deliveryAt.due_at] as number | null,
    settledAt: row[at + deliveryAt.settled_at] as number,
    reason: row[at + deliveryAt.reason] as Reason,
  })
}

/** In the order of `insertDeliverySql`, after the keys and the place. */
export function newCellsOf(delivery: Delivery): readonly Cell[] {
  return [delivery.id, delivery.lane, delivery.receivedAt, ...changedCellsOf(delivery)]
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
export function statusCells(delivery: Delivery | Birth): readonly [number | null, number | null, Reason | null] {
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
