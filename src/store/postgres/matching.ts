import { type DeliveryFilter, type DeliveryStatus, deadStatuses, settledStatuses } from '../../core/delivery.ts'
import { numberAfter } from '../../core/id.ts'
import type { EventQuery } from '../record-store.ts'
import { asStored, texts } from './arrays.ts'
import { type Queryable, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { type Condition, checksOf, eventCondition, eventConditions, Given, idsCondition } from './filter-conditions.ts'
import { keysWithin } from './row-keys.ts'

/** What every read needs: the quoted schema, and the numbers of endpoints. */
export type ReadParts = Readonly<{ on: Queryable; schema: string; endpoints: EndpointTable }>

/** A filter as SQL: the ways that lead to its rows. Without a way nothing matches. */
export type Matching = readonly Way[]

/**
 * `lead`: what an index answers, so that the rows come in the order of their keys or are few. `check`: what is asked of
 * each row then. `ofEvent`: of the event of each. Events are `e`, deliveries `d`.
 */
export type Way = Readonly<{
  table: 'events' | 'live' | 'ended'
  lead: readonly Condition[]
  check: readonly Condition[]
  ofEvent: readonly Condition[]
}>

/** A part of the row keys: greater than `after`, at most `last`. */
export type Span = Readonly<{ after: string; last: string }>

export const beforeAll = '00000000-0000-0000-0000-000000000000'
export const afterAll = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** A key with more events does not lead to its deliveries, which would have to be sorted. It is checked of each row then. */
const eventsOfKeyMax = 1_000
/** The same for what has not ended at one endpoint: no index has it in the order of row keys. */
const sortedMax = 10_000

/** What was received since then has a larger key. The slack is for who takes the two one after the other. */
export function keyBefore(instant: number): string {
  const before = numberAfter(0, instant - slackMs) - 1
  return keysWithin(before, before)[1]
}
const slackMs = 3_600_000

export async function matching(filter: DeliveryFilter, parts: ReadParts): Promise<Matching> {
  const { endpointId, replayId, statuses, reason, settledBy, from } = filter
  const endpointNo = endpointId === undefined ? undefined : await endpointNoOf(endpointId, parts)
  const replayNo = replayId === undefined ? undefined : await replayNoOf(replayId, parts)
  if (endpointNo === null || replayNo === null) return []
  const { lead, rest } = await narrowed(filter, parts)
  const since: readonly Condition[] = from === undefined ? [] : [['d.id > ?::uuid', keyBefore(from)]]
  const found: Found = {
    endpoint: endpointNo === undefined ? [] : [['d.endpoint = ?', endpointNo]],
    replay: replayNo === undefined ? [] : [['d.replay = ?', replayNo]],
    lead: [...lead, ...since],
    isNarrow: lead.length > 0,
    check: checksOf(rest, parts.schema),
  }
  const asksForEnd = reason !== undefined || settledBy !== undefined
  const live = asksForEnd ? [] : liveStatuses.filter((status) => statuses?.includes(status) ?? true)
  const ended = settledStatuses.filter((status) => statuses?.includes(status) ?? true)
  const ofEvent = eventConditions(rest)
  const ways: WayOfDeliveries[] = []
  if (live.length > 0) ways.push(await liveWay(live, found, parts, endpointNo))
  if (ended.length > 0) ways.push(endedWay(ended, found, filter))
  return ways.map((way) => ({ ...way, ofEvent }))
}

/** Events that match: a key leads to them in their order, as the row key does. */
export function matchingEvents(filter: EventFilter): Matching {
  const { key, from, to, ...rest } = filter
  const lead: Condition[] = []
  const check = [...eventConditions(rest)]
  if (key !== undefined) lead.push(['e.key = ?', asStored(key)])
  if (from !== undefined) lead.push(['e.id > ?::uuid', keyBefore(from)])
  if (from !== undefined) check.push(['e.received_at >= ?', from])
  if (to !== undefined) check.push(['e.received_at < ?', to])
  return [{ table: 'events', lead, check, ofEvent: [] }]
}

type EventFilter = Pick<EventQuery, 'tenant' | 'key' | 'type' | 'from' | 'to'>

// ── The ways ──────────────────────────────────────────────────────────────────────────────────────────────────────

type WayOfDeliveries = Omit<Way, 'ofEvent'>

type Found = Readonly<{
  endpoint: readonly Condition[]
  replay: readonly Condition[]
  lead: readonly Condition[]
  /** `lead` leaves so few rows that they can be sorted. */
  isNarrow: boolean
  check: readonly Condition[]
}>

const liveStatuses = ['pending', 'processing'] as const satisfies readonly DeliveryStatus[]

async function liveWay(
  statuses: readonly DeliveryStatus[],
  { endpoint, replay, lead, isNarrow, check }: Found,
  parts: ReadParts,
  endpointNo: number | undefined,
): Promise<WayOfDeliveries> {
  const table = 'live'
  const [status] = statuses
  const rest = [...replay, ...check]
  if (statuses.length === 1 && status === 'processing') {
    // As many as the members have in hand.
    return { table, lead: [...lead, ['d.owner IS NOT NULL']], check: [...endpoint, ...rest] }
  }
  const states: readonly Condition[] = statuses.length === 1 ? [['d.owner IS NULL']] : []
  const leads = !isNarrow && endpointNo !== undefined && (await hasFewLive(endpointNo, parts))
  if (leads) return { table, lead: [...endpoint, ...lead], check: [...states, ...rest] }
  return { table, lead, check: [...states, ...endpoint, ...rest] }
}

function endedWay(statuses: readonly DeliveryStatus[], found: Found, filter: DeliveryFilter): WayOfDeliveries {
  const { endpoint, replay, lead, isNarrow, check } = found
  const { exceptReasons = [], settledBy } = filter
  const isDead = filter.reason !== undefined || !statuses.includes('delivered')
  const dead: readonly Condition[] = isDead ? [['d.reason IS NOT NULL']] : []
  const states: Condition[] = []
  const possible: readonly DeliveryStatus[] = isDead ? deadStatuses : settledStatuses
  if (!possible.every((status) => statuses.includes(status))) {
    states.push(['d.status = ANY (?::text[])', texts(statuses)])
  }
  if (filter.reason !== undefined) states.push(['d.reason = ?', filter.reason])
  if (settledBy !== undefined) states.push(['d.settled_at <= ?', settledBy])
  if (exceptReasons.length > 0) {
    states.push(['d.reason IS NULL OR d.reason <> ALL (?::text[])', texts(exceptReasons)])
  }
  const rest = [...states, ...check]
  if (isNarrow) return { table: 'ended', lead, check: [...dead, ...endpoint, ...replay, ...rest] }
  if (replay.length > 0) return { table: 'ended', lead: [...replay, ...lead], check: [...dead, ...endpoint, ...rest] }
  return { table: 'ended', lead: [...dead, ...endpoint, ...lead], check: rest }
}

/** What leads to few rows, and what is left to check. */
async function narrowed(
  filter: DeliveryFilter,
  parts: ReadParts,
): Promise<{ lead: readonly Condition[]; rest: DeliveryFilter }> {
  const { ids, eventId, key } = filter
  if (ids !== undefined) {
    const { ids: _, ...rest } = filter
    return { lead: [idsCondition(ids)], rest }
  }
  if (eventId !== undefined) {
    const { eventId: _, ...rest } = filter
    return { lead: [eventCondition(eventId)], rest }
  }
  if (key !== undefined && (await isRare(key, parts))) {
    const { key: _, ...rest } = filter
    const events = `ARRAY(SELECT e.id FROM ${parts.schema}.events e WHERE e.key = ?)`
    return { lead: [[`d.event_id = ANY (${events})`, asStored(key)]], rest }
  }
  return { lead: [], rest: filter }
}

async function endpointNoOf(id: string, { endpoints }: ReadParts): Promise<number | null> {
  await endpoints.ensure([id])
  return endpoints.known(id)?.no ?? null
}

async function replayNoOf(id: string, { on, schema }: ReadParts): Promise<number | null> {
  const [row] = await rowsOf(on, `SELECT no FROM ${schema}.replays WHERE id = $1`, [asStored(id)])
  return (row?.[0] ?? null) as number | null
}

async function isRare(key: string, { on, schema }: ReadParts): Promise<boolean> {
  const sql = `SELECT count(*) FROM (SELECT 1 FROM ${schema}.events WHERE key = $1 ORDER BY id LIMIT $2) k`
  const [row] = await rowsOf(on, sql, [asStored(key), eventsOfKeyMax + 1])
  return ((row?.[0] ?? 0) as number) <= eventsOfKeyMax
}

async function hasFewLive(endpointNo: number, { on, schema }: ReadParts): Promise<boolean> {
  // The order leads to the index.
  const sql = `SELECT count(*) FROM (SELECT 1 FROM ${schema}.live WHERE endpoint = $1 ORDER BY received_at LIMIT $2) l`
  const [row] = await rowsOf(on, sql, [endpointNo, sortedMax + 1])
  return ((row?.[0] ?? 0) as number) <= sortedMax
}

// ── Statements ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Which row keys. */
export type Bound = readonly [comparison: '<' | '<=' | '>', key: string]
type Order = 'ASC' | 'DESC'

export function within({ after, last }: Span): readonly Bound[] {
  return [
    ['>', after],
    ['<=', last],
  ]
}

type Looked = Readonly<{ bounds: readonly Bound[]; order: Order; limit: number; looksMax: number }>

/**
 * Looks at `looksMax` rows in their order and gives those that match (`ok`), and the last that was looked at: its place
 * `n` is `looksMax`. Rows are looked at one by one until there are `limit`.
 */
export function lookingSql(given: Given, schema: string, found: Matching, looked: Looked): string {
  const { bounds, order, limit, looksMax } = looked
  const rows = found.map((way) => {
    const row = aliasOf(way)
    // The limit says to the planner as well that few rows are wanted.
    const rest = `ORDER BY ${row}.id ${order} LIMIT ${looksMax}`
    const ordered = `SELECT * FROM ${schema}.${way.table} ${row} WHERE ${leadOf(given, way, bounds)} ${rest}`
    return `SELECT ${row}.id, ${checkOfEach(given, schema, way)} AS ok FROM (${ordered}) ${row}`
  })
  const all = rows.length === 0 ? 'SELECT NULL::uuid AS id, true AS ok WHERE false' : rows.join(' UNION ALL ')
  return `
    SELECT id, ok, n FROM (
      SELECT id, ok, row_number() OVER (ORDER BY id ${order}) AS n FROM (
        SELECT id, ok FROM (${all}) every ORDER BY id ${order} LIMIT ${looksMax}) looked) numbered
    WHERE ok OR n = ${looksMax} LIMIT ${limit}`
}

export type Walked = Readonly<{
  /** The row keys that match, in the order of the walk. */
  keys: readonly string[]
  /** Up to where was looked: everything that matches before it is in `keys`. */
  doneKey: string
  /** Nothing is left. */
  exhausted: boolean
}>

/**
 * Looks for what matches, oldest first, until `limit` are found or `looksMax` rows were looked at: a filter that matches
 * rarely costs no more than one that matches often.
 */
export async function walkMatching(
  parts: ReadParts,
  found: Matching,
  { span, limit, looksMax }: { span: Span; limit: number; looksMax: number },
): Promise<Walked> {
  const keys: string[] = []
  let after = span.after
  for (let looks = 0; ; ) {
    const count = looksOfPiece(looks, looksMax - looks)
    const piece = await walkPiece(parts, found, { ...span, after }, { limit: limit - keys.length, looksMax: count })
    keys.push(...piece.keys)
    looks += count
    if (piece.exhausted || keys.length >= limit || looks >= looksMax) return { ...piece, keys }
    after = piece.doneKey
  }
}

/** The first look is a short one: then the database follows an index, and does not sort all that there is. */
export function looksOfPiece(looksBefore: number, looksMax: number): number {
  return looksBefore === 0 ? Math.min(firstLooks, looksMax) : looksMax
}
const firstLooks = 1_000

async function walkPiece(
  { on, schema }: ReadParts,
  found: Matching,
  span: Span,
  { limit, looksMax }: { limit: number; looksMax: number },
): Promise<Walked> {
  const given = new Given()
  const looked = { bounds: within(span), order: 'ASC', limit: limit + 1, looksMax } as const
  const sql = `SELECT * FROM (${lookingSql(given, schema, found, looked)}) f ORDER BY n`
  const rows = await rowsOf(on, sql, given.values)
  const all = rows.flatMap(([key, ok]) => (ok === true ? [key as string] : []))
  const keys = all.slice(0, limit)
  if (all.length > limit) return { keys, doneKey: keys.at(-1) ?? span.after, exhausted: false }
  const last = rows.at(-1)
  if (last?.[2] === looksMax) return { keys, doneKey: last[0] as string, exhausted: false }
  return { keys, doneKey: span.last, exhausted: true }
}

/** The event is asked for in a subquery that answers one value: it is looked up by its key, and never becomes a join. */
function checkOfEach(given: Given, schema: string, { check, ofEvent }: Way): string {
  if (ofEvent.length === 0) return given.all(check)
  const sql = `${given.all(check)} AND (SELECT ${given.all(ofEvent)} FROM ${schema}.events e WHERE e.id = d.event_id)`
  return `(${sql})`
}

/** A delivery as it was seen: by its version a write knows whether it still is. */
export type Seen = Readonly<{ key: string; version: number }>

/** The first deliveries that match in this order, however many rows have to be looked at. */
export async function firstMatching(
  { on, schema }: ReadParts,
  found: Matching,
  { bounds, order, limit }: { bounds: readonly Bound[]; order: Order; limit: number },
): Promise<readonly Seen[]> {
  if (found.length === 0) return []
  const given = new Given()
  const most = given.add(limit)
  const rows = found.map((way) => {
    const where = whereOf(given, schema, way, bounds)
    return `(SELECT d.id, d.version FROM ${schema}.${way.table} d WHERE ${where} ORDER BY d.id ${order} LIMIT ${most})`
  })
  const sql = `SELECT id, version FROM (${rows.join(' UNION ALL ')}) every ORDER BY id ${order} LIMIT ${most}`
  return (await rowsOf(on, sql, given.values)).map(([key, version]) => ({
    key: key as string,
    version: version as number,
  }))
}

export async function countMatching(
  { on, schema }: ReadParts,
  found: Matching,
  span: Span,
  max: number,
): Promise<number> {
  if (found.length === 0) return 0
  const given = new Given()
  const rows = found.map((way) => {
    const where = whereOf(given, schema, way, within(span))
    return `SELECT 1 FROM ${schema}.${way.table} ${aliasOf(way)} WHERE ${where}`
  })
  const sql = `SELECT count(*) FROM (${rows.join(' UNION ALL ')} LIMIT ${given.add(max)}) every`
  return ((await rowsOf(on, sql, given.values))[0]?.[0] ?? 0) as number
}

/** All that a row has to be, where every row is looked at: the database may join the events. */
export function whereOf(given: Given, schema: string, way: Way, bounds: readonly Bound[]): string {
  const where = `${leadOf(given, way, bounds)} AND ${given.all(way.check)}`
  if (way.ofEvent.length === 0) return where
  return `${where} AND d.event_id IN (SELECT e.id FROM ${schema}.events e WHERE ${given.all(way.ofEvent)})`
}

export function leadOf(given: Given, way: Way, bounds: readonly Bound[]): string {
  const row = aliasOf(way)
  const asked = bounds.map(([comparison, key]): Condition => [`${row}.id ${comparison} ?::uuid`, key])
  return given.all([...way.lead, ...asked])
}

function aliasOf({ table }: Way): string {
  return table === 'events' ? 'e' : 'd'
}
