import { formatDuration, parseDuration } from './duration.ts'
import type { Verdict } from './outcome.ts'

/** What a handler throws is known by this and not by its class: two copies of the package may be loaded. */
const brand = Symbol.for('posthorn.handler-error')

/** A stack is for a person who looks at one attempt. */
export const stackLengthMax = 8_192
const causesMax = 5
/** Names are shown and filtered by. */
export const nameLengthMax = 200

/** An error that says what is to become of the delivery. Any other error means: try again by the retry policy. */
export class HandlerError extends Error {
  override readonly name: string = 'HandlerError'
  readonly verdict: Verdict
  readonly retryAfterMs: number | null
  /** What is unavailable. */
  readonly dependency: string | null
  readonly [brand] = true

  constructor(
    verdict: Verdict,
    message: string,
    retryAfterMs: number | null,
    options?: ErrorOptions & Readonly<{ dependency?: string }>,
  ) {
    super(message, options)
    this.verdict = verdict
    this.retryAfterMs = retryAfterMs
    this.dependency = options?.dependency ?? null
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
  return new HandlerError('unavailable', text, waitMs, { ...options, dependency: name })
}

export type Thrown = Readonly<{
  verdict: Verdict
  message: string
  errorClass: string | null
  dependency: string | null
  stack: string | null
  retryAfterMs: number | null
}>

/** What was thrown, as data; whatever it is, this does not throw. */
export function thrownOf(error: unknown): Thrown {
  try {
    const seen = seenIn(error)
    if (seen === null) return failedRun(plainMessage(error))
    return { ...saidBy(error as object), message: messageOf(seen), errorClass: classOf(seen), stack: stackOf(seen) }
  } catch {
    return failedRun('the handler threw something that cannot be looked at')
  }
}

/** A failure of which nothing is known but this: it spends an attempt and is tried again. */
export function failedRun(message: string): Thrown {
  return { verdict: 'retryable', message, errorClass: null, dependency: null, stack: null, retryAfterMs: null }
}

function saidBy(error: object): Pick<Thrown, 'verdict' | 'dependency' | 'retryAfterMs'> {
  if (!(brand in error)) return { verdict: 'retryable', dependency: null, retryAfterMs: null }
  const { verdict: said, dependency, retryAfterMs } = error as Partial<HandlerError>
  return {
    verdict: verdicts.find((verdict) => verdict === said) ?? 'retryable',
    dependency: nameIn(dependency),
    retryAfterMs: wholeMs(retryAfterMs),
  }
}

/** Due times are whole milliseconds; whoever made the error need not know that. */
function wholeMs(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? Math.ceil(value) : null
}

const verdicts: readonly Verdict[] = ['retryable', 'permanent', 'unavailable', 'ours']

/** What an error says of itself. Read once: what is asked twice may answer differently. */
type Seen = Readonly<{ name: unknown; made: unknown; message: string; stack: unknown; cause: unknown }>

function seenIn(error: unknown): Seen | null {
  if (typeof error !== 'object' || error === null || !('message' in error)) return null
  const { name, constructor: made, message, stack, cause } = error as Readonly<Record<string, unknown>>
  return typeof message === 'string' ? { name, made, message, stack, cause } : null
}

/** The name that the error gives itself or, where that is the plain one, the name of the class that made it. */
function classOf({ name, made }: Seen): string | null {
  const own = nameIn(name)
  if (own !== null && own !== 'Error') return own
  return nameIn(typeof made === 'function' && made !== Object ? made.name : null) ?? own
}

function nameIn(value: unknown): string | null {
  if (typeof value !== 'string') return null
  const name = value.replace(/\s+/g, ' ').trim().slice(0, nameLengthMax).toWellFormed()
  return name === '' ? null : name
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
