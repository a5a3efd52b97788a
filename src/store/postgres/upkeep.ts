import { corrected } from '../../core/clock.ts'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { bornAt } from '../../core/lifecycle.ts'
import { eventKeptUntil, keptUntil } from '../../core/retention.ts'
import type { EndPendingRequest } from '../pipeline-store.ts'
import type { EndedDelivery, Expired, ExpireRequest, Pruned, PruneRequest } from '../upkeep-store.ts'
import { int4s, int8s, texts } from './arrays.ts'
import { type Queryable, type Row, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Read, Revival } from './revival.ts'
import { idOf } from './row-keys.ts'
import type { Write } from './write-stream.ts'

type PruneOf<What> = Extract<PruneRequest, Readonly<{ what: What }>>
type Call = <Item, Result>(write: Write<Item, Result>, item: Item) => Promise<Result>

export type UpkeepParts = Readonly<{
  on: Queryable
  schema: string
  endpoints: EndpointTable
  revival: Revival
  call: Call
}>

/** No idempotency key is known for longer. */
const keyKeptMsMax = 31 * 86_400_000
const hourMs = 3_600_000
const beforeAll = '00000000-0000-0000-0000-000000000000'

/** Lets nothing grow without bound: reads a piece, decides by core, and writes what is still as it was read. */
export class Upkeep {
  readonly #parts: UpkeepParts

  constructor(parts: UpkeepParts) {
    this.#parts = parts
  }

  async expire({ endpointId, bornBefore, now, limit, after, correction = null }: ExpireRequest): Promise<Expired> {
    const { on, schema, endpoints, revival } = this.#parts
    await endpoints.ensure([endpointId])
    const [sinceAt, sinceKey] = after === null ? [-1, beforeAll] : (JSON.parse(after) as [number, string])
    const rows = await rowsOf(
      on,
      `SELECT id, received_at, replayed_at FROM ${schema}.live
       WHERE endpoint = $1 AND owner IS NULL AND received_at < $2 AND (received_at, id) > ($3, $4)
       ORDER BY received_at, id LIMIT $5`,
      [endpoints.find(endpointId).no, bornBefore, sinceAt, sinceKey, limit],
    )
    const old = rows.filter(([, receivedAt, replayedAt]) => {
      const born = bornAt(receivedAt as number, replayedAt as number | null, correction)
      return born !== null && born < bornBefore
    })
    const gone = await revival.expire(
      old.map(([key]) => idOf('dlv', key as string)),
      now,
    )
    const last = rows.at(-1)
    const isLast = last === undefined || rows.length < limit
    return { deliveries: gone.map(toEnded), after: isLast ? null : JSON.stringify([last[1], last[0]]) }
  }

  /** Ends pieces of what waits at a removed endpoint until one is full, or nothing is left. */
  async endPending({ endpointId, reason, now, limit }: EndPendingRequest): Promise<readonly EndedDelivery[]> {
    const { on, schema, endpoints, revival } = this.#parts
    await endpoints.ensure([endpointId])
    const done: Read[] = []
    for (;;) {
      const rows = await rowsOf(
        on,
        `SELECT id FROM ${schema}.live WHERE endpoint = $1 AND (owner IS NULL OR due_at <= $2) ORDER BY received_at, id LIMIT $3`,
        [endpoints.find(endpointId).no, now, limit - done.length],
      )
      if (rows.length === 0) return done.map(toEnded)
      const ids = rows.map(([key]) => idOf('dlv', key as string))
      done.push(...(await revival.endUnserved(ids, reason, now)))
      if (done.length >= limit) return done.map(toEnded)
    }
  }

  prune(request: PruneRequest): Promise<Pruned> {
    switch (request.what) {
      case 'events':
        return this.#pruneEvents(request)
      case 'keys':
        return this.#pruneKeys(request)
      case 'replays':
        return this.#pruneOldest('prune_replays_v1', request.before, request.limit)
      case 'dead_letter_counts':
        return this.#pruneOldest('prune_hours_v1', Math.floor(request.before / hourMs), request.limit)
    }
  }

