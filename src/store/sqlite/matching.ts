import type { DeliveryFilter, DeliveryStatus } from '../../core/delivery.ts'
import { numberAfter, numberOf } from '../../core/id.ts'
import type { EventQuery } from '../record-store.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/** A filter as SQL: the ways that lead to its rows, and what to check of each row. */
export type Matching = Readonly<{ ways: readonly Way[]; rest: readonly Condition[] }>

/** Without `inOrder` its rows do not come in the order of row keys and have to be sorted. */
export type Way = Readonly<{ from: string; where: readonly Condition[]; inOrder: boolean }>

export type Condition = readonly [sql: string, ...values: Cell[]]

/** A part of the row keys: greater than `after`, at most `last`. */
export type Span = Readonly<{ after: number; last: number }>

const endpointNo = '(SELECT no FROM endpoints WHERE id = ?)'
const replayNo = '(SELECT no FROM replays WHERE id = ?)'

/** A key with more events does not lead to its deliveries, which would have to be sorted. It is checked of each row then. */
const eventsOfKeyMax = 1_000
const eventsOfKeySql = `
  SELECT count(*) FROM (SELECT 1 FROM events INDEXED BY events_of_key WHERE key = ? LIMIT ${eventsOfKeyMax + 1})`

/** The number of an id is never smaller than its instant says. The slack is for who takes the two one after the other. */
export function firstNumberSince(instant: number): number {
  return numberAfter(0, instant - slackMs)
}
const slackMs = 3_600_000

/** `withEvent`: the event of each row can be asked for, as `e`. */
export function matching(filter: DeliveryFilter, statements: Statements, { withEvent = false } = {}): Matching {
  const { leads, answered } = leadsTo(filter, statements)
  const rest = { ...filter, ...answered }
  const needsEvent = withEvent || rest.tenant !== undefined || rest.type !== undefined || rest.key !== undefined
  const join = needsEvent ? 'CROSS JOIN events e ON e.no = d.event_no' : ''
  const since: readonly Condition[] = filter.from === undefined ? [] : [['d.no >= ?', firstNumberSince(filter.from)]]
  const ways = leads.map(({ index, where, inOrder }) => ({
    from: `deliveries d ${index === null ? 'NOT INDEXED' : `INDEXED BY ${index}`} ${join}`,
    where: [...where, ...since],
    inOrder,
  }))
  // What an index has answered is not asked of the row again: where that is all, the row is never read.
  return { ways, rest: conditionsOf(rest) }
}

/** Events that match: a key leads to them in their order, as the row key does. */
export function matchingEvents({ tenant, key, type, from, to }: EventFilter): Matching {
  const where: Condition[] = []
  const rest: Condition[] = []
  if (key !== undefined) where.push(['e.key = ?', key])
  if (from !== undefined) where.push(['e.no >= ?', firstNumberSince(from)])
  if (tenant !== undefined) rest.push(['e.tenant = ?', tenant])
  if (type !== undefined) rest.push(typeCondition(type))
  if (from !== undefined) rest.push(['e.received_at >= ?', from])
  if (to !== undefined) rest.push(['e.received_at < ?', to])
  const index = key === undefined ? 'NOT INDEXED' : 'INDEXED BY events_of_key'
  return { ways: [{ from: `events e ${index}`, where, inOrder: true }], rest }
}

type EventFilter = Pick<EventQuery, 'tenant' | 'key' | 'type' | 'from' | 'to'>

/** Whether a page of it has to sort all that waits before it can show the first. */
export function sortsAllThatWaits({ ids, eventId, key, replayId, statuses = [] }: DeliveryFilter): boolean {
  const isNamed = [ids, eventId, key, replayId].some((name) => name !== undefined)
  return !isNamed && statuses.includes('pending') && !statuses.includes('delivered')
}

