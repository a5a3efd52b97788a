import type { DatabaseSync } from 'node:sqlite'
import type { Attempt } from '../../core/attempt.ts'
import type { Event } from '../../core/event.ts'
import { numberOf, numbersBeginning, shortIdPrefix } from '../../core/id.ts'
import type { Replay } from '../../core/replay.ts'
import { bytesOf, type LightUpcoming } from '../bodies.ts'
import type { AheadRequest } from '../pipeline-store.ts'
import type { DeliveryQuery, DeliveryRecord, EventQuery, EventSummary, IdQuery, Page } from '../record-store.ts'
import type { ReplayQuery } from '../replay-store.ts'
import type { DeadLetterCount } from '../upkeep-store.ts'
import { attemptColumns, toAttempt } from './attempt-rows.ts'
import { readDeadLettersSince } from './dead-letter-hours.ts'
import { deliveryCells, deliveryColumns, toDelivery } from './delivery-rows.ts'
import {
  eventColumns,
  eventHead,
  eventHeadColumns,
  lightEventColumns,
  toEvent,
  toEventHead,
  toLightEvent,
} from './event-rows.ts'
import { all, type Condition, type Matching, matching, matchingEvents, newestKeys } from './matching.ts'
import { replayColumns, toReplay } from './replay-rows.ts'
import type { Cell } from './rows.ts'
import { Statements } from './statements.ts'

/** What people look at, and what the dispatcher reads without claiming it. Runs on a reader thread, so that a long page delays nobody who writes. */
export type Reads = {
  getEvent: { request: string; answer: Event | null }
  listEvents: { request: EventQuery; answer: Page<EventSummary> }
  getDelivery: { request: string; answer: DeliveryRecord | null }
  findIds: { request: IdQuery; answer: readonly string[] }
  listAttempts: { request: string; answer: readonly Attempt[] }
  listDeliveries: { request: DeliveryQuery; answer: Page<DeliveryRecord> }
  getReplay: { request: string; answer: Replay | null }
  listReplays: { request: ReplayQuery; answer: Page<Replay> }
  deadLettersSince: { request: number; answer: readonly DeadLetterCount[] }
  ahead: { request: AheadRequest; answer: readonly LightUpcoming[] }
}

const attemptsMax = 500
/** Others' reads wait for no longer than it takes to look at this many rows. */
const looksPerPieceMax = 10_000

/** By the row key, which an id carries; a replay's is not in its id, so that its index on ids has to do. */
const idsSql: Readonly<Record<string, string>> = {
  evt: `SELECT id FROM events
    WHERE no BETWEEN ?1 AND ?2 AND id >= ?3 AND id < ?3 || '~' AND tenant = ifnull(?4, tenant) ORDER BY no LIMIT ?5`,
  dlv: `SELECT d.id FROM deliveries d CROSS JOIN events e ON e.no = d.event_no
    WHERE d.no BETWEEN ?1 AND ?2 AND d.id >= ?3 AND d.id < ?3 || '~' AND e.tenant = ifnull(?4, e.tenant)
    ORDER BY d.no LIMIT ?5`,
  rpl: `SELECT id FROM replays WHERE id >= ?3 AND id < ?3 || '~' AND tenant IS ifnull(?4, tenant) ORDER BY id LIMIT ?5`,
}

const recordSql = `
  SELECT ${deliveryColumns}, e.id, p.id, e.type, e.tenant, e.key FROM deliveries d
  JOIN events e ON e.no = d.event_no JOIN endpoints p ON p.no = d.endpoint_no WHERE d.no = ?`

const summarySql = `
  SELECT ${eventHeadColumns}, e.size,
    (SELECT count(*) FROM deliveries d WHERE d.event_no = e.no) FROM events e WHERE e.no = ?`

const aheadSql = `
  SELECT ${deliveryColumns}, ${lightEventColumns} FROM deliveries d INDEXED BY deliveries_lane
  JOIN events e ON e.no = d.event_no
  WHERE d.endpoint_no = (SELECT no FROM endpoints WHERE id = ?) AND d.lane = ? AND d.lane IS NOT NULL
    AND d.status IN ('pending', 'processing')
    AND d.position > (SELECT position FROM deliveries WHERE no = ? AND id = ?)
  ORDER BY d.position LIMIT ?`

export class Reader {
  readonly #statements: Statements

  constructor(db: DatabaseSync) {
    this.#statements = new Statements(db)
  }

  getEvent(id: string): Event | null {
    const sql = `SELECT ${eventColumns} FROM events e WHERE e.no = ? AND e.id = ?`
    const row = this.#statements.row(sql, [numberOf('evt', id), id])
    return row === undefined ? null : toEvent(row, 0)
  }

