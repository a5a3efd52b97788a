import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Reason } from '../../core/outcome.ts'
import type { DeadLetterCount } from '../upkeep-store.ts'
import type { Statements } from './statements.ts'

const hourMs = 3_600_000

/** Counts deliveries when they become dead letters, by hour, endpoint and reason. Only failures cost a write. */
export class DeadLetterHours {
  readonly #add: StatementSync
  readonly #prune: StatementSync

  constructor(db: DatabaseSync) {
    this.#add = db.prepare(`
      INSERT INTO dead_letter_hours (hour, endpoint_no, reason, count) VALUES (?, ?, ?, ?)
      ON CONFLICT (hour, endpoint_no, reason) DO UPDATE SET count = count + excluded.count`)
    this.#prune = db.prepare(`
      DELETE FROM dead_letter_hours WHERE (hour, endpoint_no, reason) IN
        (SELECT hour, endpoint_no, reason FROM dead_letter_hours WHERE hour < ? ORDER BY hour LIMIT ?)`)
  }

  add(endpointNo: number, reason: Reason, settledAt: number, count = 1): void {
    this.#add.run(hourOf(settledAt), endpointNo, reason, count)
  }

  /** Forgets hours that ended before; answers how many rows went. */
  prune({ before, limit }: Readonly<{ before: number; limit: number }>): number {
    return Number(this.#prune.run(hourOf(before), limit).changes)
  }
}

export function readDeadLettersSince(statements: Statements, at: number): readonly DeadLetterCount[] {
  return statements.rows(sinceSql, [hourOf(at)]).map(([endpointId, tenant, reason, count]) => ({
    endpointId: endpointId as string,
    tenant: tenant as string,
    reason: reason as Reason,
    count: count as number,
  }))
}

const sinceSql = `
  SELECT p.id, p.tenant, h.reason, h.count
  FROM (SELECT endpoint_no, reason, sum(count) AS count FROM dead_letter_hours WHERE hour >= ? GROUP BY 1, 2) h
  JOIN endpoints p ON p.no = h.endpoint_no`

function hourOf(at: number): number {
  return Math.floor(at / hourMs)
}