  async #pruneEvents(request: PruneOf<'events'>): Promise<Pruned> {
    const { on, schema, call } = this.#parts
    const { now, retention, limit, after, correction = null } = request
    const events = await rowsOf(
      on,
      `SELECT e.id, e.received_at, EXISTS (SELECT 1 FROM ${schema}.live l WHERE l.event_id = e.id)
       FROM ${schema}.events e WHERE e.id > $1 ORDER BY e.id LIMIT $2`,
      [after ?? beforeAll, limit],
    )
    const last = events.at(-1)
    if (last === undefined) return { deleted: 0, deliveries: 0, after: null, youngestAt: null }
    const byEvent = await this.#endedOf(events)
    const old: Row[] = []
    const over: string[] = []
    let youngestAt = 0
    for (const [key, at, isLive] of events as [string, number, boolean][]) {
      const receivedAt = corrected(at, correction)
      youngestAt = Math.max(youngestAt, receivedAt)
      const rows = byEvent.get(key) ?? []
      const gone = rows.filter((row) => isOver(row, request))
      old.push(...gone)
      const isAlone = rows.length === 0 && !isLive
      if (gone.length < rows.length || isLive || (isAlone && eventKeptUntil(receivedAt, retention) > now)) continue
      over.push(key)
    }
    const [deliveries, deleted] = await call(pruneEventsWrite, { deliveries: old, events: over })
    return { deleted, deliveries, after: events.length < limit ? null : (last[0] as string), youngestAt }
  }

  async #endedOf(events: readonly Row[]): Promise<ReadonlyMap<string, readonly Row[]>> {
    const { on, schema } = this.#parts
    const rows = await rowsOf(
      on,
      `SELECT id, version, status, received_at, settled_at, event_id FROM ${schema}.ended WHERE event_id = ANY ($1::uuid[])`,
      [`{${events.map(([key]) => key).join(',')}}`],
    )
    return Map.groupBy(rows, (row) => row[5] as string)
  }

  async #pruneKeys({ now, limit, after, correction = null }: PruneOf<'keys'>): Promise<Pruned> {
    const { on, schema, call } = this.#parts
    // They end after they were taken in.
    const ends = correction && { ...correction, to: correction.to + keyKeptMsMax }
    const [fromScope, fromKey] = (after === null ? ['', ''] : JSON.parse(after)) as [string, string]
    const rows = await rowsOf(
      on,
      `SELECT scope, key, expires_at FROM ${schema}.idempotency_keys WHERE (scope, key) > ($1, $2)
       ORDER BY scope, key LIMIT $3`,
      [fromScope, fromKey, limit],
    )
    const ended = rows.filter(([, , expiresAt]) => corrected(expiresAt as number, ends) <= now)
    const deleted = ended.length === 0 ? 0 : await call(pruneKeysWrite, ended)
    const last = rows.length < limit ? undefined : rows.at(-1)
    const next = last === undefined ? null : JSON.stringify([last[0], last[1]])
    return { deleted, deliveries: 0, after: next, youngestAt: null }
  }

  /** Where the oldest go first, the next call begins at the beginning again. */
  async #pruneOldest(name: string, before: number, limit: number): Promise<Pruned> {
    const deleted = await this.#parts.call(pruneOldestWrite(name), [before, limit])
    return { deleted, deliveries: 0, after: deleted < limit ? null : 'beginning', youngestAt: null }
  }
}

function isOver(row: Row, { now, retention, correction = null }: PruneOf<'events'>): boolean {
  const [, , status, received, settled] = row as unknown as [string, number, DeliveryStatus, number, number]
  const receivedAt = corrected(received, correction)
  const settledAt = corrected(settled, correction)
  const until = keptUntil({ status, receivedAt, settledAt }, retention)
  return until !== null && until <= now
}

function toEnded({ delivery, tenant, type }: Read): EndedDelivery {
  return { deliveryId: delivery.id, eventId: delivery.eventId, tenant, type }
}

type Old = Readonly<{ deliveries: readonly Row[]; events: readonly string[] }>

const pruneEventsWrite: Write<Old, readonly [deliveries: number, events: number]> = {
  name: 'prune_events_v1',
  fits: () => 1,
  values: ([old]) => [
    `{${old?.deliveries.map(([key]) => key).join(',')}}`,
    int4s((old?.deliveries ?? []).map(([, version]) => version as number)),
    `{${old?.events.join(',')}}`,
  ],
  results: (_items, answer) => [answer === null ? [0, 0] : JSON.parse(answer)],
}

const pruneKeysWrite: Write<readonly Row[], number> = {
  name: 'prune_keys_v1',
  fits: () => 1,
  values: ([rows = []]) => [
    texts(rows.map(([scope]) => scope as string)),
    texts(rows.map(([, key]) => key as string)),
    int8s(rows.map(([, , expiresAt]) => expiresAt as number)),
  ],
  results: (_items, answer) => [Number(answer ?? 0)],
}

function pruneOldestWrite(name: string): Write<readonly [before: number, limit: number], number> {
  return {
    name,
    fits: () => 1,
    values: ([bounds]) => [...(bounds ?? [])],
    results: (_items, answer) => [Number(answer ?? 0)],
  }
}
