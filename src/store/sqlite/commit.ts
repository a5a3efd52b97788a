import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { type DeliveryStatus, isSettled } from '../../core/delivery.ts'
import { numberOf } from '../../core/id.ts'
import type { Reason } from '../../core/outcome.ts'
import type { EndPendingRequest } from '../store.ts'
import type { EndedDelivery } from '../upkeep-store.ts'
import { type ClaimWork, claimColumns } from './claim.ts'
import type { DeadLetterHours } from './dead-letter-hours.ts'
import type { EndpointTable } from './endpoints.ts'
import { type ChangeRow, changeAt, type ResultRow } from './messages.ts'
import type { ReplayOutcomes, Tally } from './replay-outcomes.ts'
import { type Cell, deliveryCells, eventCells } from './rows.ts'

type LaneRow = Readonly<{
  endpoint_no: number
  lane: string
  status: DeliveryStatus
  due_at: number | null
  version: number
}>

type NextRow = Readonly<{ no: number; version: number; status: DeliveryStatus }>

/** Changes deliveries; runs inside the batch's transaction. */
export class Commit {
  readonly #endpoints: EndpointTable
  readonly #claims: ClaimWork
  readonly #hours: DeadLetterHours
  readonly #outcomes: ReplayOutcomes
  readonly #update: StatementSync
  readonly #log: StatementSync
  readonly #endpointOf: StatementSync
  readonly #laneRow: StatementSync
  readonly #next: StatementSync
  readonly #nextKey: StatementSync
  readonly #release: StatementSync
  readonly #toTail: StatementSync
  readonly #pendingOf: StatementSync
  readonly #end: StatementSync
  readonly #factsOf: StatementSync