  listEvents(query: EventQuery): Page<EventSummary> {
    const { limit: _, cursor: __, ...filter } = query
    return this.#found(matchingEvents(filter), 'e.no', query, summarySql, toSummary)
  }

  getDelivery(id: string): DeliveryRecord | null {
    const row = this.#statements.row(`${recordSql} AND d.id = ?`, [numberOf('dlv', id), id])
    return row === undefined ? null : toRecord(row)
  }

  findIds({ beginning, tenant, limit }: IdQuery): string[] {
    const sql = idsSql[shortIdPrefix(beginning) ?? '']
    if (sql === undefined) return []
    const values = [...numbersBeginning(beginning), beginning, tenant ?? null, limit]
    return this.#statements.rows(sql, values).map(([id]) => String(id))
  }

  listAttempts(deliveryId: string): Attempt[] {
    const sql = `SELECT ${attemptColumns} FROM attempts WHERE delivery_no = ? ORDER BY number DESC LIMIT ${attemptsMax}`
    return this.#statements
      .rows(sql, [numberOf('dlv', deliveryId)])
      .map(toAttempt)
      .reverse()
  }

  listDeliveries({ limit, cursor, ...filter }: DeliveryQuery): Page<DeliveryRecord> {
    return this.#found(
      matching(filter, this.#statements),
      'd.no',
      { limit, ...(cursor !== undefined && { cursor }) },
      recordSql,
      toRecord,
    )
  }

  deadLettersSince(at: number): readonly DeadLetterCount[] {
    return readDeadLettersSince(this.#statements, at)
  }

  getReplay(id: string): Replay | null {
    const row = this.#statements.row(`SELECT ${replayColumns} FROM replays WHERE id = ?`, [id])
    return row === undefined ? null : toReplay(row)
  }

  listReplays(query: ReplayQuery): Page<Replay> {
    const where: Condition[] = []
    if (query.tenant !== undefined) where.push(['tenant = ?', query.tenant])
    if (query.status !== undefined) where.push(['status = ?', query.status])
    if (query.waiting === true) where.push(['requeued > delivered + failed_again'])
    return this.#page(`SELECT ${replayColumns}, no FROM replays`, 'no', where, query, toReplay)
  }

  ahead({ endpointId, lane, after, limit, bytesMax }: AheadRequest): LightUpcoming[] {
    const found: LightUpcoming[] = []
    let bytes = 0
    // Row by row, so that large bodies beyond the limit are never loaded.
    for (const row of this.#statements.walk(aheadSql, [endpointId, lane, numberOf('dlv', after), after, limit])) {
      const event = toLightEvent(row, deliveryCells)
      const delivery = toDelivery(row, 0, { eventId: event.id, endpointId })
      bytes += bytesOf(event)
      // In hand: then it is the head, and the delivery that was asked for has ended.
      if (delivery.status !== 'pending' || bytes > bytesMax) break
      found.push({ delivery, event })
    }
    return found
  }

  /**
   * A piece of a page, newest first; the cursor is the row key up to which was looked. It looks at a bounded number of
   * rows, so it may hold fewer than `limit`, or none, and not be the last.
   */
  #found<T>(
    found: Matching,
    rowKey: string,
    { limit, cursor }: { limit: number; cursor?: string },
    sql: string,
    convert: (row: readonly Cell[]) => T,
  ): Page<T> {
    const before = cursor === undefined ? null : Number(cursor)
    const bounds = { before, limit: limit + 1, looksMax: Math.max(looksPerPieceMax, limit + 1), rowKey }
    const { keys, doneNo, exhausted } = newestKeys(this.#statements, found, bounds)
    const shown = keys.slice(0, limit)
    // One that was deleted between the two reads is left out.
    const items = shown.flatMap((no) => this.#statements.rows(sql, [no])).map(convert)
    if (keys.length > limit) return { items, next: String(shown.at(-1)) }
    return { items, next: exhausted ? null : String(doneNo) }
  }

  /** Newest first; the cursor is the row key of the last item. */
  #page<T>(
    select: string,
    rowKey: string,
    where: readonly Condition[],
    { limit, cursor }: { limit: number; cursor?: string },
    convert: (row: readonly Cell[]) => T,
  ): Page<T> {
    const { sql, values } = all(cursor === undefined ? where : [...where, [`${rowKey} < ?`, Number(cursor)]])
    const rows = this.#statements.rows(`${select} ${sql} ORDER BY ${rowKey} DESC LIMIT ?`, [...values, limit + 1])
    const shown = rows.slice(0, limit)
    const last = rows.length > limit ? shown.at(-1)?.at(-1) : undefined
    return { items: shown.map(convert), next: last === undefined ? null : String(last) }
  }
}

function toSummary(row: readonly Cell[]): EventSummary {
  const [size, deliveries] = row.slice(eventHead.length) as [number, number]
  return { ...toEventHead(row, 0), size, deliveries }
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
