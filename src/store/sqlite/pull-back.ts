import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { pulledBack } from '../../core/lifecycle.ts'
import type { PullBackRequest } from '../pipeline-store.ts'
import type { EndpointTable } from './endpoints.ts'

type LateRow = Readonly<{ no: number; version: number; due_at: number; retry_after: number | null; position: number }>

const rowsPerPiece = 10_000

/** Pulls due times back; runs inside the batch's transaction. */
export class PullBack {
  readonly #endpoints: EndpointTable
  readonly #late: StatementSync
  readonly #pull: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable) {
    this.#endpoints = endpoints
    this.#late = db.prepare(`
      SELECT no, version, due_at, retry_after, position FROM deliveries INDEXED BY deliveries_ready
      WHERE endpoint_no = ?1 AND status = 'pending' AND due_at IS NOT NULL AND (due_at, position, no) > (?2, ?3, ?4)
        AND (?5 IS NULL OR substr(last_error, 1, length(?5)) = ?5)
      ORDER BY due_at, position, no LIMIT ?6`)
    this.#pull = db.prepare(`
      UPDATE deliveries SET version = version + 1, due_at = ?, retry_after = ?
      WHERE no = ? AND version = ? AND status = 'pending'`)
  }

  /**
   * Reads by the index what is due later than the smaller limit, and writes row by row what core decides. This takes a third
   * longer than one UPDATE per limit, which would hold the rule a second time.
   */
  run({ endpointId, lastError, ...limits }: PullBackRequest): number {
    const { no: endpointNo } = this.#endpoints.find(endpointId)
    let after = [Math.min(limits.latestDueAt, limits.untriedDueAt), Number.MAX_SAFE_INTEGER, 0]
    let count = 0
    for (;;) {
      // A piece is read before it is written: a write moves its row in the index, to a place before those still to be read.
      const rows = this.#late.all(endpointNo, ...after, lastError ?? null, rowsPerPiece) as unknown as LateRow[]
      for (const { no, version, due_at, retry_after } of rows) {
        const to = pulledBack(due_at, retry_after, limits)
        if (to === null) continue
        this.#pull.run(to.dueAt, to.retryAfter, no, version)
        count += 1
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < rowsPerPiece) return count
      after = [last.due_at, last.position, last.no]
    }
  }
}