  constructor(
    db: DatabaseSync,
    endpoints: EndpointTable,
    claims: ClaimWork,
    { hours, outcomes }: Readonly<{ hours: DeadLetterHours; outcomes: ReplayOutcomes }>,
  ) {
    this.#endpoints = endpoints
    this.#hours = hours
    this.#claims = claims
    this.#outcomes = outcomes
    this.#update = db.prepare(`
      UPDATE deliveries SET version = ?2, status = ?3, due_at = ?4, attempts = ?5, tries_in_budget = ?6,
        retry_after = ?7, last_error = ?8, last_attempt_at = ?9, replayed_at = ?10, settled_at = ?11, reason = ?12,
        interruptions = CASE WHEN ?3 = 'pending' AND NOT ?13 THEN interruptions ELSE 0 END
      WHERE no = ?1 AND version = ?2 - 1`)
    this.#log = db.prepare(`
      INSERT OR REPLACE INTO attempts (delivery_no, number, started_at, took_ms, outcome, status_code, error,
        response_headers, response_body, stack, error_class, dependency) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    this.#endpointOf = db.prepare('SELECT endpoint_no FROM deliveries WHERE no = ?')
    this.#laneRow = db.prepare('SELECT endpoint_no, lane, status, due_at, version FROM deliveries WHERE no = ?')
    this.#next = db.prepare(`
      SELECT ${claimColumns} FROM deliveries d INDEXED BY deliveries_lane JOIN events e ON e.no = d.event_no
      WHERE d.endpoint_no = ? AND d.lane = ? AND d.lane IS NOT NULL AND d.status IN ('pending', 'processing')
      ORDER BY d.position LIMIT 1`)
    this.#next.setReturnArrays(true)
    this.#nextKey = db.prepare(`
      SELECT no, version, status FROM deliveries INDEXED BY deliveries_lane
      WHERE endpoint_no = ? AND lane = ? AND lane IS NOT NULL AND status IN ('pending', 'processing')
      ORDER BY position LIMIT 1`)
    this.#release = db.prepare('UPDATE deliveries SET due_at = ?, version = version + 1 WHERE id = ? AND no = ?')
    this.#toTail = db.prepare(`
      UPDATE deliveries SET position = 1 + max(
        (SELECT max(no) FROM deliveries),
        coalesce((SELECT max(position) FROM deliveries INDEXED BY deliveries_lane
          WHERE endpoint_no = ?2 AND lane = ?3 AND lane IS NOT NULL AND status IN ('pending', 'processing')), 0))
      WHERE no = ?1`)
    this.#pendingOf = db.prepare(`
      SELECT no FROM deliveries INDEXED BY deliveries_pending WHERE endpoint_no = ? AND status = 'pending'
      UNION ALL
      SELECT no FROM deliveries INDEXED BY deliveries_leased
      WHERE endpoint_no = ? AND status = 'processing' AND due_at <= ?
      LIMIT ?`)
    this.#factsOf = db.prepare(`
      SELECT d.id AS deliveryId, e.id AS eventId, e.tenant, e.type FROM deliveries d
      CROSS JOIN events e ON e.no = d.event_no WHERE d.no = ?`)
    this.#end = db.prepare(`
      UPDATE deliveries SET status = 'failed', reason = ?, due_at = NULL, settled_at = ?, version = version + 1,
        retry_after = NULL, interruptions = 0
      WHERE no = ?`)
  }

  run(changes: readonly ChangeRow[]): ResultRow[] {
    let isFollowed = false
    const tally: Tally = new Map()
    const results = changes.map((change, index): ResultRow => {
      if (follows(change) && !isFollowed) return 'stale'
      const after = changes[index + 1]
      const result = this.#apply(change, after !== undefined && follows(after) ? after : null, tally)
      isFollowed = result === 'followed'
      return result === 'followed' ? 'applied' : result
    })
    this.#outcomes.count(tally)
    return results
  }

  /**
   * Ends pending deliveries of an endpoint that nobody serves any more. It reads no more rows than it ends: those that
   * wait behind a head that is gone are found again, because the backlog tells of all that waits at removed endpoints.
   */
  endPending(request: EndPendingRequest): readonly EndedDelivery[] {
    const { no } = this.#endpoints.find(request.endpointId)
    const rows = this.#pendingOf.all(no, no, request.now, request.limit)
    if (rows.length > 0) this.#hours.add(no, request.reason, request.now, rows.length)
    const tally: Tally = new Map()
    const ended = rows.map((row): EndedDelivery => {
      const no = row.no as number
      const link = this.#outcomes.linkOf(no)
      this.#end.run(request.reason, request.now, no)
      if (link !== null) this.#outcomes.note(no, link, { status: 'failed', at: request.now }, tally)
      return { ...(this.#factsOf.get(no) as EndedDelivery) }
    })
    this.#outcomes.count(tally)
    return ended
  }

  /** Behind all that are in the lane now, and all that ever were: positions never go back. */
  toTail(no: number | null, endpointNo: number, lane: string): void {
    this.#toTail.run(no, endpointNo, lane)
  }

  #apply(row: ChangeRow, follower: ChangeRow | null, tally: Tally): ResultRow | 'followed' {
    const no = numberOf('dlv', row[changeAt.id] as string)
    // What was never brought back belongs to no replay: nothing has to be looked up for it.
    const link = row[changeAt.replayedAt] === null ? null : this.#outcomes.linkOf(no)
    const before = row[changeAt.lane] === null ? undefined : (this.#laneRow.get(no) as unknown as LaneRow | undefined)
    const cells = row.slice(changeAt.update, changeAt.attempt)
    if (before !== undefined) cells[changeAt.dueAt - changeAt.update] = this.#dueInLane(before, row)
    const { changes } = this.#update.run(no, ...cells)
    if (changes === 0) return 'stale'
    if (row[changeAt.reason] !== null) this.#countDead(no, row)
    if (link !== null) this.#outcomes.note(no, link, outcomeIn(row), tally)
    if (row.length > changeAt.attempt) this.#log.run(no, ...row.slice(changeAt.attempt))
    if (before === undefined) return 'applied'
    return this.#afterLaneChange(no, before, row, follower)
  }

  #countDead(no: number | null, row: ChangeRow): void {
    const endpointNo = this.#endpointOf.get(no)?.endpoint_no as number
    this.#hours.add(endpointNo, row[changeAt.reason] as Reason, row[changeAt.settledAt] as number)
  }

  /** Only the head of a lane has a due time; who is behind another keeps waiting for it. */
  #dueInLane(before: LaneRow, row: ChangeRow): Cell {
    const dueAt = row[changeAt.dueAt] ?? null
    if (row[changeAt.status] !== 'pending') return dueAt
    const behind = isSettled(before.status)
      ? this.#next.get(before.endpoint_no, before.lane) !== undefined
      : !isHead(before, row)
    return behind ? null : dueAt
  }

  #afterLaneChange(
    no: number | null,
    before: LaneRow,
    row: ChangeRow,
    follower: ChangeRow | null,
  ): ResultRow | 'followed' {
    const status = row[changeAt.status] as DeliveryStatus
    if (isSettled(before.status)) {
      if (status === 'pending') this.toTail(no, before.endpoint_no, before.lane)
      return 'applied'
    }
    if (!isHead(before, row) || !isSettled(status)) return 'applied'
    return follower !== null && this.#isNext(before, follower) ? 'followed' : this.#promote(before, row)
  }

  /** Whether this one is next in the lane, as it was read. */
  #isNext({ endpoint_no, lane }: LaneRow, row: ChangeRow): boolean {
    const next = this.#nextKey.get(endpoint_no, lane) as unknown as NextRow | undefined
    if (next === undefined || next.no !== numberOf('dlv', row[changeAt.id] as string)) return false
    return next.status === 'pending' && next.version === (row[changeAt.version] as number) - 1
  }

  #promote({ endpoint_no, lane }: LaneRow, row: ChangeRow): ResultRow {
    const next = this.#next.get(endpoint_no, lane) as unknown as Cell[] | undefined
    if (next === undefined) return 'applied'
    const claimNext = row[changeAt.claimNext] as number | null
    const isLarge = typeof next[deliveryCells + eventCells - 1] === 'number'
    // It was never the head, so it was never in hand: it cannot be one that has to be claimed alone.
    if (claimNext !== null && !isLarge) return this.#claims.take(next, { leaseEndsAt: claimNext, lapsed: false })
    const settledAt = row[changeAt.settledAt] as number
    this.#release.run(settledAt, next[0] as string, numberOf('dlv', next[0] as string))
    return 'released'
  }
}

function outcomeIn(row: ChangeRow): { status: DeliveryStatus; at: number } {
  return { status: row[changeAt.status] as DeliveryStatus, at: (row[changeAt.settledAt] ?? 0) as number }
}

function follows(row: ChangeRow): boolean {
  return row[changeAt.follows] === 1
}

/** What follows the end of a head is the head from then on. */
function isHead(before: LaneRow, row: ChangeRow): boolean {
  return before.status === 'processing' || before.due_at !== null || follows(row)
}
