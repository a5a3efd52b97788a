import type { Attempt } from '../../core/attempt.ts'
import type { OutcomeKind } from '../../core/outcome.ts'
import { asStored, int4s, int8s, keys, texts } from './arrays.ts'
import type { Row } from './driver.ts'
import { toHeaders } from './event-rows.ts'
import { rowKeyOf } from './row-keys.ts'

/** As `toAttempt` reads them. */
export const attemptColumns =
  'number, started_at, took_ms, status_code, outcome, error, response_headers, response_body, stack, error_class, dependency'

export function toAttempt(row: Row): Attempt {
  const [number, startedAt, tookMs, statusCode, outcome, error, headers, body, stack, errorClass, dependency] = row
  return {
    number: number as number,
    startedAt: startedAt as number,
    tookMs: tookMs as number,
    outcome: outcome as OutcomeKind,
    statusCode: statusCode as number | null,
    error: error as string | null,
    responseHeaders: headers === null ? null : toHeaders(headers as string),
    responseBody: body as string | null,
    stack: stack as string | null,
    errorClass: errorClass as string | null,
    dependency: dependency as string | null,
  }
}

export type Logged = Readonly<{ deliveryId: string; attempt: Attempt }>

/** The parameters of log_attempts_v1; all NULL when there is nothing to log. */
export function attemptValues(logged: readonly Logged[]): readonly unknown[] {
  if (logged.length === 0) return Array.from({ length: 12 }, () => null)
  const attempts = logged.map(({ attempt }) => attempt)
  return [
    keys(
      'dlv',
      logged.map(({ deliveryId }) => deliveryId),
    ),
    int4s(attempts.map(({ number }) => number)),
    int8s(attempts.map(({ startedAt }) => startedAt)),
    int4s(attempts.map(({ tookMs }) => tookMs)),
    int4s(attempts.map(({ statusCode }) => statusCode)),
    texts(attempts.map(({ outcome }) => outcome)),
    texts(attempts.map(({ error }) => error)),
    texts(attempts.map(({ responseHeaders }) => (responseHeaders === null ? null : JSON.stringify(responseHeaders)))),
    texts(attempts.map(({ responseBody }) => responseBody)),
    texts(attempts.map(({ stack }) => stack)),
    texts(attempts.map(({ errorClass }) => errorClass)),
    texts(attempts.map(({ dependency }) => dependency)),
  ]
}

/** One row as JSON, by the names of its columns. */
export function attemptRecord(deliveryId: string, attempt: Attempt): object {
  const { responseHeaders } = attempt
  return {
    delivery: rowKeyOf('dlv', deliveryId),
    number: attempt.number,
    started_at: attempt.startedAt,
    took_ms: attempt.tookMs,
    status_code: attempt.statusCode,
    outcome: attempt.outcome,
    error: asStored(attempt.error),
    response_headers: responseHeaders === null ? null : asStored(JSON.stringify(responseHeaders)),
    response_body: asStored(attempt.responseBody),
    stack: asStored(attempt.stack),
    error_class: asStored(attempt.errorClass),
    dependency: asStored(attempt.dependency),
  }
}
