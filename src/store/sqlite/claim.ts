import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import { claimed, dueAfterInterruption, interruptionsAfter } from '../../core/lifecycle.ts'
import type { LightClaim, LightClaimAnswer } from '../bodies.ts'
import type { Backlog, ClaimRequest, LeaseRenewal } from '../pipeline-store.ts'
import { placesOf } from '../places.ts'
import { deliveryAt, deliveryCells, deliveryColumns, toFacts } from './delivery-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import { eventAt, eventCells, lightEventColumns, toLightEvent } from './event-rows.ts'
import type { Cell } from './rows.ts'

/** What `take` needs of a row. */
const workNames = ['no', 'interruptions', 'endpoint_no'] as const
export const claimColumns = `${deliveryColumns}, ${lightEventColumns}, ${workNames.map((name) => `d.${name}`).join(', ')}`

const eventStart = deliveryCells
const workStart = eventStart + eventCells
const workAt = placesOf(workNames)
export const claimAt = {
  version: deliveryAt.version,
  status: deliveryAt.status,
  body: eventStart + eventAt.body,
  no: workStart + workAt.no,
  interruptions: workStart + workAt.interruptions,
  endpointNo: workStart + workAt.endpoint_no,
} as const

/** The statement behind every claim of due work: its plan is pinned by a test. */
export const readySql = `
  SELECT ${claimColumns} FROM deliveries d INDEXED BY deliveries_ready JOIN events e ON e.no = d.event_no
  WHERE d.endpoint_no = ? AND d.status = 'pending' AND d.due_at IS NOT NULL AND d.due_at <= ?
  ORDER BY d.due_at, d.position LIMIT ?`

type LeasedRow = Readonly<{
  no: number
  version: number
  received_at: number
  replayed_at: number | null
  retry_after: number | null
  interruptions: number
}>

