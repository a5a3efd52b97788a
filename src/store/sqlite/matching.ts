import type { DeliveryFilter, DeliveryStatus } from '../../core/delivery.ts'
import { numberAfter, numberOf } from '../../core/id.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/**
 * A filter as SQL: the ways that lead to its rows, and what to check of each row. Each way is in the order of row keys,
 * but those to what is under way, which are in the order of time and have to be sorted.
 */
export type Matching = Readonly<{ ways: readonly Way[]; rest: readonly Condition[] }>

export type Way = Readonly<{ from: string; where: readonly Condition[] }>

export type Condition = readonly [sql: string, ...values: Cell[]]

/** A part of the row keys: greater than `after`, at most `last`. */
export type Span = Readonly<{ after: number; last: number }>

const endpointNo = '(SELECT no FROM endpoints WHERE id = ?)'
const replayNo = '(SELECT no FROM replays WHERE id = ?)'

/** The number of an id is never smaller than its instant says. The slack is for who takes the two one after the other. */
export function firstNumberSince(instant: number): number {
  return numberAfter(0, instant - slackMs)
}
const slackMs = 3_600_000

export function matching(filter: DeliveryFilter): Matching {
  const join =
    filter.tenant === undefined && filter.type === undefined ? '' : 'CROSS JOIN events e ON e.no = d.event_no'
  const { leads, answered } = leadsTo(filter)
  const ways = leads.map(({ index, where }) => ({
    from: `deliveries d ${index === null ? 'NOT INDEXED' : `INDEXED BY ${index}`} ${join}`,
    where,
  }))
  // What an index has answered is not asked of the row again: where that is all, the row is never read.
  return { ways, rest: conditionsOf({ ...filter, ...answered }) }
}

/** Whether a page of it has to sort all that waits before it can show the first. */
export function sortsAllThatWaits({ ids, eventId, replayId, statuses = [] }: DeliveryFilter): boolean {
  const isNamed = ids !== undefined || eventId !== undefined || replayId !== undefined
  return !isNamed && statuses.includes('pending') && !statuses.includes('delivered')
}

type Lead = Readonly<{ index: string | null; where: readonly Condition[] }>
type Leads = Readonly<{ leads: readonly Lead[]; answered: { [Name in keyof DeliveryFilter]: undefined } }>

/** The fewest rows first. Indexes are named: SQLite has no statistics here, and would guess. */
function leadsTo({ ids, eventId, replayId, endpointId, statuses }: DeliveryFilter): Leads {
  if (ids !== undefined) {
    const where: Condition = ['d.no IN (SELECT value FROM json_each(?))', JSON.stringify(ids.map(deliveryNo))]
    return { leads: [{ index: null, where: [where] }], answered: {} }
  }
  if (eventId !== undefined) {
    const where: Condition = ['d.event_no = ?', numberOf('evt', eventId) ?? -1]
    return { leads: [{ index: 'deliveries_of_event', where: [where] }], answered: { eventId: undefined } }
  }
  if (replayId !== undefined) {
    const where: Condition = [`d.replay_no = ${replayNo}`, replayId]
    return { leads: [{ index: 'deliveries_of_replay', where: [where] }], answered: { replayId: undefined } }
  }
  const at: readonly Condition[] = endpointId === undefined ? [] : [[`d.endpoint_no = ${endpointNo}`, endpointId]]
  if (statuses !== undefined && !statuses.includes('delivered')) {
    const leads = [...new Set(statuses)].map((status) => ({
      index: indexOf(status, endpointId !== undefined),
      where: [...at, [statusSql[status]] as const],
    }))
    return { leads, answered: { statuses: undefined, endpointId: undefined } }
  }
  const index = endpointId === undefined ? null : 'deliveries_of_endpoint'
  return { leads: [{ index, where: at }], answered: { endpointId: undefined } }
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
  const { tenant, statuses, endpointId, eventId, replayId, type, reason, exceptReasons, error, from, to, ids } = filter
  const conditions: Condition[] = []
  if (tenant !== undefined) conditions.push(['e.tenant = ?', tenant])
  if (type !== undefined) conditions.push(['e.type = ?', type])
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
  if (from !== undefined) conditions.push(['d.received_at >= ?', from], ['d.no >= ?', firstNumberSince(from)])
  if (to !== undefined) conditions.push(['d.received_at < ?', to])
  return conditions
}

/** The row keys that match, newest first, before `before`, at most `limit`. */
export function newestKeys(
  statements: Statements,
  { ways, rest }: Matching,
  { before, limit }: { before: number | null; limit: number },
): readonly number[] {
  const cursor: readonly Condition[] = before === null ? [] : [['d.no < ?', before]]
  const keys = ways.flatMap(({ from, where }) => {
    const { sql, values } = all([...where, ...rest, ...cursor])
    return statements.rows(`SELECT d.no FROM ${from} ${sql} ORDER BY d.no DESC LIMIT ?`, [...values, limit])
  })
  return keys
    .map(([no]) => no as number)
    .sort((a, b) => b - a)
    .slice(0, limit)
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
  /** The row keys that match, ascending. */
  keys: readonly number[]
  /** Up to where was looked: everything that matches before it is in `keys`. */
  doneNo: number
  /** Nothing is left in the span. */
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
  const check = rest.length === 0 ? { sql: '1', values: [] } : joined(rest)
  const streams = ways.map(({ from, where }) => {
    const { sql, values } = all([...where, ...within(span)])
    const text = `SELECT d.no, ${check.sql} FROM ${from} ${sql} ORDER BY d.no`
    return statements.walk(text, [...check.values, ...values])
  })
  try {
    return merge(streams, { span, limit, looksMax })
  } finally {
    for (const stream of streams) stream.return?.()
  }
}

function merge(
  streams: readonly Iterator<Cell[]>[],
  { span, limit, looksMax }: { span: Span; limit: number; looksMax: number },
): Walked {
  const heads = streams.map((stream) => stream.next())
  const keys: number[] = []
  let doneNo = span.after
  for (let looks = 0; looks < looksMax && keys.length < limit; looks++) {
    const first = lowest(heads)
    const row = first === -1 ? undefined : heads[first]?.value
    if (row === undefined) return { keys, doneNo: span.last, exhausted: true }
    doneNo = row[0] as number
    if (row[1] === 1) keys.push(doneNo)
    heads[first] = streams[first]?.next() ?? { done: true, value: undefined }
  }
  return { keys, doneNo, exhausted: lowest(heads) === -1 }
}

/** Which of the streams is at the lowest row key; -1: all have ended. */
function lowest(heads: readonly IteratorResult<Cell[], unknown>[]): number {
  let found = -1
  let lowestNo = Number.POSITIVE_INFINITY
  heads.forEach((head, index) => {
    if (head.done === true || (head.value[0] as number) >= lowestNo) return
    found = index
    lowestNo = head.value[0] as number
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