type Lead = Readonly<{ index: string | null; where: readonly Condition[]; inOrder: boolean }>
type Leads = Readonly<{ leads: readonly Lead[]; answered: { [Name in keyof DeliveryFilter]: undefined } }>

/** The fewest rows first. Indexes are named: SQLite has no statistics here, and would guess. */
function leadsTo(filter: DeliveryFilter, statements: Statements): Leads {
  const { ids, eventId, key, replayId, endpointId, statuses } = filter
  if (ids !== undefined) {
    const where: Condition = ['d.no IN (SELECT value FROM json_each(?))', JSON.stringify(ids.map(deliveryNo))]
    return { leads: [{ index: null, where: [where], inOrder: true }], answered: {} }
  }
  if (eventId !== undefined) {
    const where: Condition = ['d.event_no = ?', numberOf('evt', eventId) ?? -1]
    const lead = { index: 'deliveries_of_event', where: [where], inOrder: true }
    return { leads: [lead], answered: { eventId: undefined } }
  }
  if (key !== undefined && isRare(statements, key)) {
    const where: Condition = ['d.event_no IN (SELECT no FROM events INDEXED BY events_of_key WHERE key = ?)', key]
    return {
      leads: [{ index: 'deliveries_of_event', where: [where], inOrder: false }],
      answered: { key: undefined },
    }
  }
  if (replayId !== undefined) {
    const where: Condition = [`d.replay_no = ${replayNo}`, replayId]
    return {
      leads: [{ index: 'deliveries_of_replay', where: [where], inOrder: true }],
      answered: { replayId: undefined },
    }
  }
  const at: readonly Condition[] = endpointId === undefined ? [] : [[`d.endpoint_no = ${endpointNo}`, endpointId]]
  // A frequent key is found soon among all deliveries, and what waits would have to be sorted first.
  const isSorted = key !== undefined && statuses?.some(comesUnsorted)
  if (statuses !== undefined && !statuses.includes('delivered') && !isSorted) {
    const leads = [...new Set(statuses)].map((status) => ({
      index: indexOf(status, endpointId !== undefined),
      where: [...at, [statusSql[status]] as const],
      inOrder: !comesUnsorted(status),
    }))
    return { leads, answered: { statuses: undefined, endpointId: undefined } }
  }
  const index = endpointId === undefined ? null : 'deliveries_of_endpoint'
  return { leads: [{ index, where: at, inOrder: true }], answered: { endpointId: undefined } }
}

function isRare(statements: Statements, key: string): boolean {
  return (statements.row(eventsOfKeySql, [key])?.[0] as number) <= eventsOfKeyMax
}

/** What is under way is kept in the order of time. */
function comesUnsorted(status: DeliveryStatus): boolean {
  return status === 'pending' || status === 'processing'
}

function indexOf(status: DeliveryStatus, ofEndpoint: boolean): string | null {
  switch (status) {
    case 'pending':
      return 'deliveries_pending'
    case 'processing':
      return 'deliveries_leased'
    case 'delivered':
      return ofEndpoint ? 'deliveries_of_endpoint' : null
    case 'failed':
    case 'dead_letter':
      return ofEndpoint ? 'deliveries_dead_of_endpoint' : 'deliveries_dead'
  }
}

/** Spelled out, with the words of the partial index where one fits, or SQLite does not see that it does. */
const statusSql: Readonly<Record<DeliveryStatus, string>> = {
  pending: `d.status = 'pending'`,
  processing: `d.status = 'processing'`,
  delivered: `d.status = 'delivered'`,
  failed: `d.status = 'failed' AND d.status IN ('failed', 'dead_letter')`,
  dead_letter: `d.status = 'dead_letter' AND d.status IN ('failed', 'dead_letter')`,
}

type Asked = { readonly [Name in keyof DeliveryFilter]: DeliveryFilter[Name] | undefined }

