import type { Attempt } from '../../core/attempt.ts'
import type { OutcomeKind } from '../../core/outcome.ts'
import { placesOf } from '../places.ts'
import { type Cell, type CellsOf, questionMarks, toHeaders } from './rows.ts'

/** The columns of an attempt. A new one has its line here, in `toAttempt` and in `attemptCellsOf`. */
const attemptNames = [
  'number',
  'started_at',
  'took_ms',
  'outcome',
  'status_code',
  'error',
  'response_headers',
  'response_body',
  'stack',
  'error_class',
  'dependency',
] as const

const attemptAt = placesOf(attemptNames)
export const attemptColumns = attemptNames.join(', ')

/** After the delivery's row key, the cells of the attempt. */
export const logAttemptSql = `
  INSERT OR REPLACE INTO attempts (delivery_no, ${attemptColumns}) VALUES (?, ${questionMarks(attemptNames)})`

export function toAttempt(row: readonly Cell[]): Attempt {
  return {
    number: row[attemptAt.number] as number,
    startedAt: row[attemptAt.started_at] as number,
    tookMs: row[attemptAt.took_ms] as number,
    outcome: row[attemptAt.outcome] as OutcomeKind,
    statusCode: row[attemptAt.status_code] as number | null,
    error: row[attemptAt.error] as string | null,
    responseHeaders:
      row[attemptAt.response_headers] === null ? null : toHeaders(row[attemptAt.response_headers] as string),
    responseBody: row[attemptAt.response_body] as string | null,
    stack: row[attemptAt.stack] as string | null,
    errorClass: row[attemptAt.error_class] as string | null,
    dependency: row[attemptAt.dependency] as string | null,
  }
}

export function attemptCellsOf(attempt: Attempt): CellsOf<typeof attemptNames> {
  return [
    attempt.number,
    attempt.startedAt,
    attempt.tookMs,
    attempt.outcome,
    attempt.statusCode,
    attempt.error,
    attempt.responseHeaders === null ? null : JSON.stringify(attempt.responseHeaders),
    attempt.responseBody,
    attempt.stack,
    attempt.errorClass,
    attempt.dependency,
  ]
}
