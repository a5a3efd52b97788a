import { type Breaker, closedBreaker, recorded, revived } from './circuit-breaker.ts'
import { areApart, type Clock } from './clock.ts'
import type { Endpoint } from './endpoint.ts'
import { kindFacts, mayBeDisabled } from './endpoint-kinds.ts'
import type { Outcome } from './outcome.ts'

/** How an endpoint is doing: what has to survive a restart. */
export type Condition = Readonly<{
  endpointId: string
  breaker: Breaker
  heldUntil: number | null
  /** When it failed first with nothing but failures since; null: the last try was good, or there was none. */
  failingSince: number | null
  /** The error of the last try that failed, and when that was; null: none since its target was changed. */
  lastError: string | null
  lastErrorAt: number | null
}>

export function freshCondition(endpointId: string): Condition {
  return { endpointId, breaker: closedBreaker, heldUntil: null, failingSince: null, lastError: null, lastErrorAt: null }
}

/** The condition after a try: the breaker, the hold that a Retry-After asks for, and how the endpoint fails. */
export function conditionAfter(
  condition: Condition,
  tried: Readonly<{ outcome: Outcome; statusCode: number | null; startedAt: number; probe: boolean }>,
  endpoint: Endpoint,
  now: number,
): Condition {
  const { outcome } = tried
  const breaker =
    endpoint.breaker === null ? condition.breaker : recorded(condition.breaker, tried, endpoint.breaker, now)
  const asked = holdAsked(outcome, endpoint)
  const heldUntil = asked === null ? stillHeldUntil(condition, now) : Math.max(condition.heldUntil ?? 0, now + asked)
  const failing = failingAfter(condition, outcome, now)
  const isSame = failing === condition && heldUntil === condition.heldUntil
  return isSame && breaker === condition.breaker ? condition : { ...failing, breaker, heldUntil }
}

/** A clock that was wrong at the start must not make an old failing of a new one: it has to be seen for a while. */
const failingSeenMsMin = 10 * 60_000

/** With nothing but failures for as long as its settings allow; `seenFrom` is when this process saw the first of them. */
export function isFailingTooLong(
  endpoint: Endpoint,
  { failingSince }: Condition,
  seenFrom: number | null,
  clock: Clock,
): boolean {
  if (!mayBeDisabled(endpoint) || endpoint.disableAfterMs === null) return false
  if (failingSince === null || seenFrom === null) return false
  const now = clock.steady()
  // Since the clock was set, only what was seen here counts: the steady clock has measured it.
  if (areApart(clock)) return now - seenFrom >= endpoint.disableAfterMs
  const seenMsMin = Math.min(endpoint.disableAfterMs, failingSeenMsMin)
  return now - failingSince >= endpoint.disableAfterMs && now - seenFrom >= seenMsMin
}

/** The condition as it is taken up after a restart; times from a clock that ran ahead are pulled back. */
export function revivedCondition(condition: Condition, endpoint: Endpoint, now: number, holdMsMax: number): Condition {
  const breaker = endpoint.breaker === null ? condition.breaker : revived(condition.breaker, endpoint.breaker, now)
  const heldUntil = condition.heldUntil === null ? null : Math.min(condition.heldUntil, now + holdMsMax)
  const failingSince = condition.failingSince === null ? null : Math.min(condition.failingSince, now)
  const lastErrorAt = condition.lastErrorAt === null ? null : Math.min(condition.lastErrorAt, now)
  return { ...condition, breaker, heldUntil, failingSince, lastErrorAt }
}

/** Since when it fails, and how it failed last: the same condition if nothing of that has changed. */
function failingAfter(condition: Condition, outcome: Outcome, now: number): Condition {
  switch (outcome.kind) {
    case 'delivered':
      return condition.failingSince === null ? condition : { ...condition, failingSince: null }
    case 'permanent':
    case 'retryable':
    case 'unavailable':
      return {
        ...condition,
        failingSince: condition.failingSince ?? now,
        lastError: outcome.error,
        lastErrorAt: now,
      }
    case 'ours':
      return condition
  }
}

function stillHeldUntil({ heldUntil }: Condition, now: number): number | null {
  return heldUntil !== null && heldUntil > now ? heldUntil : null
}

/**
 * How long the whole endpoint is asked to be left alone. A handler that wants to see one event later says nothing about
 * the others; one that says `unavailable` does.
 */
function holdAsked(outcome: Outcome, { kind }: Endpoint): number | null {
  switch (outcome.kind) {
    case 'unavailable':
      return outcome.retryAfterMs
    case 'retryable':
      return kindFacts[kind].holdsOnRetryAfter ? outcome.retryAfterMs : null
    case 'delivered':
    case 'permanent':
    case 'ours':
      return null
  }
}
