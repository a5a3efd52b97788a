import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import type { Backlog, Claim, ClaimAnswer, ClaimRequest, LeaseRenewal } from '../store.ts'
import type { EndpointTable } from './endpoints.ts'
import {
  type Cell,
  deliveryCells,
  deliveryColumns,
  eventCells,
  eventColumns,
  toClaimed,
  toEvent,
  toFacts,
} from './rows.ts'

const claimColumns = `${deliveryColumns}, ${eventColumns}, d.no, d.interruptions, d.endpoint_no`
const interruptionsAt = deliveryCells + eventCells + 1

/** The statement behind every claim of due work: its plan is pinned by a test. */
export const readySql = `
  SELECT ${claimColumns} FROM deliveries d INDEXED BY deliveries_ready JOIN events e ON e.no = d.event_no
  WHERE d.endpoint_no = ? AND d.status = 'pending' AND d.due_at IS NOT NULL AND d.due_at <= ?
  ORDER BY d.due_at, d.position LIMIT ?`

/** Takes due work under leases; runs inside the batch's transaction. */
export class ClaimWork {
  readonly #endpoints: EndpointTable
  readonly #ready: StatementSync
  readonly #lapsed: StatementSync
  readonly #named: StatementSync
  readonly #take: StatementSync
  readonly #nextDue: StatementSync
  readonly #firstDueAfter: StatementSync
  readonly #lapsedAt: StatementSync
  readonly #renew: StatementSync
  readonly #pullBack: StatementSync
  readonly #void: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable) {
    this.#endpoints = endpoints
    this.#ready = db.prepare(readySql)
    this.#lapsed = db.prepare(`
      SELECT ${claimColumns} FROM deliveries d INDEXED BY deliveries_leased JOIN events e ON e.no = d.event_no
      WHERE d.status = 'processing' AND d.due_at <= ? AND d.endpoint_no = ? ORDER BY d.due_at LIMIT ?`)
    this.#named = db.prepare(`
      SELECT ${claimColumns} FROM deliveries d JOIN events e ON e.no = d.event_no
      WHERE d.no = ? AND d.id = ? AND (d.status = 'pending' AND d.due_at IS NOT NULL
        OR d.status = 'processing' AND d.due_at <= ?)`)
    this.#take = db.prepare(`
      UPDATE deliveries SET status = 'processing', version = version + 1, due_at = ?, interruptions = ? WHERE no = ?`)
    this.#nextDue = db.prepare(`
      SELECT due_at FROM deliveries INDEXED BY deliveries_ready
      WHERE endpoint_no = ? AND status = 'pending' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1`)
    this.#firstDueAfter = db.prepare(`
      SELECT endpoint_no, due_at FROM deliveries INDEXED BY deliveries_ready
      WHERE endpoint_no > ? AND status = 'pending' AND due_at IS NOT NULL ORDER BY endpoint_no, due_at LIMIT 1`)
    this.#lapsedAt = db.prepare(`
      SELECT endpoint_no, min(due_at) AS due_at FROM deliveries INDEXED BY deliveries_leased
      WHERE status = 'processing' AND due_at <= ? GROUP BY endpoint_no`)
    this.#renew = db.prepare(`UPDATE deliveries SET due_at = ? WHERE no = ? AND version = ? AND status = 'processing'`)
    this.#pullBack = db.prepare(`
      UPDATE deliveries INDEXED BY deliveries_ready SET due_at = ?1, retry_after = min(retry_after, ?1), version = version + 1
      WHERE endpoint_no = ?2 AND status = 'pending' AND due_at IS NOT NULL AND due_at > ?1`)
    this.#void = db.prepare(`
      UPDATE deliveries INDEXED BY deliveries_leased SET status = 'pending', version = version + 1,
        interruptions = interruptions + 1,
        due_at = coalesce(retry_after, replayed_at, received_at)
      WHERE status = 'processing'`)
    for (const rows of [this.#ready, this.#lapsed, this.#named]) rows.setReturnArrays(true)
  }

  run({ from, now, leaseEndsAt, limit, bytesMax }: ClaimRequest): ClaimAnswer {
    const claims: Claim[] = []
    let bytes = 0
    const take = (row: readonly Cell[], lapsed: boolean): boolean => {
      if (claims.length >= limit || (claims.length > 0 && bytes >= bytesMax)) return false
      const claim = this.take(row, { leaseEndsAt, lapsed })
      bytes += claim.event.body.length
      claims.push(claim)
      return true
    }
    if ('deliveryIds' in from) {
      for (const id of from.deliveryIds) {
        const row = this.#named.get(numberOf('dlv', id), id, now) as unknown as Cell[] | undefined
        if (row !== undefined) take(row, row[10] === 'processing')
      }
      return { claims, nextDueAt: null }
    }
    const { no } = this.#endpoints.find(from.endpointId)
    for (const row of this.#lapsed.all(now, no, limit) as unknown as Cell[][]) if (!take(row, true)) break
    if (claims.length < limit && (claims.length === 0 || bytes < bytesMax)) {
      // Rows are read one by one, so that large bodies beyond the limit are never loaded.
      const taken: Cell[][] = []
      for (const row of this.#ready.iterate(no, now, limit - claims.length) as Iterable<unknown>) {
        taken.push(row as Cell[])
        bytes += ((row as Cell[])[deliveryCells + eventCells - 1] as Uint8Array).length
        if (bytes >= bytesMax) break
      }
      for (const row of taken) claims.push(this.take(row, { leaseEndsAt, lapsed: false }))
    }
    return { claims, nextDueAt: (this.#nextDue.get(no)?.due_at ?? null) as number | null }
  }

  /** Puts one row, read with `claimColumns`, under a lease. */
  take(row: readonly Cell[], { leaseEndsAt, lapsed }: { leaseEndsAt: number; lapsed: boolean }): Claim {
    const event = toEvent(row, deliveryCells)
    const endpointId = this.#endpoints.idOf(row[interruptionsAt + 1] as number)
    const facts = toFacts(row, 0, { eventId: event.id, endpointId })
    const interruptions = (row[interruptionsAt] as number) + (lapsed ? 1 : 0)
    this.#take.run(leaseEndsAt, interruptions, row[interruptionsAt - 1] as number)
    return { delivery: toClaimed(facts, leaseEndsAt), event, interruptions }
  }

  renew(leases: readonly LeaseRenewal[]): void {
    for (const { deliveryId, version, leaseEndsAt } of leases) {
      this.#renew.run(leaseEndsAt, numberOf('dlv', deliveryId), version)
    }
  }

  backlog(now: number): Backlog[] {
    const found: Backlog[] = this.#lapsedAt
      .all(now)
      .map((row) => ({ endpointId: this.#endpoints.idOf(row.endpoint_no as number), nextDueAt: row.due_at as number }))
    let last = -1
    for (;;) {
      const row = this.#firstDueAfter.get(last)
      if (row === undefined) return found
      last = row.endpoint_no as number
      found.push({ endpointId: this.#endpoints.idOf(last), nextDueAt: row.due_at as number })
    }
  }

  pullBack(endpointId: string, latestDueAt: number): number {
    return Number(this.#pullBack.run(latestDueAt, this.#endpoints.find(endpointId).no).changes)
  }

  /** A new owner of the file voids the leases of the one before it. */
  voidLeases(): number {
    return Number(this.#void.run().changes)
  }
}
