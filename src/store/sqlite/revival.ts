import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { type Delivery, type DeliveryStatus, newborn, type Pending, type Settled } from '../../core/delivery.ts'
import { numberOf } from '../../core/id.ts'
import { arrivalPosition, waitsBehind } from '../../core/lanes.ts'
import { bornBackfilled, ended, expired, replayed } from '../../core/lifecycle.ts'
import { mayCancel, mayDiscard, mayExpire, mayRequeue } from '../../core/selection.ts'
import type { CancelledDelivery } from '../replay-store.ts'
import type { Commit } from './commit.ts'
import { DeliveryRecords } from './delivery-records.ts'
import { insertDeliverySql, newCellsOf } from './delivery-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import { LaneRows } from './lane-rows.ts'
import type { Found } from './long-reads.ts'
import { packChange } from './messages.ts'
import type { ReplayOutcomes } from './replay-outcomes.ts'

/** As it was before. */
type Ended = Readonly<{ delivery: Pending; tenant: string; type: string }>

type SeenRow = Readonly<{ status: DeliveryStatus; settled_at: number | null }>

const noAttempt = { attempt: null, claimNext: null }

/** Changes of deliveries that nobody has in hand, made by the same rules and through the same door as all others. */
export class Revival {
  readonly #endpoints: EndpointTable
  readonly #commit: Commit
  readonly #outcomes: ReplayOutcomes
  readonly #records: DeliveryRecords
  readonly #dueAt: StatementSync
  readonly #insert: StatementSync
  readonly #lanes: LaneRows
  readonly #deleteAttempts: StatementSync
  readonly #seen: StatementSync
  readonly #delete: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, commit: Commit, outcomes: ReplayOutcomes) {
    this.#endpoints = endpoints
    this.#commit = commit
    this.#outcomes = outcomes
    this.#records = new DeliveryRecords(db, endpoints)
    this.#dueAt = db.prepare('SELECT due_at FROM deliveries WHERE no = ?')
    this.#insert = db.prepare(insertDeliverySql)
    this.#lanes = new LaneRows(db)
    this.#deleteAttempts = db.prepare('DELETE FROM attempts WHERE delivery_no = ?')
    this.#seen = db.prepare('SELECT status, settled_at FROM deliveries WHERE no = ? AND version = ?')
    this.#delete = db.prepare('DELETE FROM deliveries WHERE no = ? AND version = ?')
  }

  /** Requeues a settled delivery for a replay. What belongs to a removed endpoint stays: it would wait for nobody. */
  again(
    no: number,
    { now, replayNo }: { now: number; replayNo: number },
  ): Readonly<{ endpointId: string; became: 'due' | 'behind' | 'skipped' }> {
    const record = this.#records.find(no)
    if (record === null) throw new Error(`no delivery has the row key ${no}`)
    const { delivery } = record
    const { endpointId, lane } = delivery
    if (!mayRequeue(delivery, this.#endpoints.find(endpointId).removed)) return { endpointId, became: 'skipped' }
    const to = replayed(delivery, now)
    this.#commit.run([packChange({ to, ...noAttempt })])
    this.#outcomes.link(no, replayNo)
    const isBehind = lane !== null && this.#dueAt.get(no)?.due_at === null
    return { endpointId, became: isBehind ? 'behind' : 'due' }
  }

  /** Ends a pending delivery that is too old; null: it is not pending any more. */
  expire(no: number, now: number): Ended | null {
    return this.#end(no, mayExpire, (delivery) => expired(delivery, now))
  }

  /** Ends those that are still pending. One by one: the end of a head changes the next in its lane, which may be among them. */
  cancel(deliveryIds: readonly string[], now: number): readonly CancelledDelivery[] {
    return deliveryIds.flatMap((id) => {
      const no = numberOf('dlv', id)
      const end = no === null ? null : this.#end(no, mayCancel, (delivery) => ended(delivery, 'cancelled', now))
      if (end === null) return []
      const { eventId, endpointId } = end.delivery
      return [{ deliveryId: end.delivery.id, eventId, endpointId, tenant: end.tenant, type: end.type }]
    })
  }

  /** Makes a delivery of an old event; answers whether it is due now. */
  insert(given: {
    id: string
    eventNo: number
    eventId: string
    endpointNo: number
    lane: string | null
    receivedAt: number
    now: number
    replayNo: number
  }): boolean {
    const { id, eventNo, eventId, endpointNo, lane, receivedAt, now, replayNo } = given
    const no = numberOf('dlv', id)
    const isBehind = waitsBehind(lane === null ? null : this.#lanes.tailOf(endpointNo, lane))
    const facts = newborn({ id, eventId, endpointId: this.#endpoints.idOf(endpointNo), lane, receivedAt })
    const delivery = bornBackfilled(facts, isBehind, now)
    this.#insert.run(no, eventNo, endpointNo, arrivalPosition(no ?? 0, null), ...newCellsOf(delivery))
    this.#outcomes.link(no, replayNo)
    if (lane !== null) this.#lanes.moveToTail(no, endpointNo, lane)
    return delivery.dueAt !== null
  }

  /** Deletes those that are as they were seen, and may be discarded. */
  discard(found: readonly Found[], settledBy: number): number {
    let count = 0
    for (const { no, version } of found) {
      const row = this.#seen.get(no, version) as unknown as SeenRow | undefined
      if (row === undefined || !mayDiscard(row.status, row.settled_at, settledBy)) continue
      this.#delete.run(no, version)
      this.#deleteAttempts.run(no)
      count += 1
    }
    return count
  }

  #end(
    no: number,
    mayEnd: (delivery: Delivery) => delivery is Pending,
    end: (delivery: Pending) => Settled,
  ): Ended | null {
    const record = this.#records.find(no)
    if (record === null || !mayEnd(record.delivery)) return null
    const { delivery, tenant, type } = record
    this.#commit.run([packChange({ to: end(delivery), ...noAttempt })])
    return { delivery, tenant, type }
  }
}
