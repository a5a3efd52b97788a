import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { Reason } from '../../core/outcome.ts'
import { isUnwanted } from '../../core/outcome.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { readDeadLettersSince } from './dead-letter-hours.ts'
import { inspectFile, realFile } from './open-file.ts'
import { Statements } from './statements.ts'

/** How delivery was when the server of this file stopped. */
export type DeliveryState = Readonly<{
  openBreakers: number
  disabled: number
  /** At most `waitingMax + 1`: more are not counted. */
  waiting: number
  /** Of the last 24 hours, without those that a person asked for; 0 when none is kept any more. */
  deadLetters: number
  byReason: readonly (readonly [Reason, number])[]
}>

const dayMs = 86_400_000

/** Looks at a database that no server serves; null: there is none, or it is of an older version. Changes nothing. */
export function readDeliveryState(path: string, now: number, waitingMax: number): DeliveryState | null {
  const file = realFile(path)
  if (!existsSync(file) || inspectFile(file).applied.length > 0) return null
  const db = new DatabaseSync(file, { readOnly: true, timeout: busyTimeoutDefaultMs })
  try {
    const statements = new Statements(db)
    const numberOf = (sql: string, values: readonly number[] = []) => Number(statements.row(sql, values)?.[0] ?? 0)
    const unwanted = readDeadLettersSince(statements, now - dayMs).filter(({ reason }) => isUnwanted(reason))
    const dead = numberOf(anyDeadSql) === 0 ? [] : unwanted
    const byReason = Map.groupBy(dead, ({ reason }) => reason)
    const sumOf = (counts: typeof dead) => counts.reduce((sum, { count }) => sum + count, 0)
    return {
      openBreakers: numberOf(openSql),
      disabled: numberOf(disabledSql),
      waiting: numberOf(waitingSql, [waitingMax + 1]),
      deadLetters: sumOf(dead),
      byReason: [...byReason].map(([reason, counts]) => [reason, sumOf(counts)]),
    }
  } finally {
    db.close()
  }
}

const openSql = `SELECT count(*) FROM endpoints WHERE removed = 0 AND json_extract(breaker, '$.state') <> 'closed'`
const disabledSql = `SELECT count(*) FROM registry WHERE kind = 'endpoint' AND json_extract(settings, '$.status') = 'disabled'`
// Counted up to a limit: it costs the same however much there is.
const waitingSql = `
  SELECT count(*) FROM
    (SELECT 1 FROM deliveries INDEXED BY deliveries_pending WHERE status = 'pending' LIMIT ?)`
const anyDeadSql = `
  SELECT count(*) FROM
    (SELECT 1 FROM deliveries INDEXED BY deliveries_dead WHERE status IN ('failed', 'dead_letter') LIMIT 1)`
