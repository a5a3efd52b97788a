import type { OutcomeKind } from './outcome.ts'

/** One try, as it is kept in the append-only attempt log. */
export type Attempt = Readonly<{
  /** Counts every try of the delivery, from 1, and never starts again. */
  number: number
  startedAt: number
  tookMs: number
  outcome: OutcomeKind
  statusCode: number | null
  error: string | null
  responseHeaders: Readonly<Record<string, string>> | null
  responseBody: string | null
  /** The class of what a handler threw; bounded. */
  errorClass: string | null
  /** What a handler said is unavailable; bounded. */
  dependency: string | null
  /** Where a handler threw; bounded. */
  stack: string | null
}>
