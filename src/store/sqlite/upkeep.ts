import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { type Correction, corrected } from '../../core/clock.ts'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { bornAt } from '../../core/lifecycle.ts'
import { eventKeptUntil, keptUntil, type Retention } from '../../core/retention.ts'
import type { Cursor, EndedDelivery, Expired, ExpireRequest, Pruned, PruneRequest } from '../upkeep-store.ts'
import type { DeadLetterHours } from './dead-letter-hours.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Replays } from './replays.ts'
import type { Revival } from './revival.ts'

type KeyRow = Readonly<{ scope: string; key: string; expires_at: number }>
type EventRow = Readonly<{ no: number; received_at: number }>
type DeliveryRow = Readonly<{ no: number; status: DeliveryStatus; received_at: number; settled_at: number | null }>
type AgedRow = Readonly<{ no: number; received_at: number; replayed_at: number | null }>

type PruneOf<What> = Extract<PruneRequest, Readonly<{ what: What }>>

/** Those that know which of their rows are old. */
export type Prunable = Readonly<{ replays: Pick<Replays, 'prune'>; hours: Pick<DeadLetterHours, 'prune'> }>

/** No idempotency key is known for longer. */
const keyKeptMsMax = 31 * 86_400_000

/** Lets nothing grow without bound; runs inside the batch's transaction, a piece at a time. */
export class Upkeep {
  readonly #db: DatabaseSync
  readonly #endpoints: EndpointTable
  readonly #revival: Revival
  readonly #prunable: Prunable
  readonly #aged: StatementSync
  readonly #receivedAt: StatementSync
  readonly #events: StatementSync
  readonly #deliveries: StatementSync
  readonly #deleteAttempts: StatementSync
  readonly #deleteDelivery: StatementSync
  readonly #deleteEvent: StatementSync
  readonly #deleteOrigins: StatementSync
  readonly #keysAfter: StatementSync
  readonly #deleteKey: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, revival: Revival, prunable: Prunable) {
    this.#db = db
    this.#endpoints = endpoints
    this.#revival = revival
    this.#prunable = prunable
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
    this.#deleteOrigins = db.prepare('DELETE FROM origins WHERE event_no = ?')
    // A walk over all of them: an index for this would cost every event that has a key.
    this.#keysAfter = db.prepare(`
      SELECT scope, key, expires_at FROM idempotency_keys WHERE (scope, key) > (?, ?) ORDER BY scope, key LIMIT ?`)
    this.#deleteKey = db.prepare('DELETE FROM idempotency_keys WHERE scope = ? AND key = ?')
  }

  expire({ endpointId, bornBefore, now, limit, after, correction = null }: ExpireRequest): Expired {
    const { no: endpointNo } = this.#endpoints.find(endpointId)
    // In the order of receipt, so that what is young is never read. A row that is gone meanwhile: from the beginning.
    const no = numberAt(after)
    const since = this.#receivedAt.get(no)
    const start = since === undefined ? [-1, -1] : [since.received_at as number, no]
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
    return { deliveries, after: cursorAfter(rows, limit) }
  }

  prune(request: PruneRequest): Pruned {
    switch (request.what) {
      case 'events':
        return this.#pruneEvents(request)
      case 'keys':
        return this.#pruneKeys(request)
      case 'replays':
        return prunedOldest(this.#prunable.replays.prune(request), request.limit)
      case 'dead_letter_counts':
        return prunedOldest(this.#prunable.hours.prune(request), request.limit)
    }
  }

  #pruneEvents({ now, retention, limit, after, correction = null }: PruneOf<'events'>): Pruned {
    const events = this.#events.all(numberAt(after), limit) as unknown as EventRow[]
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
      this.#deleteOrigins.run(event.no)
      deleted += 1
    }
    return { deleted, deliveries, after: cursorAfter(events, limit), youngestAt }
  }

  #pruneKeys({ now, limit, after, correction = null }: PruneOf<'keys'>): Pruned {
    // They end after they were taken in.
    const ends = correction && { ...correction, to: correction.to + keyKeptMsMax }
    const [fromScope, fromKey] = (after === null ? ['', ''] : JSON.parse(after)) as [string, string]
    const rows = this.#keysAfter.all(fromScope, fromKey, limit) as unknown as KeyRow[]
    const ended = rows.filter(({ expires_at }) => corrected(expires_at, ends) <= now)
    for (const { scope, key } of ended) this.#deleteKey.run(scope, key)
    const last = rows.length < limit ? undefined : rows.at(-1)
    const next = last === undefined ? null : JSON.stringify([last.scope, last.key])
    return { deleted: ended.length, deliveries: 0, after: next, youngestAt: null }
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

/** Before all row keys when there is no cursor. */
function numberAt(after: Cursor | null): number {
  return after === null ? -1 : Number(after)
}

/** null: fewer were found than asked for, so that was all. */
function cursorAfter(rows: readonly Readonly<{ no: number }>[], limit: number): Cursor | null {
  const last = rows.at(-1)
  return last === undefined || rows.length < limit ? null : String(last.no)
}

/** Where the oldest go first, the next call begins at the beginning again. */
function prunedOldest(deleted: number, limit: number): Pruned {
  return { deleted, deliveries: 0, after: deleted < limit ? null : 'beginning', youngestAt: null }
}
