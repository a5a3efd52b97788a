import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { type DeliveryStatus, isSettled } from '../../core/delivery.ts'
import { type ReplayProgress, settledWhenKnown } from '../../core/replay.ts'

/** The replay that requeued a delivery, and the status of the delivery before the change. */
export type ReplayLink = Readonly<{ replayNo: number; status: DeliveryStatus }>

/** Outcomes of one call, by the row key of their replay. */
export type Tally = Map<number, { delivered: number; failedAgain: number; at: number }>

type LinkRow = Readonly<{ replay_no: number | null; status: DeliveryStatus }>
type ProgressRow = Readonly<{
  status: ReplayProgress['status']
  requeued: number
  delivered: number | null
  failed_again: number | null
  ended_at: number | null
  settled_at: number | null
}>

/**
 * Counts what becomes of requeued deliveries, in the transaction that ends them. A delivery with a link waits until it is
 * settled, and is counted then, once: whoever requeues it after that takes the link away.
 */
export class ReplayOutcomes {
  readonly #linkOf: StatementSync
  readonly #link: StatementSync
  readonly #count: StatementSync
  readonly #progress: StatementSync
  readonly #settle: StatementSync

  constructor(db: DatabaseSync) {
    this.#linkOf = db.prepare('SELECT replay_no, status FROM deliveries WHERE no = ?')
    this.#link = db.prepare('UPDATE deliveries SET replay_no = ? WHERE no = ?')
    this.#count = db.prepare(`
      UPDATE replays SET delivered = delivered + ?, failed_again = failed_again + ?, updated_at = max(updated_at, ?)
      WHERE no = ?`)
    this.#progress = db.prepare(`
      SELECT status, requeued, delivered, failed_again, ended_at, settled_at FROM replays WHERE no = ?`)
    this.#settle = db.prepare('UPDATE replays SET status = ?, settled_at = ? WHERE no = ?')
  }

  linkOf(deliveryNo: number | null): ReplayLink | null {
    const row = this.#linkOf.get(deliveryNo) as unknown as LinkRow | undefined
    return row === undefined || row.replay_no === null ? null : { replayNo: row.replay_no, status: row.status }
  }

  link(deliveryNo: number | null, replayNo: number): void {
    this.#link.run(replayNo, deliveryNo)
  }

  /** The delivery has changed to `status`, at `at` if that is its end. */
  note(deliveryNo: number | null, link: ReplayLink, to: { status: DeliveryStatus; at: number }, tally: Tally): void {
    if (isSettled(link.status)) {
      if (!isSettled(to.status)) this.#link.run(null, deliveryNo)
      return
    }
    if (!isSettled(to.status)) return
    const counts = tally.get(link.replayNo) ?? { delivered: 0, failedAgain: 0, at: to.at }
    tally.set(link.replayNo, counts)
    counts[to.status === 'delivered' ? 'delivered' : 'failedAgain'] += 1
    counts.at = Math.max(counts.at, to.at)
  }

  count(tally: Tally): void {
    for (const [replayNo, { delivered, failedAgain, at }] of tally) {
      this.#count.run(delivered, failedAgain, at, replayNo)
      this.settle(replayNo, at)
    }
  }

  /** Marks the replay as settled if it has ended and no outcome is missing. */
  settle(replayNo: number, now: number): void {
    const row = this.#progress.get(replayNo) as unknown as ProgressRow | undefined
    if (row === undefined) return
    const { status, requeued, delivered, failed_again: failedAgain, ended_at: endedAt, settled_at: settledAt } = row
    const before = { status, requeued, delivered, failedAgain, endedAt, settledAt }
    const after = settledWhenKnown(before, now)
    if (after !== before) this.#settle.run(after.status, after.settledAt, replayNo)
  }
}
