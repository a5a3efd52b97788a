import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { numberOf } from '../../core/id.ts'
import { continuesChain, isChainVoid, isParkedAfter, laneEffect, placeOf, promotionOf } from '../../core/lanes.ts'
import { ended } from '../../core/lifecycle.ts'
import type { Reason } from '../../core/outcome.ts'
import { mayEndUnserved } from '../../core/selection.ts'
import type { EndPendingRequest } from '../pipeline-store.ts'
import type { EndedDelivery } from '../upkeep-store.ts'
import { logAttemptSql } from './attempt-rows.ts'
import { type ClaimWork, claimAt, claimColumns } from './claim.ts'
import type { DeadLetterHours } from './dead-letter-hours.ts'
import { DeliveryRecords } from './delivery-records.ts'
import { changeDeliverySql } from './delivery-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import { type LaneRow, LaneRows } from './lane-rows.ts'
import { attemptStart, type ChangeRow, changeAt, packChange, type ResultRow } from './messages.ts'
import type { ReplayOutcomes, Tally } from './replay-outcomes.ts'
import type { Cell } from './rows.ts'

/** Changes deliveries; runs inside the batch's transaction. */
export class Commit {
  readonly #endpoints: EndpointTable
  readonly #claims: ClaimWork
  readonly #hours: DeadLetterHours
  readonly #outcomes: ReplayOutcomes
  readonly #lanes: LaneRows
  readonly #records: DeliveryRecords
  readonly #update: StatementSync
  readonly #log: StatementSync
  readonly #endpointOf: StatementSync
  readonly #next: StatementSync
  readonly #release: StatementSync
  readonly #pendingOf: StatementSync

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
    this.#lanes = new LaneRows(db)
    this.#records = new DeliveryRecords(db, endpoints)
    this.#update = db.prepare(changeDeliverySql)
    this.#log = db.prepare(logAttemptSql)
    this.#endpointOf = db.prepare('SELECT endpoint_no FROM deliveries WHERE no = ?')
    this.#next = db.prepare(`
      SELECT ${claimColumns} FROM deliveries d INDEXED BY deliveries_lane JOIN events e ON e.no = d.event_no
      WHERE d.endpoint_no = ? AND d.lane = ? AND d.lane IS NOT NULL AND d.status IN ('pending', 'processing')
      ORDER BY d.position LIMIT 1`)
    this.#next.setReturnArrays(true)
    this.#release = db.prepare(`
      UPDATE deliveries SET due_at = ?, version = version + 1 WHERE no = ? AND version = ? AND status = 'pending'`)
    this.#pendingOf = db.prepare(`
      SELECT no FROM deliveries INDEXED BY deliveries_pending WHERE endpoint_no = ? AND status = 'pending'
      UNION ALL
      SELECT no FROM deliveries INDEXED BY deliveries_leased
      WHERE endpoint_no = ? AND status = 'processing' AND due_at <= ?
      LIMIT ?`)
  }

  run(changes: readonly ChangeRow[]): ResultRow[] {
    let isHeadEnded = false
    const tally: Tally = new Map()
    const results = changes.map((change, index): ResultRow => {
      if (isChainVoid(follows(change), isHeadEnded)) return 'stale'
      const after = changes[index + 1]
      const result = this.#apply(change, after !== undefined && follows(after) ? after : null, tally)
      isHeadEnded = result === 'followed'
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
    const tally: Tally = new Map()
    const rows = this.#pendingOf.all(no, no, request.now, request.limit)
    const deliveries = rows.flatMap((row) => this.#endUnserved(row.no as number, request, tally))
    this.#outcomes.count(tally)
    return deliveries
  }

  /** Of a lane at a removed endpoint nobody is brought up: all of it ends. */
  #endUnserved(no: number, { reason, now }: EndPendingRequest, tally: Tally): readonly EndedDelivery[] {
    const record = this.#records.find(no)
    if (record === null || !mayEndUnserved(record.delivery, now)) return []
    const { delivery, tenant, type } = record
    const row = packChange({ to: ended(delivery, reason, now), attempt: null, claimNext: null })
    this.#write(no, row, row.slice(changeAt.keeps_interruptions, attemptStart), tally)
    return [{ deliveryId: delivery.id, eventId: delivery.eventId, tenant, type }]
  }

  #apply(row: ChangeRow, follower: ChangeRow | null, tally: Tally): ResultRow | 'followed' {
    const no = numberOf('dlv', row[changeAt.id] as string)
    const cells = row.slice(changeAt.keeps_interruptions, attemptStart)
    const before = row[changeAt.lane] === null ? undefined : this.#lanes.find(no)
    if (before === undefined) return this.#write(no, row, cells, tally) ? 'applied' : 'stale'
    const status = row[changeAt.status] as DeliveryStatus
    const place = placeOf(before.status, before.due_at, follows(row))
    const effect = laneEffect(place, status)
    const tail = effect === 'enters' ? this.#lanes.tailOf(before.endpoint_no, before.lane) : null
    if (isParkedAfter(place, status, tail)) cells[changeAt.due_at - changeAt.keeps_interruptions] = null
    if (!this.#write(no, row, cells, tally)) return 'stale'
    switch (effect) {
      case 'none':
        return 'applied'
      case 'enters':
        this.#lanes.moveToTail(no, before.endpoint_no, before.lane)
        return 'applied'
      case 'moves':
        return follower !== null && this.#isNext(before, follower) ? 'followed' : this.#promote(before, row)
    }
  }

  /** Moves the row to what core has decided, if it still has the version before, and counts and logs what goes with it. */
  #write(no: number | null, row: ChangeRow, cells: Cell[], tally: Tally): boolean {
    // What was never brought back belongs to no replay: nothing has to be looked up for it.
    const link = row[changeAt.replayed_at] === null ? null : this.#outcomes.linkOf(no)
    if (this.#update.run(no, ...cells).changes === 0) return false
    if (row[changeAt.reason] !== null) this.#countDead(no, row)
    if (link !== null) this.#outcomes.note(no, link, outcomeIn(row), tally)
    if (row.length > attemptStart) this.#log.run(no, ...row.slice(attemptStart))
    return true
  }

  #countDead(no: number | null, row: ChangeRow): void {
    const endpointNo = this.#endpointOf.get(no)?.endpoint_no as number
    this.#hours.add(endpointNo, row[changeAt.reason] as Reason, row[changeAt.settled_at] as number)
  }

  /** Whether this one is next in the lane, as it was read. */
  #isNext({ endpoint_no, lane }: LaneRow, row: ChangeRow): boolean {
    const next = this.#lanes.nextIn(endpoint_no, lane)
    if (next === undefined || next.no !== numberOf('dlv', row[changeAt.id] as string)) return false
    return continuesChain(next.status, next.version, (row[changeAt.version] as number) - 1)
  }

  #promote({ endpoint_no, lane }: LaneRow, row: ChangeRow): ResultRow {
    const next = this.#next.get(endpoint_no, lane) as unknown as Cell[] | undefined
    if (next === undefined) return 'applied'
    const claimNext = row[changeAt.claim_next] as number | null
    const isLarge = typeof next[claimAt.body] === 'number'
    const promotion = promotionOf(claimNext, isLarge, row[changeAt.settled_at] as number)
    switch (promotion.kind) {
      case 'claim':
        // It was never the head, so it was never in hand: it cannot be one that has to be claimed alone.
        return this.#claims.take(next, { leaseEndsAt: promotion.leaseEndsAt, lapsed: false })
      case 'release':
        this.#release.run(promotion.dueAt, next[claimAt.no] as number, next[claimAt.version] as number)
        return 'released'
    }
  }
}

function outcomeIn(row: ChangeRow): { status: DeliveryStatus; at: number } {
  return { status: row[changeAt.status] as DeliveryStatus, at: (row[changeAt.settled_at] ?? 0) as number }
}

function follows(row: ChangeRow): boolean {
  return row[changeAt.follows] === 1
}
