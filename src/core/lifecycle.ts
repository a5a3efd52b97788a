import type { Attempt } from './attempt.ts'
import { type Correction, corrected, plausibleSince, type Reckoning } from './clock.ts'
import {
  advanced,
  type DeadLetter,
  type DeliveryFacts,
  type DeliveryStatus,
  type Failed,
  type Pending,
  type Processing,
  type Settled,
} from './delivery.ts'
import type { Outcome, Reason } from './outcome.ts'
import { delayAfter, type RetryPolicy } from './retry-policy.ts'

/**
 * The life of a delivery.
 *
 * ```
 *            ┌────────── retryable, budget left: retryAfter = now + delay ───────────┐
 *            ▼                                                                       │
 * append → pending ── claimed ──▶ processing ── success ─────────────▶ delivered     │
 *            │  ▲                    │ ├─ retryable ─────────────────────────────────┘
 *            │  │                    │ ├─ permanent ───────────────▶ failed (reason)
 *            │  │                    │ └─ retryable, budget spent ─▶ failed (exhausted)
 *            │  └─ ours/shutdown/breaker open: no attempt is spent
 *            └─ older than maxAge ──────────────────────────────────▶ dead_letter (expired)
 * failed | dead_letter | delivered ── replayed: fresh budget, numbering goes on ─▶ pending
 * ```
 *
 * Every transition returns a new delivery whose version is one higher. A store writes what is decided here, guarded by
 * the version before. Where it moves many rows at once, or has only a few columns in hand, it asks the rules on plain
 * values below.
 */
export function afterAttempt(delivery: Processing, outcome: Outcome, context: AttemptContext): Pending | Settled {
  const { now } = context
  switch (outcome.kind) {
    case 'delivered':
      return { ...tried(delivery, now, null), status: 'delivered', deliveredAt: now }
    case 'permanent':
      return { ...tried(delivery, now, outcome.error), status: 'failed', reason: outcome.reason, settledAt: now }
    case 'retryable':
    case 'unavailable':
      return afterFailure(delivery, outcome, context)
    case 'ours':
      return { ...advanced(delivery), status: 'pending', dueAt: now + oursPauseMs }
  }
}

export type AttemptContext = Readonly<{
  policy: RetryPolicy
  /** In [0, 1), for the jitter. */
  random: number
  now: number
  /** What ages are measured by; null: nobody can say, and nothing expires. */
  ages: Reckoning | null
  /** Whether this try was a breaker's probe. */
  probe: boolean
}>

/** How long to wait when the fault is ours: long enough not to spin, short enough to go on soon. */
export const oursPauseMs = 1_000

// ── Births ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a birth says of a delivery; all else is as in `newborn`. Small, because every delivery that arrives has one. */
export type Birth =
  | Pick<Pending, 'status' | 'dueAt'>
  | Pick<Processing, 'status' | 'leaseEndsAt'>
  | Pick<Failed, 'status' | 'reason' | 'settledAt'>

export type BirthFacts = Readonly<{
  receivedAt: number
  isEndpointGone: boolean
  isBehind: boolean
  dueAt: number
  /** When its lease ends; null: no dispatcher wants it at once. */
  leaseEndsAt: number | null
}>

/**
 * How a delivery begins that has arrived: in hand when it is wanted and the head of its lane, else waiting, behind others
 * without a due time. What an endpoint that was removed meanwhile would get ends at once: it would wait for nobody.
 */
export function birthOf({ receivedAt, isEndpointGone, isBehind, dueAt, leaseEndsAt }: BirthFacts): Birth {
  if (isEndpointGone) return { status: 'failed', reason: 'endpoint_deleted', settledAt: receivedAt }
  if (isBehind) return behindAtBirth
  return leaseEndsAt === null ? { status: 'pending', dueAt } : { status: 'processing', leaseEndsAt }
}

const behindAtBirth = { status: 'pending', dueAt: null } as const satisfies Birth

/** The whole delivery. */
export function born<B extends Birth>(facts: DeliveryFacts, birth: B): DeliveryFacts & B {
  return { ...facts, ...birth }
}

/** Made of an old event by a recovery. Its age counts from now: otherwise it would expire before its first try. */
export function bornBackfilled(facts: DeliveryFacts, isBehind: boolean, now: number): Pending {
  return { ...born(facts, isBehind ? behindAtBirth : { status: 'pending', dueAt: now }), replayedAt: now }
}

/** Its tries were made elsewhere, before it came here: a consumer's dead letter. `attempt` is the last of them. */
export type BornEnded = Readonly<{ reason: Reason; at: number; attempt: Attempt }>

export function bornEnded(facts: DeliveryFacts, { reason, at, attempt }: BornEnded): Failed {
  return {
    ...facts,
    attempts: attempt.number,
    triesInBudget: attempt.number,
    lastError: attempt.error,
    lastAttemptAt: attempt.startedAt,
    status: 'failed',
    reason,
    settledAt: at,
  }
}

/** Taken by a dispatcher: due at its endpoint, brought up in its lane, or left by a lease that has ended. Takes the facts alone. */
export function claimed(delivery: DeliveryFacts, leaseEndsAt: number): Processing {
  return { ...delivery, version: delivery.version + 1, status: 'processing', leaseEndsAt }
}

/** Leases in a row that ended without an outcome. `isLapsed`: one more has. */
export function interruptionsAfter(before: number, isLapsed: boolean): number {
  return isLapsed ? before + 1 : before
}

/** Whether interruptions still count after a change. A try that came back, and every end, forgets them. */
export function keepsInterruptions(status: DeliveryStatus, ran: boolean): boolean {
  return status === 'pending' && !ran
}

