import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import type { EndpointTable } from './endpoints.ts'
import { type ArrivalRow, arrivalHead, type Calls, cellsPerDelivery, type ItemRow, idempotencyAt } from './messages.ts'
import type { Cell } from './rows.ts'

/** Whether anything is under way in a lane: what comes then waits behind it. */
export const laneBusySql = `
  SELECT 1 FROM deliveries INDEXED BY deliveries_lane
  WHERE endpoint_no = ? AND lane = ? AND lane IS NOT NULL AND status IN ('pending', 'processing') LIMIT 1`

/** Keeps events and deliveries; runs inside the batch's transaction. */
export class Append {
  readonly #db: DatabaseSync
  readonly #endpoints: EndpointTable
  readonly #insertEvent: StatementSync
  readonly #insertDelivery: StatementSync
  readonly #laneBusy: StatementSync
  readonly #knownKey: StatementSync
  readonly #insertKey: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable) {
    this.#db = db
    this.#endpoints = endpoints
    this.#insertEvent = db.prepare(`
      INSERT INTO events (no, id, tenant, type, key, received_at, content_type, headers, data_offset, request, size, body)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    this.#insertDelivery = db.prepare(`
      INSERT INTO deliveries
        (no, id, event_no, endpoint_no, lane, position, status, version, due_at, received_at, settled_at, reason)
      VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)`)
    this.#laneBusy = db.prepare(laneBusySql)
    this.#knownKey = db.prepare(`
      SELECT fingerprint, event_id, deliveries FROM idempotency_keys
      WHERE scope = ? AND key = ? AND expires_at > ?`)
    this.#insertKey = db.prepare(`
      INSERT OR REPLACE INTO idempotency_keys (scope, key, fingerprint, event_id, deliveries, expires_at)
      VALUES (?, ?, ?, ?, ?, ?)`)
  }

  run(arrivals: readonly ArrivalRow[], bodies: ArrayBuffer): Calls['append']['answer'] {
    // A conflict found half-way takes back what this call has written, and nothing else of the batch.
    const mayConflict = arrivals.some((arrival) => arrival[idempotencyAt] !== null)
    if (mayConflict) this.#db.exec('SAVEPOINT arrivals')
    const items: ItemRow[] = []
    const conflicts: number[] = []
    arrivals.forEach((arrival, index) => {
      const item = this.#keep(arrival, bodies)
      if (item === 'conflict') conflicts.push(index)
      else items.push(item)
    })
    if (mayConflict) this.#db.exec(conflicts.length > 0 ? 'ROLLBACK TO arrivals; RELEASE arrivals' : 'RELEASE arrivals')
    return conflicts.length > 0 ? { conflicts } : items
  }

  #keep(row: ArrivalRow, bodies: ArrayBuffer): ItemRow | 'conflict' {
    const [id, tenant, type, key, receivedAt, contentType, headers, dataOffset, request, size, bodyOffset] = row
    const [scope = null, idempotencyKey = null, fingerprint = null, expiresAt = null] = row.slice(
      idempotencyAt,
      arrivalHead,
    )
    const deliveries = (row.length - arrivalHead) / cellsPerDelivery
    if (idempotencyKey !== null) {
      const known = this.#knownKey.get(scope, idempotencyKey, receivedAt as number)
      if (known !== undefined) {
        if (known.fingerprint !== fingerprint) return 'conflict'
        return [known.event_id as string, known.deliveries as number]
      }
      this.#insertKey.run(scope, idempotencyKey, fingerprint, id as string, deliveries, expiresAt)
    }
    const no = numberOf('evt', id as string)
    const body = new Uint8Array(bodies, bodyOffset as number, size as number)
    this.#insertEvent.run(
      ...([no, id, tenant, type, key, receivedAt, contentType, headers, dataOffset, request, size, body] as Cell[]),
    )
    let claimed = ''
    for (let at = arrivalHead; at < row.length; at += cellsPerDelivery) {
      claimed += this.#keepDelivery(row, at, no, receivedAt as number) ? '1' : '0'
    }
    return claimed
  }

  /** Answers whether it was claimed at birth. */
  #keepDelivery(row: ArrivalRow, at: number, eventNo: number | null, receivedAt: number): boolean {
    const id = row[at] as string
    const lane = row[at + 2] as string | null
    const leaseEndsAt = row[at + 3] as number | null
    const no = numberOf('dlv', id)
    const endpoint = this.#endpoints.find(row[at + 1] as string)
    if (endpoint.removed) {
      const cells = [no, id, eventNo, endpoint.no, lane, no, 'failed', null, receivedAt, receivedAt, 'endpoint_deleted']
      this.#insertDelivery.run(...(cells as Cell[]))
      return false
    }
    const behind = lane !== null && this.#laneBusy.get(endpoint.no, lane) !== undefined
    const claimed = leaseEndsAt !== null && !behind
    const status = claimed ? 'processing' : 'pending'
    const dueAt = claimed ? leaseEndsAt : behind ? null : (row[at + 4] as number)
    this.#insertDelivery.run(
      ...([no, id, eventNo, endpoint.no, lane, no, status, dueAt, receivedAt, null, null] as Cell[]),
    )
    return claimed
  }
}
