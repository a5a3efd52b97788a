import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { type Correction, corrected } from '../../core/clock.ts'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { bornAt } from '../../core/lifecycle.ts'
import { eventKeptUntil, keptUntil, type Retention } from '../../core/retention.ts'
import type {
  EndedDelivery,
  Expired,
  ExpireRequest,
  Pruned,
  PrunedKeys,
  PruneKeysRequest,
  PruneRequest,
} from '../upkeep-store.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Revival } from './revival.ts'

type KeyRow = Readonly<{ scope: string; key: string; expires_at: number }>
type EventRow = Readonly<{ no: number; received_at: number }>
type DeliveryRow = Readonly<{ no: number; status: DeliveryStatus; received_at: number; settled_at: number | null }>
type AgedRow = Readonly<{ no: number; received_at: number; replayed_at: number | null }>

/** No idempotency key is known for longer. */
const keyKeptMsMax = 31 * 86_400_000

/** Lets nothing grow without bound; runs inside the batch's transaction, a piece at a time. */
export class Upkeep {
  readonly #db: DatabaseSync
  readonly #endpoints: EndpointTable
  readonly #revival: Revival
  readonly #aged: StatementSync
  readonly #receivedAt: StatementSync
  readonly #events: StatementSync
  readonly #deliveries: StatementSync
  readonly #deleteAttempts: StatementSync
  readonly #deleteDelivery: StatementSync
  readonly #deleteEvent: StatementSync
  readonly #keysAfter: StatementSync
  readonly #deleteKey: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, revival: Revival) {
    this.#db = db
    this.#endpoints = endpoints
    this.#revival = revival
    this.#aged = db.prepare(`
      SELECT no, received_at, replayed_at FROM deliveries INDEXED BY deliveries_pending
      WHERE endpoint_no = ? AND status = 'pending' AND received_at < ? AND (received_at, no) > (?, ?)
      ORDER BY received_at, no LIMIT ?`)
    this.#receivedAt = db.prepare('SELECT received_at FROM deliveries WHERE no = ?')
    this.#events = db.prepare('SELECT no, received_at FROM events WHERE no > ? ORDER BY no LIMIT ?')
    this.#deliveries = db.prepare(`
      SELECT no, status, received_at, settled_at FROM deliveries INDEXED BY deliveries_of_event WHERE event_no = ?`)
    this.#deleteAttempts = db.prepare('DELETE FROM attempts WHERE delivery_no = ?')
    this.#deleteDelivery = db.prepare('DELETE FROM deliveries WHERE no = ?')
    this.#deleteEvent = db.prepare('DELETE FROM events WHERE no = ?')
    // A walk over all of them: an index for this would cost every event that has a key.
    this.#keysAfter = db.prepare(`
      SELECT scope, key, expires_at FROM idempotency_keys WHERE (scope, key) > (?, ?) ORDER BY scope, key LIMIT ?`)
    this.#deleteKey = db.prepare('DELETE FROM idempotency_keys WHERE scope = ? AND key = ?')
  }

  expire({ endpointId, bornBefore, now, limit, after, correction = null }: ExpireRequest): Expired {
    const { no: endpointNo } = this.#endpoints.find(endpointId)
    // In the order of receipt, so that what is young is never read. A row that is gone meanwhile: from the beginning.
    const since = after === null ? undefined : this.#receivedAt.get(after)
    const start = since === undefined ? [-1, -1] : [since.received_at as number, after]
    const rows = this.#aged.all(endpointNo, bornBefore, ...start, limit) as unknown as AgedRow[]
    const deliveries: EndedDelivery[] = []
    for (const { no, received_at, replayed_at } of rows) {
      const born = bornAt(received_at, replayed_at, correction)
      if (born === null || born >= bornBefore) continue
      // One by one: the end of a head changes the next in its lane, which may be in this chunk too.
      const ended = this.#revival.expire(no, now)
      if (ended === null) continue
      const { delivery, tenant, type } = ended
      deliveries.push({ deliveryId: delivery.id, eventId: delivery.eventId, tenant, type })
    }
    return { deliveries, after: rows.length < limit ? null : (rows.at(-1)?.no ?? null) }
  }

  prune({ now, retention, limit, after, correction = null }: PruneRequest): Pruned {
    const events = this.#events.all(after ?? -1, limit) as unknown as EventRow[]
    let deliveries = 0
    let deleted = 0
    let youngestAt: number | null = null
    for (const event of events) {
      const receivedAt = corrected(event.received_at, correction)
      youngestAt = Math.max(youngestAt ?? receivedAt, receivedAt)
      const { gone, left } = this.#pruneDeliveries(event.no, now, retention, correction)
      deliveries += gone
      if (left > 0 || (gone === 0 && eventKeptUntil(receivedAt, retention) > now)) continue
      this.#deleteEvent.run(event.no)
      deleted += 1
    }
    const last = events.length < limit ? null : (events.at(-1)?.no ?? null)
    return { deliveries, events: deleted, after: last, youngestAt }
  }

  pruneKeys({ now, limit, after, correction = null }: PruneKeysRequest): PrunedKeys {
    // They end after they were taken in.
    const ends = correction && { ...correction, to: correction.to + keyKeptMsMax }
    const rows = this.#keysAfter.all(after?.scope ?? '', after?.key ?? '', limit) as unknown as KeyRow[]
    const ended = rows.filter(({ expires_at }) => corrected(expires_at, ends) <= now)
    for (const { scope, key } of ended) this.#deleteKey.run(scope, key)
    const last = rows.length < limit ? undefined : rows.at(-1)
    return { keys: ended.length, after: last === undefined ? null : { scope: last.scope, key: last.key } }
  }

  shrink(pagesMax: number): number {
    const free = () => (this.#db.prepare('PRAGMA freelist_count').get()?.freelist_count ?? 0) as number
    // Without pages to give back the pragma would mean: all of them.
    if (pagesMax > 0 && free() > 0) this.#db.exec(`PRAGMA incremental_vacuum(${Math.floor(pagesMax)})`)
    return free()
  }

  #pruneDeliveries(
    eventNo: number,
    now: number,
    retention: Retention,
    correction: Correction | null,
  ): { gone: number; left: number } {
    let gone = 0
    let left = 0
    for (const row of this.#deliveries.all(eventNo) as unknown as DeliveryRow[]) {
      const { no, status } = row
      const receivedAt = corrected(row.received_at, correction)
      const settledAt = row.settled_at === null ? null : corrected(row.settled_at, correction)
      const until = keptUntil({ status, receivedAt, settledAt }, retention)
      if (until === null || until > now) {
        left += 1
        continue
      }
      this.#deleteAttempts.run(no)
      this.#deleteDelivery.run(no)
      gone += 1
    }
    return { gone, left }
  }
}
