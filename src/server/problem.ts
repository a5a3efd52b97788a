import { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import { type ErrorCode, PosthornError } from '../core/errors.ts'

/** One wrong field. `path` is like `retry.baseDelay` or `[3].type`; empty for the whole. */
export type FieldError = Readonly<{ path: string; message: string }>

const titles = {
  malformed_request: [400, 'The request is malformed'],
  malformed_json: [400, 'The body is not valid JSON'],
  unauthorized: [401, 'A valid API key is needed'],
  signature_missing: [401, 'The request is not signed'],
  signature_wrong: [401, 'The signature is not good'],
  timestamp_stale: [401, 'The request was signed at another time'],
  forbidden: [403, 'This client may not talk to this server'],
  not_found: [404, 'There is no such thing'],
  method_not_allowed: [405, 'This method is not offered here'],
  request_timeout: [408, 'The request took too long to arrive'],
  conflict: [409, 'The state of the thing does not allow this'],
  too_large: [413, 'The request is too large'],
  unsupported_media_type: [415, 'This content type is not understood here'],
  validation: [422, 'Some fields are not valid'],
  idempotency_key_reused: [422, 'The idempotency key was used for something else'],
  upgrade_required: [426, 'A WebSocket is wanted here'],
  limit_reached: [429, 'A limit is reached'],
  headers_too_large: [431, 'The headers are too large'],
  internal: [500, 'Something went wrong inside Posthorn'],
  loop_detected: [508, 'The event goes round in a loop'],
  overloaded: [503, 'Too much is going on at once'],
  intake_full: [503, 'Too many events wait for the disk'],
  shutting_down: [503, 'Posthorn is shutting down'],
  store_full: [503, 'The disk is full'],
  store_unavailable: [503, 'The store cannot be used'],
  store_read_only: [503, 'The store is read-only'],
  store_corrupt: [503, 'The store is damaged'],
  store_locked: [503, 'The store is locked'],
  store_missing: [503, 'The store is missing'],
  store_too_new: [503, 'The store is from a newer Posthorn'],
  store_wrong_key: [503, 'The encryption key does not fit the store'],
} as const satisfies Record<string, readonly [status: number, title: string]>

export type ProblemCode = keyof typeof titles

export function problemStatus(code: ProblemCode): number {
  return titles[code][0]
}

/** An answer that is not a success: thrown by a route, or sent as it is. The detail is a sentence for a person. */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly errors: readonly FieldError[]
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ProblemCode,
    detail: string,
    more: { errors?: readonly FieldError[]; headers?: Readonly<Record<string, string>>; cause?: unknown } = {},
  ) {
    super(detail, more.cause === undefined ? undefined : { cause: more.cause })
    this.name = 'Problem'
    this.code = code
    this.errors = more.errors ?? []
    this.headers = more.headers ?? {}
  }

  get status(): number {
    return titles[this.code][0]
  }

  body(requestId?: string): string {
    const [status, title] = titles[this.code]
    return JSON.stringify({
      type: `urn:posthorn:problem:${this.code}`,
      title,
      status,
      detail: this.message,
      ...(this.errors.length > 0 && { errors: this.errors }),
      ...(requestId !== undefined && { requestId }),
    })
  }
}

export const errorsMax = 100

/** Every wrong field at once, as far as a person can read. `unlisted`: events of a batch whose fields were not looked at. */
export function validationProblem(errors: readonly FieldError[], unlisted = 0): Problem {
  const events = unlisted > 0 ? `, and ${unlisted} more events are not valid` : ''
  const more = errors.length > errorsMax || unlisted > 0 ? ` (the first ${errorsMax} are listed${events})` : ''
  const detail =
    errors.length === 1 && errors[0] !== undefined
      ? `${errors[0].path === '' ? 'The body' : errors[0].path}: ${ended(errors[0].message)}`
      : `${unlisted > 0 ? 'At least ' : ''}${errors.length} fields are not valid${more}.`
  return new Problem('validation', detail, { errors: errors.slice(0, errorsMax) })
}

/** A message that asks whether something else was meant has its mark already. */
function ended(message: string): string {
  return message.endsWith('?') ? message : `${message}.`
}

export function notFound(what: string, id: string): Problem {
  return new Problem('not_found', `There is no ${what} ${id.slice(0, 100)}.`)
}

/** Writes a problem where fastify is not in between. */
export function sendProblem(response: ServerResponse, problem: Problem, requestId?: string): void {
  if (response.headersSent || response.destroyed) return
  const body = problem.body(requestId)
  response.writeHead(problem.status, { ...headersOf(problem), 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

export function headersOf(problem: Problem): Record<string, string> {
  return { 'content-type': 'application/problem+json', 'cache-control': 'no-store', ...problem.headers }
}

/** Whatever was thrown, as a problem: an error with no code of ours is our own mistake. */
export function problemFor(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof PosthornError) return fromCode(error.code, error)
  const status = statusOf(error)
  const message = error instanceof Error ? error.message : ''
  if (status === 413) return new Problem('too_large', 'The body is larger than what is taken here.')
  if (status === 415) return new Problem('unsupported_media_type', 'The content-type header cannot be read.')
  if (status !== null && status >= 400 && status < 500)
    return new Problem('malformed_request', message, { cause: error })
  return new Problem('internal', 'Something went wrong inside Posthorn; the log tells more under this request id.', {
    cause: error,
  })
}

const retryAfterSeconds: Partial<Record<ErrorCode, number>> = { intake_full: 1, shutting_down: 5 }
const storeRetryAfterSeconds = 5

function fromCode(code: ErrorCode, error: PosthornError): Problem {
  switch (code) {
    case 'not_found':
    case 'conflict':
    case 'loop_detected':
      return new Problem(code, error.message)
    case 'invalid':
      return new Problem('validation', error.message)
    case 'config_invalid':
      return new Problem('internal', 'Something went wrong inside Posthorn.', { cause: error })
    case 'intake_full':
    case 'shutting_down':
    case 'store_full':
    case 'store_unavailable':
    case 'store_read_only':
    case 'store_corrupt':
    case 'store_locked':
    case 'store_missing':
    case 'store_too_new':
    case 'store_wrong_key': {
      const seconds = retryAfterSeconds[code] ?? storeRetryAfterSeconds
      return new Problem(code, error.message, { headers: { 'retry-after': String(seconds) }, cause: error })
    }
  }
}

/** fastify's own errors carry the status that they mean. */
function statusOf(error: unknown): number | null {
  if (!(error instanceof Error) || !('statusCode' in error) || typeof error.statusCode !== 'number') return null
  return error.statusCode
}
