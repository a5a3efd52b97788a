import type { Outcome } from './outcome.ts'

/**
 * Spares an endpoint that is down, and us the timeouts.
 *
 * ```
 *   closed ── `threshold` times unavailable, nothing else between ──▶ open
 *     ▲                                                              │  ▲
 *     │ any answer below 500                       cool-down is over │  │ unavailable: another cool-down;
 *     │                                                              ▼  │ inconclusive: the next probe at once
 *     └────────────────────────────────────────────────────────── half_open (one probe under way)
 * ```
 *
 * Several processes agree on one breaker (dispatch/conditions), so that they start one probe between them. A process
 * that goes away with its probe holds up nothing for longer than `until`.
 */
export type Breaker =
  /** `ramp`: tries allowed at once after it closed; grows by one per success. null: no limit. */
  | Readonly<{ state: 'closed'; failures: number; ramp: number | null }>
  /** `failures`: in a row, those that opened it and the failed probes since. */
  | Readonly<{ state: 'open'; failures: number; openedAt: number; until: number }>
  /** `until`: if the probe has not ended by then, nobody waits for it any more. */
  | Readonly<{ state: 'half_open'; failures: number; openedAt: number; probeStartedAt: number; until: number }>

export type BreakerState = Breaker['state']
export const breakerStates: readonly BreakerState[] = ['closed', 'open', 'half_open']

export type BreakerPolicy = Readonly<{
  threshold: number
  cooldownMs: number
  /** Whether a delivery waits while the breaker is open, or fails at once. */
  whenOpen: 'park' | 'fail'
}>

export const defaultBreaker: BreakerPolicy = { threshold: 5, cooldownMs: 5 * 60_000, whenOpen: 'park' }
export const closedBreaker: Breaker = { state: 'closed', failures: 0, ramp: null }
/** An endpoint that takes this many at once has recovered. */
export const rampEnd = 64

export type Allowance =
  | Readonly<{ kind: 'open_to'; limit: number | null }>
  | Readonly<{ kind: 'probe' }>
  | Readonly<{ kind: 'wait'; until: number }>

/** Of an endpoint without a breaker. */
export const unlimited: Allowance = { kind: 'open_to', limit: null }

/** What may be tried now. */
export function allowance(breaker: Breaker, now: number): Allowance {
  switch (breaker.state) {
    case 'closed':
      return { kind: 'open_to', limit: breaker.ramp }
    case 'open':
    case 'half_open':
      return now >= breaker.until ? { kind: 'probe' } : { kind: 'wait', until: breaker.until }
  }
}

/** What becomes of deliveries while a breaker is not closed; null: it is closed, or there is none. */
export type WhileOpen = BreakerPolicy['whenOpen'] | null

export function whileOpen(breaker: Breaker, policy: BreakerPolicy | null): WhileOpen {
  return policy === null || breaker.state === 'closed' ? null : policy.whenOpen
}

/** How long a probe may take to end after its deadline has passed. */
const probeEndsWithinMs = 30_000

/**
 * A probe is under way. A person may start one before the cool-down is over; of a closed breaker it is a try like any
 * other, and so is one beside a probe that is under way.
 */
export function probeStarted(breaker: Breaker, timeoutMs: number, now: number): Breaker {
  if (breaker.state === 'closed' || (breaker.state === 'half_open' && now < breaker.until)) return breaker
  const { failures, openedAt } = breaker
  return { state: 'half_open', failures, openedAt, probeStartedAt: now, until: now + timeoutMs + probeEndsWithinMs }
}

/** The probe ended without telling anything about the endpoint: probing is possible again at once. */
export function probeAbandoned(breaker: Breaker, now: number): Breaker {
  switch (breaker.state) {
    case 'half_open':
      return { state: 'open', failures: breaker.failures, openedAt: breaker.openedAt, until: now }
    case 'closed':
    case 'open':
      return breaker
  }
}

/** A person says that the endpoint is well again. What was parked is let go at the ramp, as after a good probe. */
export function reset(breaker: Breaker): Breaker {
  switch (breaker.state) {
    case 'closed':
      return breaker.failures === 0 ? breaker : { state: 'closed', failures: 0, ramp: breaker.ramp }
    case 'open':
    case 'half_open':
      return { state: 'closed', failures: 0, ramp: 1 }
  }
}

export type TryResult = Readonly<{ outcome: Outcome; statusCode: number | null; startedAt: number; probe: boolean }>

export function recorded(breaker: Breaker, result: TryResult, policy: BreakerPolicy, now: number): Breaker {
  // What set out before it opened arrives late and is old news, good or bad. In the same millisecond it set out before:
  // an open breaker lets nothing but the probe pass.
  if (breaker.state !== 'closed' && !result.probe && result.startedAt <= breaker.openedAt) return breaker
  switch (verdictOf(result)) {
    case 'up':
      return succeeded(breaker)
    case 'down':
      return failed(breaker, result.probe, policy, now)
    case 'unknown':
      return result.probe ? probeAbandoned(breaker, now) : breaker
  }
}

/** After a restart: no probe is under way any more, and an `until` from a clock that ran ahead is pulled back. */
export function revived(breaker: Breaker, policy: BreakerPolicy, now: number): Breaker {
  switch (breaker.state) {
    case 'closed':
      return breaker
    case 'open':
      return {
        state: 'open',
        failures: breaker.failures,
        openedAt: Math.min(breaker.openedAt, now),
        until: Math.min(breaker.until, now + policy.cooldownMs),
      }
    case 'half_open':
      return { state: 'open', failures: breaker.failures, openedAt: Math.min(breaker.openedAt, now), until: now }
  }
}

/** What others knew of it is lost. Whether the endpoint is still down is seen by a probe, at once. */
export function lostBreaker(breaker: Breaker, now: number): Breaker {
  return breaker.state === 'closed' ? breaker : { ...breaker, until: Math.min(breaker.until, now) }
}

function verdictOf(result: TryResult): 'up' | 'down' | 'unknown' {
  switch (result.outcome.kind) {
    case 'delivered':
      return 'up'
    case 'unavailable':
      return 'down'
    case 'ours':
      return 'unknown'
    case 'permanent':
    case 'retryable':
      // Who answers is up, except with a 5xx that the endpoint's classification calls permanent. Without a status
      // nobody answered: the address was blocked, or we refused the work ourselves.
      return result.statusCode !== null && result.statusCode < 500 ? 'up' : 'unknown'
  }
}

function succeeded(breaker: Breaker): Breaker {
  switch (breaker.state) {
    case 'closed':
      if (breaker.ramp === null) return breaker.failures === 0 ? breaker : closedBreaker
      return breaker.ramp + 1 >= rampEnd ? closedBreaker : { state: 'closed', failures: 0, ramp: breaker.ramp + 1 }
    case 'open':
    case 'half_open':
      return { state: 'closed', failures: 0, ramp: 1 }
  }
}

function failed(breaker: Breaker, probe: boolean, policy: BreakerPolicy, now: number): Breaker {
  const failures = breaker.failures + 1
  const opened: Breaker = { state: 'open', failures, openedAt: now, until: now + policy.cooldownMs }
  switch (breaker.state) {
    case 'closed':
      return failures >= policy.threshold ? opened : { state: 'closed', failures, ramp: breaker.ramp }
    case 'open':
    case 'half_open':
      // Only the probe may lengthen the wait.
      return probe ? opened : breaker
  }
}
