import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import { arrivalPosition, waitsBehind } from '../../core/lanes.ts'
import { birthOf } from '../../core/lifecycle.ts'
import type { Reason } from '../../core/outcome.ts'
import { logAttemptSql } from './attempt-rows.ts'
import type { DeadLetterHours } from './dead-letter-hours.ts'
import { deliveryAt, insertArrivedSql, insertDeliverySql, statusCells } from './delivery-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import { eventHead } from './event-rows.ts'
import { LaneRows } from './lane-rows.ts'
import {
  type ArrivalRow,
  arrivalAt,
  type Calls,
  cellsPerDelivery,
  deliveriesIn,
  deliveriesStart,
  type EndedCells,
  newDeliveryAt,
  type Repeat,
} from './messages.ts'
import { Origins } from './origins.ts'
import type { Cell } from './rows.ts'

type KnownKey = readonly [fingerprint: string, eventId: string, deliveries: number]

/** Keeps events and deliveries; runs inside the batch's transaction. */
export class Append {
  readonly #endpoints: EndpointTable
  readonly #hours: DeadLetterHours
  readonly #insertEvent: StatementSync
  readonly #insertArrived: StatementSync
  readonly #insertEnded: StatementSync
  readonly #logAttempt: StatementSync
  readonly #lanes: LaneRows
  readonly #origins: Origins
  readonly #knownKey: StatementSync
  readonly #insertKey: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, hours: DeadLetterHours) {
    this.#endpoints = endpoints
    this.#hours = hours
    this.#insertEvent = db.prepare(`
      INSERT INTO events (no, ${eventHead.join(', ')}, size, body)
      VALUES (?, ${eventHead.map((name) => (name === 'request' ? 'CAST(? AS BLOB)' : '?')).join(', ')}, ?, ?)`)
    this.#insertArrived = db.prepare(insertArrivedSql)
    this.#insertEnded = db.prepare(insertDeliverySql)
    this.#logAttempt = db.prepare(logAttemptSql)
    this.#lanes = new LaneRows(db)
    this.#origins = new Origins(db)
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
    if (only !== undefined && arrivals.length === 1 && only[arrivalAt.origin_id] === null)
      return this.#keepOne(only, bodies)
    // All keys are looked up before anything is written, so that a conflict leaves nothing to take back.
    const earlier = new Map<string, ArrivalRow>()
    const repeats = arrivals.map(
      (arrival) => this.#origins.repeatOf(arrival, earlier) ?? this.#repeatOf(arrival, earlier),
    )
    const conflicts = repeats.flatMap((repeat, index) => (repeat === 'conflict' ? [index] : []))
    if (conflicts.length > 0) return { conflicts }
    return arrivals.map((arrival, index) => {
      const repeat = repeats[index] as Repeat | null
      if (repeat === null && arrival[arrivalAt.idempotency_key] !== null) this.#keepKey(arrival)
      const item = repeat ?? this.#keep(arrival, bodies)
      this.#origins.keep(arrival, repeat)
      return item
    })
  }

  /** The usual case: whether the key is known is found out by writing it. */
  #keepOne(row: ArrivalRow, bodies: ArrayBuffer): Calls['append']['answer'] {
    if (row[arrivalAt.idempotency_key] === null || this.#keepKey(row)) return [this.#keep(row, bodies)]
    const repeat = this.#repeatOf(row, new Map())
    if (repeat === null) throw new Error(`the key of ${row[arrivalAt.id]} could be neither written nor found`)
    return repeat === 'conflict' ? { conflicts: [0] } : [repeat]
  }

  /** Answers whether it is new, or was used so long ago that it may be used again. */
  #keepKey(row: ArrivalRow): boolean {
    const { id, received_at, idempotency_scope: scope, idempotency_key: key, fingerprint, expires_at } = arrivalAt
    const cells = [
      row[scope],
      row[key],
      row[fingerprint],
      row[id],
      deliveriesIn(row),
      row[expires_at],
      row[received_at],
    ]
    return this.#insertKey.run(...(cells as Cell[])).changes === 1
  }

  /** What the first event with this key was answered, before this call or `earlier` in it; null: this is the first. */
  #repeatOf(row: ArrivalRow, earlier: Map<string, ArrivalRow>): Repeat | 'conflict' | null {
    if (row[arrivalAt.idempotency_key] === null) return null
    const cells = [
      row[arrivalAt.idempotency_scope],
      row[arrivalAt.idempotency_key],
      row[arrivalAt.received_at],
    ] as Cell[]
    const known = this.#knownKey.get(...cells) as unknown as KnownKey | undefined
    const fingerprint = row[arrivalAt.fingerprint]
    if (known !== undefined) return known[0] === fingerprint ? [known[1], known[2]] : 'conflict'
    const name = JSON.stringify(['key', row[arrivalAt.idempotency_scope], row[arrivalAt.idempotency_key]])
    const first = earlier.get(name)
    if (first === undefined) earlier.set(name, row)
    else
      return first[arrivalAt.fingerprint] === fingerprint
        ? [first[arrivalAt.id] as string, deliveriesIn(first)]
        : 'conflict'
    return null
  }

  #keep(row: ArrivalRow, bodies: ArrayBuffer): string {
    const no = numberOf('evt', row[arrivalAt.id] as string)
    const receivedAt = row[arrivalAt.received_at] as number
    const size = row[arrivalAt.size] as number
    const body = new Uint8Array(bodies, row[arrivalAt.body_offset] as number, size)
    this.#insertEvent.run(no, ...row.slice(0, arrivalAt.body_offset), body)
    let claimed = ''
    for (let at = deliveriesStart; at < row.length; at += cellsPerDelivery) {
      claimed += this.#keepDelivery(row, at, no, receivedAt)
    }
    return claimed
  }

  /** Answers '1' when it was claimed at birth, '2' when it ended then, '0' when it waits. */
  #keepDelivery(row: ArrivalRow, at: number, eventNo: number | null, receivedAt: number): '0' | '1' | '2' {
    const id = row[at + newDeliveryAt.id] as string
    const lane = row[at + newDeliveryAt.lane] as string | null
    const leaseEndsAt = row[at + newDeliveryAt.lease_ends_at] as number | null
    const no = numberOf('dlv', id)
    const endpoint = this.#endpoints.find(row[at + newDeliveryAt.endpoint_id] as string)
    const ended = row[at + newDeliveryAt.ended] as string | null
    if (ended !== null) {
      this.#keepEnded({ no, eventNo, endpointNo: endpoint.no }, JSON.parse(ended))
      return '2'
    }
    const tail = lane === null || endpoint.removed ? null : this.#lanes.tailOf(endpoint.no, lane)
    const dueAt = row[at + newDeliveryAt.due_at] as number
    const isBehind = waitsBehind(tail)
    const birth = birthOf({ receivedAt, isEndpointGone: endpoint.removed, isBehind, dueAt, leaseEndsAt })
    const position = arrivalPosition(no ?? 0, tail)
    const [due, settledAt, reason] = statusCells(birth)
    // Not put together from parts: to spread arrays here costs every delivery a few percent.
    this.#insertArrived.run(
      no,
      eventNo,
      endpoint.no,
      position,
      id,
      lane,
      receivedAt,
      birth.status,
      due,
      settledAt,
      reason,
    )
    switch (birth.status) {
      case 'pending':
        return '0'
      case 'processing':
        return '1'
      case 'failed':
        this.#hours.add(endpoint.no, birth.reason, birth.settledAt)
        return '2'
    }
  }

  #keepEnded(
    { no, eventNo, endpointNo }: Readonly<{ no: number | null; eventNo: number | null; endpointNo: number }>,
    { delivery, attempt }: EndedCells,
  ): void {
    this.#insertEnded.run(no, eventNo, endpointNo, arrivalPosition(no ?? 0, null), ...delivery)
    this.#logAttempt.run(no, ...attempt)
    this.#hours.add(endpointNo, delivery[deliveryAt.reason] as Reason, delivery[deliveryAt.settled_at] as number)
  }
}
