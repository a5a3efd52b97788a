import type { Attempt } from '../../core/attempt.ts'
import type { Event } from '../../core/event.ts'
import { type IdPrefix, shortIdPrefix } from '../../core/id.ts'
import type { Reason } from '../../core/outcome.ts'
import type { Replay } from '../../core/replay.ts'
import type { LightUpcoming } from '../bodies.ts'
import { type AheadRequest, largeBytesMin } from '../pipeline-store.ts'
import type { DeliveryQuery, DeliveryRecord, EventQuery, EventSummary, IdQuery, Page } from '../record-store.ts'
import type { ReplayQuery } from '../replay-store.ts'
import type { DeadLetterCount } from '../upkeep-store.ts'
import { wholePage } from '../whole-page.ts'
import { asStored } from './arrays.ts'
import { attemptColumns, toAttempt } from './attempt-rows.ts'
import { deliveriesSql, deliveryCells, deliveryColumns, endpointNoIn, toDelivery } from './delivery-rows.ts'
import { type Queryable, type Row, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { eventHeadCells, eventHeadColumns, toBody, toEvent, toEventHead, toLightEvent } from './event-rows.ts'
import { type Condition, Given } from './filter-conditions.ts'
import { lookingSql, looksOfPiece, type Matching, matching, matchingEvents, type ReadParts } from './matching.ts'
import { replayColumns, toJob, toReplay } from './replay-rows.ts'
import { idOf, rowKeyOf } from './row-keys.ts'

const attemptsMax = 500
/** A search that matches rarely gives its connection back after so many rows. */
const looksPerPieceMax = 10_000
const hourMs = 3_600_000
const idDigits = 23

const recordColumns = `${deliveryColumns}, e.type, e.tenant, e.key`

type PageQuery = Readonly<{ limit: number; cursor?: string }>
type PieceQuery = PageQuery & Readonly<{ looksMax: number }>
/** What a page shows of each row that was found. */
type Item = Readonly<{ columns: string; joins: string }>
type ToItems<T> = (rows: readonly Row[]) => readonly T[] | Promise<readonly T[]>

/** Before an item of a page: its key, whether it matches, and how many rows had been looked at. */
const lookedColumns = 'f.id, f.ok, f.n'
const lookedCells = 3

/** What people look at, and what the dispatcher reads without claiming it. No read is a transaction of several statements. */
export class Reads {
  readonly #parts: ReadParts

  constructor(on: Queryable, schema: string, endpoints: EndpointTable) {
    this.#parts = { on, schema, endpoints }
  }

  async getEvent(id: string): Promise<Event | null> {
    const [row] = await this.#rows(
      `SELECT ${eventHeadColumns}, e.body FROM ${this.#parts.schema}.events e WHERE e.id = $1`,
      [rowKeyOf('evt', id)],
    )
    return row === undefined ? null : toEvent(row, 0)
  }

  async body(eventId: string): Promise<Uint8Array | null> {
    const sql = `SELECT body FROM ${this.#parts.schema}.events WHERE id = $1`
    const [row] = await this.#rows(sql, [rowKeyOf('evt', eventId)])
    return row === undefined ? null : toBody(row[0] as Uint8Array)
  }

  listEvents({ limit, cursor, ...filter }: EventQuery): Promise<Page<EventSummary>> {
    const { schema } = this.#parts
    const countOf = (table: string) => `(SELECT count(*) FROM ${schema}.${table} d WHERE d.event_id = e.id)`
    const item = {
      columns: `${eventHeadColumns}, e.size, ${countOf('live')} + ${countOf('ended')}`,
      joins: `LEFT JOIN ${schema}.events e ON f.ok AND e.id = f.id`,
    }
    const found = matchingEvents(filter)
    const toItems = (rows: readonly Row[]) => rows.map((row) => toSummary(row, lookedCells))
    return this.#page(found, pageOf(limit, cursor), item, toItems)
  }

  async getDelivery(id: string): Promise<DeliveryRecord | null> {
    const { schema } = this.#parts
    const sql = `
      SELECT ${recordColumns} FROM ${deliveriesSql(schema)} d JOIN ${schema}.events e ON e.id = d.event_id WHERE d.id = $1`
    const rows = await this.#rows(sql, [rowKeyOf('dlv', id)])
    return (await this.#toRecords(rows, 0))[0] ?? null
  }

  async findIds({ beginning, tenant, limit }: IdQuery): Promise<readonly string[]> {
    const { schema } = this.#parts
    switch (shortIdPrefix(beginning)) {
      case 'evt':
        return this.#idsWithin('evt', `${schema}.events d`, 'd.tenant', { beginning, tenant, limit })
      case 'dlv': {
        const tenantSql = `(SELECT e.tenant FROM ${schema}.events e WHERE e.id = d.event_id)`
        return this.#idsWithin('dlv', `${deliveriesSql(schema)} d`, tenantSql, { beginning, tenant, limit })
      }
      case 'rpl': {
        const sql = `
          SELECT id FROM ${schema}.replays WHERE starts_with(id, $1) AND ($2::text IS NULL OR tenant = $2)
          ORDER BY id COLLATE "C" LIMIT $3`
        const rows = await this.#rows(sql, [beginning, asStored(tenant ?? null), limit])
        return rows.map(([id]) => id as string)
      }
      default:
        return []
    }
  }

  async listAttempts(deliveryId: string): Promise<readonly Attempt[]> {
    const sql = `
      SELECT ${attemptColumns} FROM ${this.#parts.schema}.attempts WHERE delivery = $1
      ORDER BY number DESC LIMIT ${attemptsMax}`
    return (await this.#rows(sql, [rowKeyOf('dlv', deliveryId)])).map(toAttempt).reverse()
  }

  async listDeliveries({ limit, cursor, ...filter }: DeliveryQuery): Promise<Page<DeliveryRecord>> {
    const { schema } = this.#parts
    const item = {
      columns: recordColumns,
      joins: `
        LEFT JOIN ${deliveriesSql(schema)} d ON f.ok AND d.id = f.id
        LEFT JOIN ${schema}.events e ON e.id = d.event_id`,
    }
    const found = await matching(filter, this.#parts)
    const toItems = (rows: readonly Row[]) => this.#toRecords(rows, lookedCells)
    return this.#page(found, pageOf(limit, cursor), item, toItems)
  }

  async getReplay(id: string): Promise<Replay | null> {
    const sql = `SELECT ${replayColumns} FROM ${this.#parts.schema}.replays WHERE id = $1`
    const [row] = await this.#rows(sql, [asStored(id)])
    return row === undefined ? null : toReplay(row)
  }

  /** Newest first; the cursor is the number of the last one. */
  async listReplays({ tenant, status, waiting, limit, cursor }: ReplayQuery): Promise<Page<Replay>> {
    const where: Condition[] = []
    if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) return nothing
    if (cursor !== undefined) where.push(['no < ?::bigint', cursor])
    if (tenant !== undefined) where.push(['tenant = ?', asStored(tenant)])
    if (status !== undefined) where.push(['status = ?', status])
    if (waiting === true) where.push(['requeued > delivered + failed_again'])
    const given = new Given()
    const sql = `
      SELECT ${replayColumns} FROM ${this.#parts.schema}.replays WHERE ${given.all(where)}
      ORDER BY no DESC LIMIT ${given.add(limit + 1)}`
    const rows = await this.#rows(sql, given.values)
    const shown = rows.slice(0, limit)
    const last = rows.length > limit ? shown.at(-1) : undefined
    return { items: shown.map(toReplay), next: last === undefined ? null : String(toJob(last).no) }
  }

  async deadLettersSince(at: number): Promise<readonly DeadLetterCount[]> {
    const { schema } = this.#parts
    const sql = `
      SELECT p.id, p.tenant, h.reason, h.count FROM (
        SELECT endpoint, reason, sum(count) AS count FROM ${schema}.dead_letter_hours WHERE hour >= $1 GROUP BY 1, 2) h
      JOIN ${schema}.endpoints p ON p.no = h.endpoint`
    return (await this.#rows(sql, [Math.floor(at / hourMs)])).map(([endpointId, tenant, reason, count]) => ({
      endpointId: endpointId as string,
      tenant: tenant as string,
      reason: reason as Reason,
      count: count as number,
    }))
  }

  /** What waits behind a delivery that has not ended. Of what is beyond the limit of bytes, no body is read. */
  async ahead({ endpointId, lane, after, limit, bytesMax }: AheadRequest): Promise<readonly LightUpcoming[]> {
    const { schema, endpoints } = this.#parts
    await endpoints.ensure([endpointId])
    const rows = await this.#rows(aheadSql(schema), [
      endpoints.known(endpointId)?.no ?? null,
      asStored(lane),
      rowKeyOf('dlv', after),
      limit,
      Math.min(bytesMax, Number.MAX_SAFE_INTEGER),
    ])
    const found: LightUpcoming[] = []
    for (const row of rows) {
      const delivery = toDelivery(row, 0, endpoints)
      // In hand: then it is the head, and the delivery that was asked for has ended.
      if (delivery.status !== 'pending') break
      found.push({ delivery, event: toLightEvent(row, deliveryCells) })
    }
    return found
  }

  /** Newest first. Not one statement if what matches is rare: other reads come in between. */
  #page<T>(found: Matching, query: PageQuery, item: Item, toItems: ToItems<T>): Promise<Page<T>> {
    let looks = 0
    return wholePage(query, (piece) => {
      const looksMax = Math.max(looksOfPiece(looks, looksPerPieceMax), piece.limit + 1)
      looks += looksMax
      return this.#found(found, { ...piece, looksMax }, item, toItems)
    })
  }

  /**
   * A piece of a page; the cursor is the row key up to which was looked. It looks at a bounded number of rows, so it may
   * hold fewer than `limit`, or none, and not be the last. What is no cursor is behind everything.
   */
  async #found<T>(found: Matching, query: PieceQuery, item: Item, toItems: ToItems<T>): Promise<Page<T>> {
    const { limit, cursor, looksMax } = query
    if (cursor !== undefined && !isRowKey(cursor)) return nothing
    const given = new Given()
    const bounds = cursor === undefined ? [] : [['<', cursor] as const]
    const looking = lookingSql(given, this.#parts.schema, found, { bounds, order: 'DESC', limit: limit + 1, looksMax })
    const sql = `SELECT ${lookedColumns}, ${item.columns} FROM (${looking}) f ${item.joins} ORDER BY f.n`
    const rows = await this.#rows(sql, given.values)
    const matched = rows.filter(([, ok]) => ok === true)
    const shown = matched.slice(0, limit)
    const items = await toItems(shown)
    if (matched.length > limit) return { items, next: (shown.at(-1)?.[0] ?? null) as string | null }
    const last = rows.at(-1)
    return { items, next: last?.[2] === looksMax ? (last[0] as string) : null }
  }

  async #idsWithin(
    prefix: IdPrefix,
    from: string,
    tenantSql: string,
    { beginning, tenant, limit }: Readonly<{ beginning: string; tenant: string | undefined; limit: number }>,
  ): Promise<readonly string[]> {
    const length = prefix.length + 1 + idDigits
    const first = rowKeyOf(prefix, beginning.padEnd(length, '0'))
    const last = rowKeyOf(prefix, beginning.padEnd(length, 'z'))
    const where: Condition[] = [['d.id BETWEEN ?::uuid AND ?::uuid', first, last]]
    if (tenant !== undefined) where.push([`${tenantSql} = ?`, asStored(tenant)])
    const given = new Given()
    const sql = `SELECT d.id FROM ${from} WHERE ${given.all(where)} ORDER BY d.id LIMIT ${given.add(limit)}`
    return (await this.#rows(sql, given.values)).map(([key]) => idOf(prefix, key as string))
  }

  async #toRecords(rows: readonly Row[], at: number): Promise<readonly DeliveryRecord[]> {
    const { endpoints } = this.#parts
    await endpoints.ensureNumbers(rows.map((row) => endpointNoIn(row, at)))
    return rows.map((row) => toRecord(row, at, endpoints))
  }

  #rows(sql: string, values: readonly unknown[]): Promise<Row[]> {
    return rowsOf(this.#parts.on, sql, values)
  }
}