function conditionsOf(filter: Asked): readonly Condition[] {
  const { tenant, statuses, endpointId, eventId, replayId, key, type, statusClasses, reason } = filter
  const { exceptReasons, error, from, to, settledBy, ids } = filter
  const conditions: Condition[] = []
  if (tenant !== undefined) conditions.push(['e.tenant = ?', tenant])
  if (key !== undefined) conditions.push(['e.key = ?', key])
  if (type !== undefined) conditions.push(typeCondition(type))
  if (statuses !== undefined)
    conditions.push(['d.status IN (SELECT value FROM json_each(?))', JSON.stringify(statuses)])
  if (endpointId !== undefined) conditions.push([`d.endpoint_no = ${endpointNo}`, endpointId])
  if (eventId !== undefined) conditions.push(['d.event_no = ?', numberOf('evt', eventId) ?? -1])
  if (replayId !== undefined) conditions.push([`d.replay_no = ${replayNo}`, replayId])
  if (ids !== undefined) conditions.push(['d.id IN (SELECT value FROM json_each(?))', JSON.stringify(ids)])
  if (reason !== undefined) conditions.push(['d.reason = ?', reason])
  if (exceptReasons !== undefined && exceptReasons.length > 0) {
    conditions.push([
      'd.reason IS NULL OR d.reason NOT IN (SELECT value FROM json_each(?))',
      JSON.stringify(exceptReasons),
    ])
  }
  if (error !== undefined) conditions.push(['instr(lower(d.last_error), lower(?)) > 0', error])
  if (from !== undefined) conditions.push(['d.received_at >= ?', from])
  if (to !== undefined) conditions.push(['d.received_at < ?', to])
  if (settledBy !== undefined) conditions.push(['d.settled_at <= ?', settledBy])
  if (statusClasses !== undefined)
    conditions.push([lastStatusSql, JSON.stringify(statusClasses.map(Number.parseFloat))])
  return conditions
}

/** Exact, and nothing that a delivery has to carry: the attempts of a delivery are found by its row key. */
const lastStatusSql = `EXISTS (SELECT 1 FROM attempts a WHERE a.delivery_no = d.no AND a.number = d.attempts
  AND a.status_code / 100 IN (SELECT value FROM json_each(?)))`

function typeCondition(type: string): Condition {
  return type.includes('*') ? ['type_matches(?, e.type)', type] : ['e.type = ?', type]
}

/**
 * The row keys that match, newest first, before `before`, until `limit` are found or `looksMax` rows were looked at. What
 * has to be sorted is looked at as a whole.
 */
export function newestKeys(
  statements: Statements,
  { ways, rest }: Matching,
  { before, limit, looksMax, rowKey }: { before: number | null; limit: number; looksMax: number; rowKey: string },
): Walked {
  const cursor: readonly Condition[] = before === null ? [] : [[`${rowKey} < ?`, before]]
  const sorted = ways.filter(({ inOrder }) => !inOrder)
  const others = sorted.flatMap(({ from, where }) => {
    const { sql, values } = all([...where, ...rest, ...cursor])
    const text = `SELECT ${rowKey} FROM ${from} ${sql} ORDER BY ${rowKey} DESC LIMIT ?`
    return statements.rows(text, [...values, limit]).map(([no]) => no as number)
  })
  const inOrder = ways.filter((way) => way.inOrder)
  const walk = { ways: inOrder, rest, where: cursor, order: `${rowKey} DESC`, rowKey }
  const bounds = { direction: -1, from: Number.POSITIVE_INFINITY, end: 0, limit, looksMax } as const
  const { keys, doneNo, exhausted } = walkWays(statements, walk, bounds)
  const seen = others.filter((no) => exhausted || no >= doneNo)
  const found = [...keys, ...seen].sort((a, b) => b - a)
  return { keys: found.slice(0, limit), doneNo, exhausted }
}