/** Takes due work under leases; runs inside the batch's transaction. */
export class ClaimWork {
  readonly #endpoints: EndpointTable
  readonly #ready: StatementSync
  readonly #lapsed: StatementSync
  readonly #named: StatementSync
  readonly #take: StatementSync
  readonly #nextDue: StatementSync
  readonly #firstDueAfter: StatementSync
  readonly #firstPendingAfter: StatementSync
  readonly #lapsedAt: StatementSync
  readonly #renew: StatementSync
  readonly #leased: StatementSync
  readonly #interrupt: StatementSync
  readonly #body: StatementSync

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
      UPDATE deliveries SET status = 'processing', version = ?2, due_at = ?3, interruptions = ?4
      WHERE no = ?1 AND version = ?2 - 1`)
    this.#nextDue = db.prepare(`
      SELECT due_at FROM deliveries INDEXED BY deliveries_ready
      WHERE endpoint_no = ? AND status = 'pending' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1`)
    this.#firstDueAfter = db.prepare(`
      SELECT endpoint_no, due_at FROM deliveries INDEXED BY deliveries_ready
      WHERE endpoint_no > ? AND status = 'pending' AND due_at IS NOT NULL ORDER BY endpoint_no, due_at LIMIT 1`)
    this.#firstPendingAfter = db.prepare(`
      SELECT endpoint_no FROM deliveries INDEXED BY deliveries_pending
      WHERE endpoint_no > ? AND status = 'pending' ORDER BY endpoint_no LIMIT 1`)
    this.#lapsedAt = db.prepare(`
      SELECT endpoint_no, min(due_at) AS due_at FROM deliveries INDEXED BY deliveries_leased
      WHERE status = 'processing' AND due_at <= ? GROUP BY endpoint_no`)
    this.#renew = db.prepare(`UPDATE deliveries SET due_at = ? WHERE no = ? AND version = ? AND status = 'processing'`)
    this.#leased = db.prepare(`
      SELECT no, version, received_at, replayed_at, retry_after, interruptions
      FROM deliveries INDEXED BY deliveries_leased WHERE status = 'processing'`)
    this.#interrupt = db.prepare(`
      UPDATE deliveries SET status = 'pending', version = version + 1, due_at = ?, interruptions = ?
      WHERE no = ? AND version = ?`)
    this.#body = db.prepare('SELECT body FROM events WHERE no = ? AND id = ?')
    for (const rows of [this.#ready, this.#lapsed, this.#named]) rows.setReturnArrays(true)
  }

  run(request: ClaimRequest): LightClaimAnswer {
    const { from, now, limit } = request
    const work = new WorkInHand(request, (row, lapsed) => this.take(row, { leaseEndsAt: request.leaseEndsAt, lapsed }))
    if ('deliveryIds' in from) {
      for (const id of from.deliveryIds) {
        const row = this.#named.get(numberOf('dlv', id), id, now) as unknown as Cell[] | undefined
        if (row !== undefined) work.offer(row, row[claimAt.status] === 'processing')
      }
      return { ...work.take(), nextDueAt: null }
    }
    const { no } = this.#endpoints.find(from.endpointId)
    for (const row of this.#lapsed.all(now, no, limit) as unknown as Cell[][]) if (!work.offer(row, true)) break
    if (work.hasRoom) {
      // Rows are read one by one, so that large bodies beyond the limit are never loaded.
      for (const row of this.#ready.iterate(no, now, limit) as Iterable<unknown>) {
        if (!work.offer(row as Cell[], false)) break
      }
    }
    return { ...work.take(), nextDueAt: (this.#nextDue.get(no)?.due_at ?? null) as number | null }
  }

  /** Puts one row, read with `claimColumns`, under a lease. */
  take(row: readonly Cell[], { leaseEndsAt, lapsed }: { leaseEndsAt: number; lapsed: boolean }): LightClaim {
    const event = toLightEvent(row, eventStart)
    const endpointId = this.#endpoints.idOf(row[claimAt.endpointNo] as number)
    const facts = toFacts(row, 0, { eventId: event.id, endpointId })
    const interruptions = interruptionsAfter(row[claimAt.interruptions] as number, lapsed)
    const delivery = claimed(facts, leaseEndsAt)
    this.#take.run(row[claimAt.no] as number, delivery.version, leaseEndsAt, interruptions)
    return { delivery, event, interruptions }
  }

  /** One large body: claims come without. */
  body(eventId: string): Uint8Array | null {
    return (this.#body.get(numberOf('evt', eventId), eventId)?.body ?? null) as Uint8Array | null
  }

  /** Moves the end of a lease and nothing else: the version stays, so that the outcome in hand still fits. */
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
    for (let row = this.#firstDueAfter.get(last); row !== undefined; row = this.#firstDueAfter.get(last)) {
      last = row.endpoint_no as number
      found.push({ endpointId: this.#endpoints.idOf(last), nextDueAt: row.due_at as number })
    }
    const known = new Set(found.map(({ endpointId }) => endpointId))
    return [...found, ...this.#leftBehind(now).filter(({ endpointId }) => !known.has(endpointId))]
  }

  /** Removed endpoints at which anything is pending, even if it waits behind a head that was ended before it. */
  #leftBehind(now: number): Backlog[] {
    const found: Backlog[] = []
    let last = -1
    for (let row = this.#firstPendingAfter.get(last); row !== undefined; row = this.#firstPendingAfter.get(last)) {
      last = row.endpoint_no as number
      const endpointId = this.#endpoints.idOf(last)
      if (this.#endpoints.find(endpointId).removed) found.push({ endpointId, nextDueAt: now })
    }
    return found
  }

  /** A new owner of the file voids the leases of the one before it. */
  voidLeases(): number {
    const rows = this.#leased.all() as unknown as LeasedRow[]
    for (const { no, version, received_at, replayed_at, retry_after, interruptions } of rows) {
      const dueAt = dueAfterInterruption(received_at, replayed_at, retry_after)
      this.#interrupt.run(dueAt, interruptionsAfter(interruptions, true), no, version)
    }
    return rows.length
  }
}

/** What a claim is about to take, within its limits. Rows are taken when all were read: taking changes their index. */
class WorkInHand {
  readonly #request: ClaimRequest
  readonly #take: (row: readonly Cell[], lapsed: boolean) => LightClaim
  readonly #rows: (readonly [row: readonly Cell[], lapsed: boolean])[] = []
  #bytes = 0
  #tooLarge: number | null = null
  #isFull = false

  constructor(request: ClaimRequest, take: (row: readonly Cell[], lapsed: boolean) => LightClaim) {
    this.#request = request
    this.#take = take
  }

  get hasRoom(): boolean {
    return !this.#isFull && this.#rows.length < this.#request.limit
  }

  /** Answers whether another may follow. */
  offer(row: readonly Cell[], lapsed: boolean): boolean {
    if (!this.hasRoom) return false
    const isFirst = this.#rows.length === 0
    const bytes = bytesIn(row)
    if (this.#bytes + bytes > this.#request.bytesMax) {
      if (isFirst) this.#tooLarge = bytes
      this.#isFull = true
      return false
    }
    const interruptions = interruptionsAfter(row[claimAt.interruptions] as number, lapsed)
    if (interruptions >= (this.#request.aloneFrom ?? Number.POSITIVE_INFINITY)) {
      // It may have ended the process before: whatever is taken with it would be suspected too.
      this.#isFull = true
      if (!isFirst) return false
    }
    this.#rows.push([row, lapsed])
    this.#bytes += bytes
    return this.hasRoom
  }

  take(): Pick<LightClaimAnswer, 'claims' | 'tooLarge'> {
    return { claims: this.#rows.map(([row, lapsed]) => this.#take(row, lapsed)), tooLarge: this.#tooLarge }
  }
}

function bytesIn(row: readonly Cell[]): number {
  const body = row[claimAt.body] as Uint8Array | number
  return typeof body === 'number' ? body : body.length
}
