import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { linkEffect, replayCounted } from '../../core/replay.ts'
import { ReplayStates } from './replay-rows.ts'

/** The replay that requeued a delivery, and the status of the delivery before the change. */
export type ReplayLink = Readonly<{ replayNo: number; status: DeliveryStatus }>

/** Outcomes of one call, by the row key of their replay. */
export type Tally = Map<number, { delivered: number; failedAgain: number; at: number }>

type LinkRow = Readonly<{ replay_no: number | null; status: DeliveryStatus }>

/** Counts what becomes of requeued deliveries, in the transaction that ends them: core/replay says what counts. */
export class ReplayOutcomes {
  readonly #states: ReplayStates
  readonly #linkOf: StatementSync
  readonly #link: StatementSync

  constructor(db: DatabaseSync) {
    this.#states = new ReplayStates(db)
    this.#linkOf = db.prepare('SELECT replay_no, status FROM deliveries WHERE no = ?')
    this.#link = db.prepare('UPDATE deliveries SET replay_no = ? WHERE no = ?')
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
    const effect = linkEffect(link.status, to.status)
    switch (effect) {
      case 'none':
        return
      case 'dropped':
        this.#link.run(null, deliveryNo)
        return
      case 'delivered':
      case 'failedAgain': {
        const counts = tally.get(link.replayNo) ?? { delivered: 0, failedAgain: 0, at: to.at }
        tally.set(link.replayNo, counts)
        counts[effect] += 1
        counts.at = Math.max(counts.at, to.at)
      }
    }
  }

  count(tally: Tally): void {
    for (const [replayNo, outcome] of tally) this.#states.change(replayNo, (replay) => replayCounted(replay, outcome))
  }
}
