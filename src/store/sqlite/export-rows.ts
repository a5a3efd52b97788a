import { advanced, type Delivery, isSettled, type Pending, type Settled } from '../../core/delivery.ts'
import { numberOf } from '../../core/id.ts'
import { dueAfterInterruption, interruptionsAfter } from '../../core/lifecycle.ts'
import type { Reason } from '../../core/outcome.ts'
import type { RegistryKind } from '../../core/registry.ts'
import { endpointRecordOf, type KeptDelivery, type RecordKind, type Records } from '../import-records.ts'
import type { SecretBox } from '../secret-box.ts'
import { attemptColumns, toAttempt } from './attempt-rows.ts'
import { deliveryColumns, toDelivery } from './delivery-rows.ts'
import { eventColumns, toEvent } from './event-rows.ts'
import { toItem } from './registry.ts'
import { replayAt, replayColumns, toReplay } from './replay-rows.ts'
import type { Cell } from './rows.ts'

/** What rows name by number. */
export type Named = Readonly<{
  box: SecretBox
  endpointId: (no: number) => string
  /** When the event with this number arrived; 0: it is gone. */
  receivedAt: (eventNo: number) => number
}>

/** How the records of one kind are read: the key comes first in a row, then what the record is made of. */
export type Reading<T> = Readonly<{
  /** The cells of a key that is before all others. */
  start: readonly Cell[]
  /** Its parameters are those of the key. */
  sql: string
  toRecord: (row: readonly Cell[], named: Named) => T
}>

export const readings: { readonly [K in RecordKind]: Reading<Records[K]> } = {
  endpoints: {
    start: [0],
    sql: `
      SELECT no, id, tenant, removed, breaker, held_until, failing_since, last_error, last_error_at
      FROM endpoints WHERE no > ? ORDER BY no`,
    toRecord: (row) => endpointRecordOf(row, row[3] === 1),
  },
  registry: {
    start: ['', ''],
    sql: `
      SELECT kind, id, version, scope, name, settings, secrets FROM registry
      WHERE (kind, id) > (?, ?) ORDER BY kind, id`,
    toRecord: ([kind, id, version, scope, name, settings, secrets], { box }) => ({
      kind: kind as RegistryKind,
      version: version as number,
      unique: name === null ? null : { scope: scope as string, name: name as string },
      item: toItem({ id, settings, secrets } as Parameters<typeof toItem>[0], box),
    }),
  },
  replays: {
    start: [0],
    sql: `SELECT no, ${replayColumns} FROM replays WHERE no > ? ORDER BY no`,
    toRecord: ([no, ...row]) => ({
      no: no as number,
      replay: toReplay(row),
      doneNo: Math.max(0, row[replayAt.done_no] as number),
      lastNo: Math.max(0, row[replayAt.last_no] as number),
    }),
  },
  events: {
    start: [-1],
    sql: `SELECT e.no, ${eventColumns} FROM events e WHERE e.no > ? ORDER BY e.no`,
    toRecord: (row) => toEvent(row, 1),
  },
  deliveries: {
    start: [-1],
    sql: `
      SELECT d.no, d.endpoint_no, d.position, d.interruptions, d.replay_no, e.id, e.size, ${deliveryColumns}
      FROM deliveries d JOIN events e ON e.no = d.event_no WHERE d.no > ? ORDER BY d.no`,
    toRecord: toKeptDelivery,
  },
  attempts: {
    start: [-1, -1],
    sql: `
      SELECT a.delivery_no, a.number, d.id, ${attemptColumns} FROM attempts a JOIN deliveries d ON d.no = a.delivery_no
      WHERE (a.delivery_no, a.number) > (?, ?) ORDER BY a.delivery_no, a.number`,
    toRecord: ([_no, _number, id, ...row]) => ({ deliveryId: id as string, attempt: toAttempt(row) }),
  },
  idempotencyKeys: {
    start: ['', ''],
    sql: `
      SELECT scope, key, fingerprint, event_id, deliveries, expires_at FROM idempotency_keys
      WHERE (scope, key) > (?, ?) ORDER BY scope, key`,
    toRecord: ([scope, key, fingerprint, eventId, deliveries, expiresAt], { receivedAt }) => ({
      scope: scope as string,
      key: key as string,
      fingerprint: fingerprint as string,
      eventId: eventId as string,
      deliveries: deliveries as number,
      receivedAt: receivedAt(numberOf('evt', eventId as string) ?? -1),
      expiresAt: expiresAt as number,
    }),
  },
  origins: {
    start: ['', ''],
    sql: `
      SELECT o.scope, o.id, e.id, o.deliveries FROM origins o JOIN events e ON e.no = o.event_no
      WHERE (o.scope, o.id) > (?, ?) ORDER BY o.scope, o.id`,
    toRecord: ([scope, id, eventId, deliveries]) => ({
      scope: scope as string,
      id: id as string,
      eventId: eventId as string,
      deliveries: deliveries as number,
    }),
  },
  deadLetterHours: {
    start: [-1, -1, ''],
    sql: `
      SELECT hour, endpoint_no, reason, count FROM dead_letter_hours
      WHERE (hour, endpoint_no, reason) > (?, ?, ?) ORDER BY hour, endpoint_no, reason`,
    toRecord: ([hour, endpointNo, reason, count], { endpointId }) => ({
      hour: hour as number,
      endpointId: endpointId(endpointNo as number),
      reason: reason as Reason,
      count: count as number,
    }),
  },
}

function toKeptDelivery(row: readonly Cell[], { endpointId }: Named): KeptDelivery {
  const [_no, endpointNo, position, interruptions, replayNo, eventId, size] = row
  const ids = { eventId: eventId as string, endpointId: endpointId(endpointNo as number) }
  const read = toDelivery(row, 7, ids)
  const delivery = inNobodysHand(read)
  const isInLane = delivery.lane !== null && !isSettled(delivery.status)
  return {
    delivery,
    position: isInLane ? (position as number) : null,
    interruptions: isSettled(delivery.status)
      ? 0
      : interruptionsAfter(interruptions as number, read.status === 'processing'),
    replayNo: replayNo as number | null,
    size: size as number,
  }
}

/** What was processing when the last owner of the file ended was interrupted, as at a start. */
function inNobodysHand(delivery: Delivery): Pending | Settled {
  switch (delivery.status) {
    case 'pending':
      return delivery
    case 'processing': {
      const { receivedAt, replayedAt, retryAfter } = delivery
      return {
        ...advanced(delivery),
        status: 'pending',
        dueAt: dueAfterInterruption(receivedAt, replayedAt, retryAfter),
      }
    }
    case 'delivered':
    case 'failed':
    case 'dead_letter':
      return { ...delivery, retryAfter: null }
  }
}
