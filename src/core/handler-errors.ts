import { formatDuration, parseDuration } from './duration.ts'
import type { Verdict } from './outcome.ts'

/** What a handler throws is known by this and not by its class: two copies of the package may be loaded. */
const brand = Symbol.for('posthorn.handler-error')

/** A stack is for a person who looks at one attempt. */
export const stackLengthMax = 8_192
const causesMax = 5

/** An error that says what is to become of the delivery. Any other error means: try again by the retry policy. */
export class HandlerError extends Error {
  override readonly name: string = 'HandlerError'
  readonly verdict: Verdict
  readonly retryAfterMs: number | null
  readonly [brand] = true

  constructor(verdict: Verdict, message: string, retryAfterMs: number | null, options?: ErrorOptions) {
    super(message, options)
    this.verdict = verdict
    this.retryAfterMs = retryAfterMs
  }
}

/** Trying again would not help: the delivery fails now, with reason `rejected_by_handler`. */
export function fatal(message: string, options?: ErrorOptions): HandlerError {
  return new HandlerError('permanent', message, null, options)
}

/** Try this event again, not before this time has passed. It spends an attempt; other events are not held up. */
export function retryAfter(wait: string | number, message?: string, options?: ErrorOptions): HandlerError {
  const waitMs = waitOf('retryAfter', wait)
  return new HandlerError(
    'retryable',
    message ?? `asked to be tried again after ${formatDuration(waitMs)}`,
    waitMs,
    options,
  )
}

/** Our own side is broken (the database is down): the delivery waits, and no attempt is spent. */
export function infrastructure(message: string, options?: ErrorOptions): HandlerError {
  return new HandlerError('ours', message, null, options)
}

/**
 * Something that the handler needs is down. It spends an attempt and counts against the endpoint's breaker, if it has
 * one. With `retryAfter` the whole endpoint is left alone for that time.
 */
export function unavailable(
  name: string,
  message?: string,
  options: ErrorOptions & Readonly<{ retryAfter?: string | number }> = {},
): HandlerError {
  const waitMs = options.retryAfter === undefined ? null : waitOf('unavailable', options.retryAfter)
  const text = message === undefined ? `${name} is unavailable` : `${name} is unavailable: ${message}`
  return new HandlerError('unavailable', text, waitMs, options)
}

export type Thrown = Readonly<{ verdict: Verdict; message: string; stack: string | null; retryAfterMs: number | null }>

/** What was thrown, as data; whatever it is, this does not throw. */
export function thrownOf(error: unknown): Thrown {
  try {
    const seen = seenIn(error)
    if (seen === null) return { verdict: 'retryable', message: plainMessage(error), stack: null, retryAfterMs: null }
    return { ...saidBy(error as object), message: messageOf(seen), stack: stackOf(seen) }
  } catch {
    const message = 'the handler threw something that cannot be looked at'
    return { verdict: 'retryable', message, stack: null, retryAfterMs: null }
  }
}

function saidBy(error: object): Pick<Thrown, 'verdict' | 'retryAfterMs'> {
  if (!(brand in error)) return { verdict: 'retryable', retryAfterMs: null }
  const { verdict: said, retryAfterMs } = error as Partial<HandlerError>
  return { verdict: verdicts.find((verdict) => verdict === said) ?? 'retryable', retryAfterMs: wholeMs(retryAfterMs) }
}

/** Due times are whole milliseconds; whoever made the error need not know that. */
function wholeMs(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? Math.ceil(value) : null
}

const verdicts: readonly Verdict[] = ['retryable', 'permanent', 'unavailable', 'ours']

/** What an error says of itself. Read once: what is asked twice may answer differently. */
type Seen = Readonly<{ name: unknown; message: string; stack: unknown; cause: unknown }>

function seenIn(error: unknown): Seen | null {
  if (typeof error !== 'object' || error === null || !('message' in error)) return null
  const { name, message, stack, cause } = error as Readonly<Record<string, unknown>>
  return typeof message === 'string' ? { name, message, stack, cause } : null
}

/** With its name, unless that says nothing. */
function messageOf({ name, message }: Seen): string {
  const isPlain = typeof name !== 'string' || name === '' || name === 'Error' || name === 'HandlerError'
  const text = isPlain ? message : message === '' ? name : `${name}: ${message}`
  return text === '' ? 'the handler threw an error without a message' : text
}

function plainMessage(error: unknown): string {
  if (typeof error === 'string' && error !== '') return error
  return `the handler threw ${typeof error === 'object' && error !== null ? 'an object that is no error' : String(error)}`
}

function stackOf(error: Seen): string | null {
  const stacks: string[] = []
  let at: Seen | null = error
  for (let depth = 0; depth < causesMax && at !== null; depth++) {
    if (typeof at.stack === 'string') stacks.push(at.stack)
    at = seenIn(at.cause)
  }
  if (stacks.length === 0) return null
  return stacks.join('\nCaused by: ').slice(0, stackLengthMax).toWellFormed()
}

function waitOf(name: string, wait: string | number): number {
  const waitMs = parseDuration(wait)
  if (waitMs !== null) return waitMs
  throw new TypeError(`${name} takes a duration like '30s' or a number of milliseconds, not ${JSON.stringify(wait)}.`)
}
