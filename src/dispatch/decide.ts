import { recorded, revived } from '../core/circuit-breaker.ts'
import { areApart, type Clock, type Reckoning } from '../core/clock.ts'
import type { Pending, Processing, Settled } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { kindFacts, mayBeDisabled } from '../core/endpoint-kinds.ts'
import { afterAttempt, givenUp, released } from '../core/lifecycle.ts'
import type { Outcome } from '../core/outcome.ts'
import type { Condition } from '../store/store.ts'
import type { Tried } from './attempt.ts'
import type { EndpointWork } from './endpoint-work.ts'

/** What becomes of a delivery after a try. */
export function deliveryAfter(
  delivery: Processing,
  { report, outcome }: Tried,
  context: {
    endpoint: Endpoint
    removed: boolean
    probe: boolean
    random: number
    now: number
    ages: Reckoning | null
  },
): Pending | Settled {
  const { endpoint, removed, probe, random, now, ages } = context
  if (report.kind === 'interrupted') return released(delivery, now)
  const to = afterAttempt(delivery, outcome, { policy: endpoint.retry, random, now, ages, probe })
  return to.status === 'pending' && removed ? givenUp(to, 'endpoint_deleted', now) : to
}

/** The endpoint's condition after a try: its breaker, the hold that a Retry-After asks for, and how it fails. */
export function conditionAfter(
  condition: Condition,
  { outcome, attempt }: Tried,
  context: { endpoint: Endpoint; startedAt: number; probe: boolean; now: number },
): Condition {
  const { endpoint, startedAt, probe, now } = context
  const breaker =
    endpoint.breaker === null
      ? condition.breaker
      : recorded(
          condition.breaker,
          { outcome, statusCode: attempt.statusCode, startedAt, probe },
          endpoint.breaker,
          now,
        )
  const asked = holdAsked(outcome, endpoint)
  const heldUntil = asked === null ? stillHeldUntil(condition, now) : Math.max(condition.heldUntil ?? 0, now + asked)
  const failing = failingAfter(condition, outcome, now)
  const isSame = failing === condition && heldUntil === condition.heldUntil
  return isSame && breaker === condition.breaker ? condition : { ...failing, breaker, heldUntil }
}

/** A clock that was wrong at the start must not make an old failing of a new one: it has to be seen for a while. */
const failingSeenMsMin = 10 * 60_000

/** With nothing but failures for as long as its settings allow. */
export function isFailingTooLong({ endpoint, condition, failuresSeenFrom }: EndpointWork, clock: Clock): boolean {
  if (!mayBeDisabled(endpoint) || endpoint.disableAfterMs === null) return false
  if (condition.failingSince === null || failuresSeenFrom === null) return false
  const now = clock.steady()
  // Since the clock was set, only what was seen here counts: the steady clock has measured it.
  if (areApart(clock)) return now - failuresSeenFrom >= endpoint.disableAfterMs
  const seenMsMin = Math.min(endpoint.disableAfterMs, failingSeenMsMin)
  return now - condition.failingSince >= endpoint.disableAfterMs && now - failuresSeenFrom >= seenMsMin
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

/** The condition as it is taken up after a restart; times from a clock that ran ahead are pulled back. */
export function revive(condition: Condition, endpoint: Endpoint, now: number, holdMsMax: number): Condition {
  const breaker = endpoint.breaker === null ? condition.breaker : revived(condition.breaker, endpoint.breaker, now)
  const heldUntil = condition.heldUntil === null ? null : Math.min(condition.heldUntil, now + holdMsMax)
  const failingSince = condition.failingSince === null ? null : Math.min(condition.failingSince, now)
  const lastErrorAt = condition.lastErrorAt === null ? null : Math.min(condition.lastErrorAt, now)
  return { ...condition, breaker, heldUntil, failingSince, lastErrorAt }
}