/** When a delivery is due whose lease was voided with its owner: as it was before the claim. */
export function dueAfterInterruption(receivedAt: number, replayedAt: number | null, retryAfter: number | null): number {
  return retryAfter ?? replayedAt ?? receivedAt
}

/** Until when a due time is believed: after a failure, and where no failure has put the delivery off. */
export type DueLimits = Readonly<{ latestDueAt: number; untriedDueAt: number }>

/** What a clock that ran ahead has put off too far is due at its limit; null: it is due by then, and stays as it is. */
export function pulledBack(
  dueAt: number,
  retryAfter: number | null,
  { latestDueAt, untriedDueAt }: DueLimits,
): Readonly<{ dueAt: number; retryAfter: number | null }> | null {
  const limit = retryAfter === null ? untriedDueAt : latestDueAt
  if (dueAt <= limit) return null
  return { dueAt: limit, retryAfter: retryAfter === null ? null : Math.min(retryAfter, limit) }
}

/** Handed back untried: shutdown, the breaker opened, nothing spent. */
export function handedBack(delivery: Processing, now: number): Pending {
  return { ...advanced(delivery), status: 'pending', dueAt: now }
}

export function replayed(delivery: Settled, now: number): Pending {
  return {
    ...advanced(delivery),
    status: 'pending',
    dueAt: now,
    triesInBudget: 0,
    retryAfter: null,
    replayedAt: now,
  }
}

/** A person's retry overrides the backoff, never the order of the lane: what waits behind another still does. */
export function hurried(delivery: Pending, now: number): Pending {
  return {
    ...advanced(delivery),
    status: 'pending',
    dueAt: delivery.dueAt === null ? null : Math.min(delivery.dueAt, now),
    retryAfter: delivery.retryAfter === null ? null : Math.min(delivery.retryAfter, now),
  }
}

/** A person's retry of what nobody has in hand: due now, and with a fresh budget if it had ended. */
export function retried(delivery: Pending | Settled, now: number): Pending {
  return delivery.status === 'pending' ? hurried(delivery, now) : replayed(delivery, now)
}

/** Ended from outside, without a try: cancelled, endpoint_deleted, breaker_open, crashed. */
export function ended(delivery: Pending | Processing, reason: Reason, now: number): Failed {
  return { ...advanced(delivery), status: 'failed', reason, settledAt: now, retryAfter: null }
}

/** The end of a delivery whose endpoint went while it was tried: it would wait for nobody. */
export function givenUp({ dueAt: _, ...facts }: Pending, reason: Reason, now: number): Failed {
  return { ...facts, status: 'failed', reason, settledAt: now, retryAfter: null }
}

export function expired(delivery: Pending, now: number): DeadLetter {
  return { ...advanced(delivery), status: 'dead_letter', reason: 'expired', settledAt: now, retryAfter: null }
}

/** When its age began; null: nobody knows, because the machine did not know the time. A replay starts a new life. */
export function bornAt(receivedAt: number, replayedAt: number | null, correction: Correction | null): number | null {
  const at = Math.max(corrected(receivedAt, correction), corrected(replayedAt ?? receivedAt, correction))
  return at < plausibleSince ? null : at
}

/** The instant at which it expires; null: never, or nobody knows its age. */
export function ageLimit(
  { receivedAt, replayedAt }: DeliveryFacts,
  policy: RetryPolicy,
  correction: Correction | null = null,
): number | null {
  if (policy.maxAgeMs === null) return null
  const born = bornAt(receivedAt, replayedAt, correction)
  return born === null ? null : born + policy.maxAgeMs
}

function hasExpired(delivery: DeliveryFacts, policy: RetryPolicy, ages: Reckoning | null): boolean {
  if (ages === null) return false
  const expiresAt = ageLimit(delivery, policy, ages.correction)
  return expiresAt !== null && ages.now >= expiresAt
}

type TemporaryFailure = Extract<Outcome, { kind: 'retryable' | 'unavailable' }>

/** What follows a failure that may pass. */
export type NextStep = Readonly<{ kind: 'again'; dueAt: number }> | Readonly<{ kind: 'exhausted' }>

const exhausted: NextStep = { kind: 'exhausted' }

/** `tries`: how many the budget has seen, this one included. */
export function nextStep(
  tries: number,
  { retryAfterMs }: Pick<TemporaryFailure, 'retryAfterMs'>,
  policy: RetryPolicy,
  random: number,
  now: number,
): NextStep {
  if (policy.maxAttempts !== null && tries >= policy.maxAttempts) return exhausted
  return { kind: 'again', dueAt: now + Math.max(delayAfter(policy, tries, random), retryAfterMs ?? 0) }
}

function afterFailure(delivery: Processing, outcome: TemporaryFailure, context: AttemptContext): Pending | Settled {
  const { policy, random, now, ages, probe } = context
  const facts = tried(delivery, now, outcome.error)
  // A failed probe served the breaker, not the delivery.
  const triesInBudget = probe ? delivery.triesInBudget : facts.triesInBudget
  const step = nextStep(triesInBudget, outcome, policy, random, now)
  if (step.kind === 'exhausted') {
    return { ...facts, triesInBudget, status: 'failed', reason: 'exhausted', settledAt: now }
  }
  if (hasExpired(delivery, policy, ages)) {
    return { ...facts, triesInBudget, status: 'dead_letter', reason: 'expired', settledAt: now }
  }
  return { ...facts, triesInBudget, status: 'pending', dueAt: step.dueAt, retryAfter: step.dueAt }
}

/** `retryAfter` is null for what is settled: nothing will be tried again. */
function tried(delivery: Processing, now: number, error: string | null): DeliveryFacts {
  return {
    ...advanced(delivery),
    attempts: delivery.attempts + 1,
    triesInBudget: delivery.triesInBudget + 1,
    lastAttemptAt: now,
    lastError: error,
    retryAfter: null,
  }
}
