import { numberOf } from '../../core/id.ts'
import type { Reason } from '../../core/outcome.ts'
import type { RegistryKind } from '../../core/registry.ts'
import {
  type EntryRecord,
  endpointRecordOf,
  type KeptDelivery,
  type RecordKind,
  type Records,
} from '../import-records.ts'
import { attemptColumns, toAttempt } from './attempt-rows.ts'
import { deliveryCells, deliveryColumns, interruptionsIn, toDelivery } from './delivery-rows.ts'
import type { Cell, Row } from './driver.ts'
import { eventHeadColumns, toEvent } from './event-rows.ts'
import type { ImportParts } from './import-rows.ts'
import { beforeAll } from './matching.ts'
import { replayColumns, toJob } from './replay-rows.ts'
import { idOf } from './row-keys.ts'

const rowsMax = 500
/** One event may be larger. */
const bytesMax = 4 * 1024 * 1024

/** How the records of one kind are read: the key comes first in a row, then what the record is made of. */
export type Reading<T> = Readonly<{
  /** The cells of a key that is before all others. */
  start: readonly Cell[]
  /** Its parameters are those of the key. */
  sql: (schema: string) => string
  toRecord: (row: Row, parts: ImportParts) => T
}>

export const readings: { readonly [K in RecordKind]: Reading<Records[K]> } = {
  endpoints: {
    start: [0],
    sql: (schema) => `
      SELECT no, id, tenant, removed, breaker, held_until, failing_since, last_error, last_error_at
      FROM ${schema}.endpoints WHERE no > $1 ORDER BY no LIMIT ${rowsMax}`,
    toRecord: (row) => endpointRecordOf(row, row[3] as boolean),
  },
  registry: {
    start: ['', ''],
    sql: (schema) => `
      SELECT kind, id, version, scope, name, settings, secrets FROM ${schema}.registry
      WHERE (kind, id) > ($1, $2) ORDER BY kind, id LIMIT ${rowsMax}`,
    toRecord: toEntry,
  },
  replays: {
    start: [0],
    sql: (schema) =>
      `SELECT no AS key, ${replayColumns} FROM ${schema}.replays WHERE no > $1 ORDER BY no LIMIT ${rowsMax}`,
    toRecord: ([, ...row]) => {
      const { no, replay, span } = toJob(row)
      return { no, replay, doneNo: numberIn(span.after), lastNo: numberIn(span.last) }
    },
  },
  events: { start: [beforeAll], sql: eventsSql, toRecord: (row) => toEvent(row, 1) },
  deliveries: { start: [beforeAll], sql: keptDeliveriesSql, toRecord: toKeptDelivery },
  attempts: {
    start: [beforeAll, 0],
    sql: (schema) => `
      SELECT delivery, number AS place, ${attemptColumns} FROM ${schema}.attempts
      WHERE (delivery, number) > ($1::uuid, $2::int) ORDER BY delivery, number LIMIT ${rowsMax}`,
    toRecord: ([delivery, , ...row]) => ({ deliveryId: idOf('dlv', delivery as string), attempt: toAttempt(row) }),
  },
  idempotencyKeys: {
    start: ['', ''],
    sql: (schema) => `
      SELECT scope, key, fingerprint, event_id, deliveries, received_at, expires_at FROM ${schema}.idempotency_keys
      WHERE (scope, key) > ($1, $2) ORDER BY scope, key LIMIT ${rowsMax}`,
    toRecord: ([scope, key, fingerprint, eventId, deliveries, receivedAt, expiresAt]) => ({
      scope: scope as string,
      key: key as string,
      fingerprint: fingerprint as string,
      eventId: idOf('evt', eventId as string),
      deliveries: deliveries as number,
      receivedAt: receivedAt as number,
      expiresAt: expiresAt as number,
    }),
  },
  origins: {
    start: ['', ''],
    sql: (schema) => `
      SELECT scope, id, event_id, deliveries FROM ${schema}.origins
      WHERE (scope, id) > ($1, $2) ORDER BY scope, id LIMIT ${rowsMax}`,
    toRecord: ([scope, id, eventId, deliveries]) => ({
      scope: scope as string,
      id: id as string,
      eventId: idOf('evt', eventId as string),
      deliveries: deliveries as number,
    }),
  },
  deadLetterHours: {
    start: [-1, -1, ''],
    sql: (schema) => `
      SELECT hour, endpoint, reason, count FROM ${schema}.dead_letter_hours
      WHERE (hour, endpoint, reason) > ($1, $2, $3) ORDER BY hour, endpoint, reason LIMIT ${rowsMax}`,
    toRecord: ([hour, endpoint, reason, count], { endpoints }) => ({
      hour: hour as number,
      endpointId: endpoints.idOf(endpoint as number),
      reason: reason as Reason,
      count: count as number,
    }),
  },
}

function toEntry([kind, id, version, scope, name, settings, secrets]: Row, { box }: ImportParts): EntryRecord {
  const opened = secrets === null ? {} : JSON.parse(box.open(secrets as Uint8Array, id as string))
  return {
    kind: kind as RegistryKind,
    version: version as number,
    unique: name === null ? null : { scope: scope as string, name: name as string },
    item: { ...JSON.parse(settings as string), ...opened },
  }
}

/** The keys are found first, so that the bodies of a page fit into memory. */
function eventsSql(schema: string): string {
  return `
    SELECT e.id, ${eventHeadColumns}, e.body FROM (
      SELECT k.id, sum(k.size) OVER (ORDER BY k.id) - k.size AS before
      FROM (SELECT id, size FROM ${schema}.events WHERE id > $1 ORDER BY id LIMIT ${rowsMax}) k
    ) p JOIN ${schema}.events e ON e.id = p.id WHERE p.before < ${bytesMax} ORDER BY p.id`
}

function keptDeliveriesSql(schema: string): string {
  const live = `'pending' AS status, NULL::text AS reason, NULL::bigint AS settled_at`
  const ended = 'NULL::bigint AS retry_after, NULL::bigint AS due_at, 0 AS interruptions, NULL::bigint AS position'
  const [fromLive, fromEnded] = [
    ['live', live],
    ['ended', ended],
  ].map(
    ([table, columns]) => `
      (SELECT d.id AS key, ${deliveryColumns}, d.position, d.replay, d.size
       FROM (SELECT *, ${columns} FROM ${schema}.${table} WHERE id > $1 ORDER BY id LIMIT ${rowsMax}) d)`,
  )
  return `${fromLive} UNION ALL ${fromEnded} ORDER BY key LIMIT ${rowsMax}`
}

function toKeptDelivery([, ...row]: Row, { endpoints }: ImportParts): KeptDelivery {
  const delivery = toDelivery(row, 0, endpoints)
  const [position, replayNo, size] = row.slice(deliveryCells)
  return {
    // Nobody owns anything while an import is not finished.
    delivery: delivery as KeptDelivery['delivery'],
    position: position as number | null,
    interruptions: interruptionsIn(row, 0),
    replayNo: replayNo as number | null,
    size: size as number,
  }
}

function numberIn(key: string): number {
  return numberOf('evt', idOf('evt', key)) ?? 0
}
