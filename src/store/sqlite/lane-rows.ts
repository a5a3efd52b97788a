import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { DeliveryStatus } from '../../core/delivery.ts'
import { replayPosition } from '../../core/lanes.ts'

export type LaneRow = Readonly<{
  endpoint_no: number
  lane: string
  status: DeliveryStatus
  due_at: number | null
  version: number
}>

export type NextRow = Readonly<{ no: number; version: number; status: DeliveryStatus }>

/** The live deliveries of a lane. The words are those of the partial index, or SQLite does not see that it fits. */
const inLaneSql = `endpoint_no = ? AND lane = ? AND lane IS NOT NULL AND status IN ('pending', 'processing')`

/** Reads what the rules in core/lanes ask for, and writes positions. */
export class LaneRows {
  readonly #row: StatementSync
  readonly #tail: StatementSync
  readonly #next: StatementSync
  readonly #newest: StatementSync
  readonly #move: StatementSync

  constructor(db: DatabaseSync) {
    this.#row = db.prepare('SELECT endpoint_no, lane, status, due_at, version FROM deliveries WHERE no = ?')
    this.#tail = db.prepare(`
      SELECT position FROM deliveries INDEXED BY deliveries_lane WHERE ${inLaneSql} ORDER BY position DESC LIMIT 1`)
    this.#next = db.prepare(`
      SELECT no, version, status FROM deliveries INDEXED BY deliveries_lane WHERE ${inLaneSql}
      ORDER BY position LIMIT 1`)
    this.#newest = db.prepare('SELECT max(no) AS no FROM deliveries')
    this.#move = db.prepare('UPDATE deliveries SET position = ? WHERE no = ?')
  }

  find(no: number | null): LaneRow | undefined {
    return this.#row.get(no) as unknown as LaneRow | undefined
  }

  /** The largest live position; null: the lane is empty. */
  tailOf(endpointNo: number, lane: string): number | null {
    return (this.#tail.get(endpointNo, lane)?.position ?? null) as number | null
  }

  nextIn(endpointNo: number, lane: string): NextRow | undefined {
    return this.#next.get(endpointNo, lane) as unknown as NextRow | undefined
  }

  /** Gives a delivery that has entered its lane again the position of a replay. */
  moveToTail(no: number | null, endpointNo: number, lane: string): void {
    const newest = this.#newest.get()?.no as number
    this.#move.run(replayPosition(newest, this.tailOf(endpointNo, lane)), no)
  }
}
