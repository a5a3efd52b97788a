import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Attempt } from '../../core/attempt.ts'
import type { DeliveryStatus } from '../../core/delivery.ts'
import type { Event } from '../../core/event.ts'
import { numberOf } from '../../core/id.ts'
import type { DeliveryQuery, DeliveryRecord, EventQuery, EventSummary, Page } from '../store.ts'
import {
  attemptColumns,
  type Cell,
  deliveryCells,
  deliveryColumns,
  eventColumns,
  toAttempt,
  toDelivery,
  toEvent,
  toHeaders,
  toRequest,
} from './rows.ts'

/** What people look at. Runs on the reader thread, so that a long page delays nobody. */
export type Reads = {
  getEvent: { request: string; answer: Event | null }
  listEvents: { request: EventQuery; answer: Page<EventSummary> }
  getDelivery: { request: string; answer: DeliveryRecord | null }
  listAttempts: { request: string; answer: readonly Attempt[] }
  listDeliveries: { request: DeliveryQuery; answer: Page<DeliveryRecord> }
}
export type ReadName = keyof Reads
export type Read = { [Name in ReadName]: Readonly<{ name: Name; request: Reads[Name]['request'] }> }[ReadName]

const attemptsMax = 500

type Condition = readonly [sql: string, value: Cell]

const recordSql = `
  SELECT ${deliveryColumns}, e.id, p.id, e.type, e.tenant, e.key, d.no FROM deliveries d
  JOIN events e ON e.no = d.event_no JOIN endpoints p ON p.no = d.endpoint_no`

/** Spelled out, with the words of the partial index where one fits, or SQLite does not see that it does. */
const statusSql: Readonly<Record<DeliveryStatus, string>> = {
  pending: `d.status = 'pending'`,
  processing: `d.status = 'processing'`,
  delivered: `d.status = 'delivered'`,
  failed: `d.status = 'failed' AND d.status IN ('failed', 'dead_letter')`,
  dead_letter: `d.status = 'dead_letter' AND d.status IN ('failed', 'dead_letter')`,
}

export class Reader {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  run(read: Read): unknown {
    switch (read.name) {
      case 'getEvent':
        return this.#getEvent(read.request)
      case 'listEvents':
        return this.#listEvents(read.request)
      case 'getDelivery':
        return this.#getDelivery(read.request)
      case 'listAttempts':
        return this.#listAttempts(read.request)
      case 'listDeliveries':
        return this.#listDeliveries(read.request)
    }
  }

  #getEvent(id: string): Event | null {
    const row = this.#rows(`SELECT ${eventColumns} FROM events e WHERE e.no = ? AND e.id = ?`, [
      numberOf('evt', id),
      id,
    ])[0]
    return row === undefined ? null : toEvent(row, 0)
  }

  #listEvents(query: EventQuery): Page<EventSummary> {
    const where: Condition[] = []
    if (query.tenant !== undefined) where.push(['e.tenant = ?', query.tenant])
    if (query.type !== undefined) where.push(['e.type = ?', query.type])
    if (query.from !== undefined) where.push(['e.received_at >= ?', query.from])
    if (query.to !== undefined) where.push(['e.received_at < ?', query.to])
    const sql = `
      SELECT e.id, e.tenant, e.type, e.key, e.received_at, e.content_type, e.headers, e.request, e.size,
        (SELECT count(*) FROM deliveries d WHERE d.event_no = e.no), e.no FROM events e`
    return this.#page(sql, 'e.no', where, query, (row) => ({
      id: row[0] as string,
      tenant: row[1] as string,
      type: row[2] as string,
      key: row[3] as string | null,
      receivedAt: row[4] as number,
      contentType: row[5] as string,
      headers: toHeaders(row[6] as string | null),
      request: toRequest(row[7] as string | null),
      size: row[8] as number,
      deliveries: row[9] as number,
    }))
  }

  #getDelivery(id: string): DeliveryRecord | null {
    const row = this.#rows(`${recordSql} WHERE d.no = ? AND d.id = ?`, [numberOf('dlv', id), id])[0]
    return row === undefined ? null : toRecord(row)
  }

  #listAttempts(deliveryId: string): Attempt[] {
    const sql = `SELECT ${attemptColumns} FROM attempts WHERE delivery_no = ? ORDER BY number DESC LIMIT ${attemptsMax}`
    return this.#rows(sql, [numberOf('dlv', deliveryId)])
      .map(toAttempt)
      .reverse()
  }

  #listDeliveries(query: DeliveryQuery): Page<DeliveryRecord> {
    const where: Condition[] = []
    if (query.tenant !== undefined) where.push(['e.tenant = ?', query.tenant])
    if (query.statuses !== undefined) {
      where.push([`(${query.statuses.map((status) => statusSql[status]).join(' OR ')}) AND ?`, 1])
    }
    if (query.endpointId !== undefined) {
      where.push(['d.endpoint_no = (SELECT no FROM endpoints WHERE id = ?)', query.endpointId])
    }
    if (query.eventId !== undefined) where.push(['d.event_no = ?', numberOf('evt', query.eventId) ?? -1])
    if (query.type !== undefined) where.push(['e.type = ?', query.type])
    if (query.reason !== undefined) where.push(['d.reason = ?', query.reason])
    if (query.error !== undefined) where.push(['instr(lower(d.last_error), lower(?)) > 0', query.error])
    if (query.from !== undefined) where.push(['d.received_at >= ?', query.from])
    if (query.to !== undefined) where.push(['d.received_at < ?', query.to])
    return this.#page(recordSql, 'd.no', where, query, toRecord)
  }

  /** Newest first; the cursor is the row key of the last item. */
  #page<T>(
    select: string,
    rowKey: string,
    where: readonly Condition[],
    { limit, cursor }: { limit: number; cursor?: string },
    convert: (row: readonly Cell[]) => T,
  ): Page<T> {
    const conditions: Condition[] = [...where]
    if (cursor !== undefined) conditions.push([`${rowKey} < ?`, Number(cursor)])
    const filter = conditions.map(([sql]) => `(${sql})`).join(' AND ')
    const sql = `${select} ${filter === '' ? '' : `WHERE ${filter}`} ORDER BY ${rowKey} DESC LIMIT ?`
    const rows = this.#rows(sql, [...conditions.map(([, value]) => value), limit + 1])
    const shown = rows.slice(0, limit)
    const last = rows.length > limit ? shown.at(-1)?.at(-1) : undefined
    return { items: shown.map(convert), next: last === undefined ? null : String(last) }
  }

  #rows(sql: string, values: readonly Cell[]): Cell[][] {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      statement.setReturnArrays(true)
      this.#statements.set(sql, statement)
    }
    return statement.all(...values) as unknown as Cell[][]
  }
}

function toRecord(row: readonly Cell[]): DeliveryRecord {
  const [eventId, endpointId, type, tenant, key] = row.slice(deliveryCells) as [
    string,
    string,
    string,
    string,
    string | null,
  ]
  return { delivery: toDelivery(row, 0, { eventId, endpointId }), type, tenant, key }
}