export function countMatching(statements: Statements, { ways, rest }: Matching, span: Span, max: number): number {
  let count = 0
  for (const { from, where } of ways) {
    const { sql, values } = all([...where, ...rest, ...within(span)])
    const counted = `SELECT count(*) FROM (SELECT 1 FROM ${from} ${sql} LIMIT ?)`
    count += statements.row(counted, [...values, max - count])?.[0] as number
  }
  return count
}

export type Walked = Readonly<{
  /** The row keys that match, in the order of the walk. */
  keys: readonly number[]
  /** Up to where was looked: everything that matches before it is in `keys`. */
  doneNo: number
  /** Nothing is left. */
  exhausted: boolean
}>

/**
 * Looks for what matches, oldest first, until `limit` are found or `looksMax` rows were looked at: a filter that matches
 * rarely costs no more than one that matches often.
 */
export function walkMatching(
  statements: Statements,
  { ways, rest }: Matching,
  { span, limit, looksMax }: { span: Span; limit: number; looksMax: number },
): Walked {
  const walk = { ways, rest, where: within(span), order: 'd.no', rowKey: 'd.no' }
  return walkWays(statements, walk, { direction: 1, from: span.after, end: span.last, limit, looksMax })
}

/** `where` holds for every way; `order` is that of the row key. */
type Walk = Matching & Readonly<{ where: readonly Condition[]; order: string; rowKey: string }>

type Bounds = Readonly<{ direction: 1 | -1; from: number; end: number; limit: number; looksMax: number }>

function walkWays(statements: Statements, { ways, rest, where, order, rowKey }: Walk, bounds: Bounds): Walked {
  const check = rest.length === 0 ? { sql: '1', values: [] } : joined(rest)
  const streams = ways.map((way) => {
    const { sql, values } = all([...way.where, ...where])
    const text = `SELECT ${rowKey}, ${check.sql} FROM ${way.from} ${sql} ORDER BY ${order}`
    return statements.walk(text, [...check.values, ...values])
  })
  try {
    return merge(streams, bounds)
  } finally {
    for (const stream of streams) stream.return?.()
  }
}

function merge(streams: readonly Iterator<Cell[]>[], { direction, from, end, limit, looksMax }: Bounds): Walked {
  const heads = streams.map((stream) => stream.next())
  const keys: number[] = []
  let doneNo = from
  for (let looks = 0; looks < looksMax && keys.length < limit; looks++) {
    const first = firstOf(heads, direction)
    const row = first === -1 ? undefined : heads[first]?.value
    if (row === undefined) return { keys, doneNo: end, exhausted: true }
    doneNo = row[0] as number
    if (row[1] === 1) keys.push(doneNo)
    heads[first] = streams[first]?.next() ?? { done: true, value: undefined }
  }
  return { keys, doneNo, exhausted: firstOf(heads, direction) === -1 }
}

/** Which of the streams is first in the direction of the walk; -1: all have ended. */
function firstOf(heads: readonly IteratorResult<Cell[], unknown>[], direction: 1 | -1): number {
  let found = -1
  let least = Number.POSITIVE_INFINITY
  heads.forEach((head, index) => {
    if (head.done === true || direction * (head.value[0] as number) >= least) return
    found = index
    least = direction * (head.value[0] as number)
  })
  return found
}

function within({ after, last }: Span): readonly Condition[] {
  return [
    ['d.no > ?', after],
    ['d.no <= ?', last],
  ]
}

export function all(conditions: readonly Condition[]): { sql: string; values: readonly Cell[] } {
  if (conditions.length === 0) return { sql: '', values: [] }
  const { sql, values } = joined(conditions)
  return { sql: `WHERE ${sql}`, values }
}

function joined(conditions: readonly Condition[]): { sql: string; values: readonly Cell[] } {
  return {
    sql: conditions.map(([sql]) => `(${sql})`).join(' AND '),
    values: conditions.flatMap(([, ...values]) => values),
  }
}

function deliveryNo(id: string): number {
  return numberOf('dlv', id) ?? -1
}
