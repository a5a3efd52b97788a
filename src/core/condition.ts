import {
  type Allowance,
  allowance,
  type Breaker,
  closedBreaker,
  lostBreaker,
  probeStarted,
  recorded,
  reset,
  revived,
  unlimited,
} from './circuit-breaker.ts'
import { areApart, type Clock } from './clock.ts'
import { type Endpoint, targetOf } from './endpoint.ts'
import { kindFacts, mayBeDisabled } from './endpoint-kinds.ts'
import type { Outcome } from './outcome.ts'
import { partOf } from './shares.ts'

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
  const heldUntil = asked === null ? holdEndsAt(condition, now) : Math.max(condition.heldUntil ?? 0, now + asked)
  const failing = failingAfter(condition, outcome, now)
  const isSame = failing === condition && heldUntil === condition.heldUntil
  return isSame && breaker === condition.breaker ? condition : { ...failing, breaker, heldUntil }
}

/** When the hold ends that an endpoint has asked for; null: nothing is held. */
export function holdEndsAt({ heldUntil }: Pick<Condition, 'heldUntil'>, now: number): number | null {
  return heldUntil !== null && now < heldUntil ? heldUntil : null
}

/** What breaker and hold allow, whoever asks. */
export function allowanceOf(condition: Condition, { breaker }: Pick<Endpoint, 'breaker'>, now: number): Allowance {
  const until = holdEndsAt(condition, now)
  if (until !== null) return { kind: 'wait', until }
  return breaker === null ? unlimited : allowance(condition.breaker, now)
}

/** Whether this member has asked to start the probe, or was granted it. */
export type ProbeRight = 'none' | 'asked' | 'granted'

/** What breaker and hold allow here: of what all may do together, the part of this member. `share` null: it is alone. */
export function allowanceHere(
  condition: Condition,
  endpoint: Pick<Endpoint, 'breaker' | 'concurrency'>,
  { probe, share }: Readonly<{ probe: ProbeRight; share: number | null }>,
  now: number,
): Allowance {
  const allowed = allowanceOf(condition, endpoint, now)
  if (endpoint.breaker === null || holdEndsAt(condition, now) !== null) return allowed
  // It is open to others, or closed to them while the probe is under way here.
  if (probe === 'asked' || mayProbe(condition, probe, now)) return { kind: 'probe' }
  if (allowed.kind !== 'open_to' || allowed.limit === null || share === null) return allowed
  return { kind: 'open_to', limit: partOf(allowed.limit, share, endpoint.concurrency) }
}

/** Whether the probe that was granted may start here. If it has not in its time, it has to be asked for again. */
export function mayProbe({ breaker }: Condition, probe: ProbeRight, now: number): boolean {
  return probe === 'granted' && allowance(breaker, now).kind !== 'probe'
}

/** Whether a probe may start now. */
export function isProbeDue(condition: Condition, endpoint: Pick<Endpoint, 'breaker'>, now: number): boolean {
  return allowanceOf(condition, endpoint, now).kind === 'probe'
}

/** The condition with a probe of the breaker under way. */
export function conditionProbing(condition: Condition, { timeoutMs }: Endpoint, now: number): Condition {
  return withBreaker(condition, probeStarted(condition.breaker, timeoutMs, now))
}

/** A person says that the endpoint is well again: closes the breaker and ends the hold. */
export function conditionReset(condition: Condition): Condition {
  const { heldUntil, ...rest } = withBreaker(condition, reset(condition.breaker))
  return heldUntil === null && rest.breaker === condition.breaker ? condition : { ...rest, heldUntil: null }
}

/** The condition under new settings. */
export function conditionAdopting(condition: Condition, before: Endpoint, after: Endpoint): Condition {
  // What another target answered says nothing about this one.
  const isNews = targetOf(after) !== targetOf(before) && condition.lastError !== null
  const failingSince = isForgiven(before, after) ? null : condition.failingSince
  // Nothing is recorded while there is no breaker: what is left of it would be old news when it is wanted again.
  const breaker = after.breaker === null ? closedBreaker : condition.breaker
  if (!isNews && failingSince === condition.failingSince && breaker === condition.breaker) return condition
  const { lastError, lastErrorAt } = isNews ? { lastError: null, lastErrorAt: null } : condition
  return { ...condition, breaker, failingSince, lastError, lastErrorAt }
}

/** A person has seen to it: it has all of its time again before it is disabled. */
export function isForgiven(before: Endpoint, after: Endpoint): boolean {
  return targetOf(after) !== targetOf(before) || (after.status === 'active' && before.status !== 'active')
}

/** What all members knew is lost: this is what one of them remembers. */
export function lostCondition(condition: Condition, now: number): Condition {
  return withBreaker(condition, lostBreaker(condition.breaker, now))
}

/** Whether nothing speaks against it: only a failure would be news. */
export function isWell({ breaker, heldUntil }: Condition): boolean {
  return breaker.state === 'closed' && breaker.ramp === null && breaker.failures === 0 && heldUntil === null
}

/** How long it says anything that others have to know. */
export function meaningfulUntil({ breaker, heldUntil }: Condition, now: number): number {
  return Math.max(now, heldUntil ?? 0, breaker.state === 'closed' ? 0 : breaker.until)
}

function withBreaker(condition: Condition, breaker: Breaker): Condition {
  return breaker === condition.breaker ? condition : { ...condition, breaker }
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