const nothing = { items: [], next: null } as const

function aheadSql(schema: string): string {
  return `
    SELECT ${deliveryColumns}, ${eventHeadColumns}, e.size, CASE WHEN e.size < ${largeBytesMin} THEN e.body END
    FROM (
      SELECT l.*, CASE WHEN l.owner IS NULL THEN 'pending' ELSE 'processing' END AS status, NULL::text AS reason,
        NULL::bigint AS settled_at, sum(l.size) OVER (ORDER BY l.position) AS bytes
      FROM (
        SELECT * FROM ${schema}.live w WHERE w.endpoint = $1 AND w.lane = $2
          AND w.position > (SELECT a.position FROM ${schema}.live a WHERE a.id = $3)
        ORDER BY w.position LIMIT $4) l) d
    CROSS JOIN LATERAL (SELECT * FROM ${schema}.events v WHERE v.id = d.event_id LIMIT 1) e
    WHERE d.bytes <= $5 ORDER BY d.position`
}

function toSummary(row: Row, at: number): EventSummary {
  const [size, deliveries] = row.slice(at + eventHeadCells) as [number, number]
  return { ...toEventHead(row, at), size, deliveries }
}

function toRecord(row: Row, at: number, endpoints: EndpointTable): DeliveryRecord {
  const [type, tenant, key] = row.slice(at + deliveryCells) as [string, string, string | null]
  return { delivery: toDelivery(row, at, endpoints), type, tenant, key }
}

function pageOf(limit: number, cursor: string | undefined): PageQuery {
  return cursor === undefined ? { limit } : { limit, cursor }
}

function isRowKey(text: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
}
