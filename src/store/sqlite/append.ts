import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import { arrivalPosition, waitsBehind } from '../../core/lanes.ts'
import { statusAtBirth } from '../../core/lifecycle.ts'
import type { DeadLetterHours } from './dead-letter-hours.ts'
import type { EndpointTable } from './endpoints.ts'
import { LaneRows } from './lane-rows.ts'
import { type ArrivalRow, arrivalAt, type Calls, cellsPerDelivery, type ItemRow } from './messages.ts'
import type { Cell } from './rows.ts'

type KnownKey = readonly [fingerprint: string, eventId: string, deliveries: number]

function deliveriesIn(row: ArrivalRow): number {
  return (row.length - arrivalAt.deliveries) / cellsPerDelivery
}

/** Keeps events and deliveries; runs inside the batch's transaction. */
export class Append {
  readonly #endpoints: EndpointTable
  readonly #hours: DeadLetterHours
  readonly #insertEvent: StatementSync
  readonly #insertDelivery: StatementSync
  readonly #lanes: LaneRows
  readonly #knownKey: StatementSync
  readonly #insertKey: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, hours: DeadLetterHours) {
    this.#endpoints = endpoints
    this.#hours = hours
    this.#insertEvent = db.prepare(`
      INSERT INTO events (no, id, tenant, type, key, received_at, content_type, headers, data_offset, request, size, body)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS BLOB), ?, ?)`)
    this.#insertDelivery = db.prepare(`
      INSERT INTO deliveries
        (no, id, event_no, endpoint_no, lane, position, status, version, due_at, received_at, settled_at, reason)
      VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)`)
    this.#lanes = new LaneRows(db)
    this.#knownKey = db.prepare(`
      SELECT fingerprint, event_id, deliveries FROM idempotency_keys
      WHERE scope = ? AND key = ? AND expires_at > ?`)
    this.#knownKey.setReturnArrays(true)
    this.#insertKey = db.prepare(`
      INSERT INTO idempotency_keys (scope, key, fingerprint, event_id, deliveries, expires_at)
      VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, event_id = excluded.event_id,
        deliveries = excluded.deliveries, expires_at = excluded.expires_at
      WHERE expires_at <= ?`)
  }

  run(arrivals: readonly ArrivalRow[], bodies: ArrayBuffer): Calls['append']['answer'] {
    const [only] = arrivals
    if (only !== undefined && arrivals.length === 1) return this.#keepOne(only, bodies)
    // All keys are looked up before anything is written, so that a conflict leaves nothing to take back.
    const earlier = new Map<string, ArrivalRow>()
    const repeats = arrivals.map((arrival) =>
      arrival[arrivalAt.idempotencyKey] === null ? null : this.#repeatOf(arrival, earlier),
    )
    const conflicts = repeats.flatMap((repeat, index) => (repeat === 'conflict' ? [index] : []))
    if (conflicts.length > 0) return { conflicts }
    return arrivals.map((arrival, index) => {
      const repeat = repeats[index] as ItemRow | null
      if (repeat !== null) return repeat
      if (arrival[arrivalAt.idempotencyKey] !== null) this.#keepKey(arrival)
      return this.#keep(arrival, bodies)
    })
  }

  /** The usual case: whether the key is known is found out by writing it. */
  #keepOne(row: ArrivalRow, bodies: ArrayBuffer): Calls['append']['answer'] {
    if (row[arrivalAt.idempotencyKey] === null || this.#keepKey(row)) return [this.#keep(row, bodies)]
    const repeat = this.#repeatOf(row, new Map())
    if (repeat === null) throw new Error(`the key of ${row[arrivalAt.id]} could be neither written nor found`)
    return repeat === 'conflict' ? { conflicts: [0] } : [repeat]
  }

  /** Answers whether it is new, or was used so long ago that it may be used again. */
  #keepKey(row: ArrivalRow): boolean {
    const { id, receivedAt, idempotencyScope: scope, idempotencyKey: key, fingerprint, expiresAt } = arrivalAt
    const cells = [row[scope], row[key], row[fingerprint], row[id], deliveriesIn(row), row[expiresAt], row[receivedAt]]
    return this.#insertKey.run(...(cells as Cell[])).changes === 1
  }

  /** What the first event with this key was answered, before this call or `earlier` in it; null: this is the first. */
  #repeatOf(row: ArrivalRow, earlier: Map<string, ArrivalRow>): ItemRow | 'conflict' | null {
    const cells = [row[arrivalAt.idempotencyScope], row[arrivalAt.idempotencyKey], row[arrivalAt.receivedAt]] as Cell[]
    const known = this.#knownKey.get(...cells) as unknown as KnownKey | undefined
    const fingerprint = row[arrivalAt.fingerprint]
    if (known !== undefined) return known[0] === fingerprint ? [known[1], known[2]] : 'conflict'
    const name = `${row[arrivalAt.idempotencyScope]}\n${row[arrivalAt.idempotencyKey]}`
    const first = earlier.get(name)
    if (first === undefined) earlier.set(name, row)
    else
      return first[arrivalAt.fingerprint] === fingerprint
        ? [first[arrivalAt.id] as string, deliveriesIn(first)]
        : 'conflict'
    return null
  }

  #keep(row: ArrivalRow, bodies: ArrayBuffer): string {
    const [id, tenant, type, key, receivedAt, contentType, headers, dataOffset, request, size, bodyOffset] = row
    const no = numberOf('evt', id as string)
    const body = new Uint8Array(bodies, bodyOffset as number, size as number)
    this.#insertEvent.run(
      ...([no, id, tenant, type, key, receivedAt, contentType, headers, dataOffset, request, size, body] as Cell[]),
    )
    let claimed = ''
    for (let at = arrivalAt.deliveries; at < row.length; at += cellsPerDelivery) {
      claimed += this.#keepDelivery(row, at, no, receivedAt as number)
    }
    return claimed
  }

  /** Answers '1' when it was claimed at birth, '2' when it ended then, '0' when it waits. */
  #keepDelivery(row: ArrivalRow, at: number, eventNo: number | null, receivedAt: number): '0' | '1' | '2' {
    const id = row[at] as string
    const lane = row[at + 2] as string | null
    const leaseEndsAt = row[at + 3] as number | null
    const no = numberOf('dlv', id)
    const endpoint = this.#endpoints.find(row[at + 1] as string)
    const tail = lane === null || endpoint.removed ? null : this.#lanes.tailOf(endpoint.no, lane)
    const behind = waitsBehind(tail)
    const position = arrivalPosition(no ?? 0, tail)
    const status = statusAtBirth(endpoint.removed, behind, leaseEndsAt !== null)
    if (status === 'failed') {
      const cells = [no, id, eventNo, endpoint.no, lane, position, status, null, receivedAt, receivedAt, endpointGone]
      this.#insertDelivery.run(...(cells as Cell[]))
      this.#hours.add(endpoint.no, endpointGone, receivedAt)
      return '2'
    }
    const dueAt = status === 'processing' ? leaseEndsAt : behind ? null : (row[at + 4] as number)
    this.#insertDelivery.run(
      ...([no, id, eventNo, endpoint.no, lane, position, status, dueAt, receivedAt, null, null] as Cell[]),
    )
    return status === 'processing' ? '1' : '0'
  }
}

const endpointGone = 'endpoint_deleted'
