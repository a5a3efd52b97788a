import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newborn, type Pending, type Processing, type Settled } from '../../src/core/delivery.ts'
import {
  type AttemptContext,
  afterAttempt,
  ageLimit,
  bornEnded,
  ended,
  expired,
  givenUp,
  handedBack,
  hurried,
  oursPauseMs,
  replayed,
  retried,
} from '../../src/core/lifecycle.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import { presets } from '../../src/core/retry-policy.ts'

const receivedAt = Date.UTC(2026, 0, 1)
const now = receivedAt + 5_000
const day = 86_400_000

const processing: Processing = {
  status: 'processing',
  id: 'dlv_1',
  eventId: 'evt_1',
  endpointId: 'ep_1',
  lane: 'all',
  receivedAt,
  attempts: 7,
  triesInBudget: 2,
  version: 11,
  retryAfter: receivedAt + 4_000,
  lastError: 'HTTP 500',
  lastAttemptAt: receivedAt + 3_000,
  replayedAt: receivedAt + 1_000,
  leaseEndsAt: now + 30_000,
}
const { leaseEndsAt: _, ...facts } = processing
const pending: Pending = { ...facts, status: 'pending', dueAt: receivedAt + 4_000 }
const fresh: Processing = { ...processing, ...newborn(processing) }

const delivered: Outcome = { kind: 'delivered' }
const gone: Outcome = { kind: 'permanent', reason: 'gone', error: 'HTTP 410' }
const later: Outcome = { kind: 'retryable', error: 'HTTP 429', retryAfterMs: null }
const down: Outcome = { kind: 'unavailable', error: 'HTTP 503', retryAfterMs: null }
const ours: Outcome = { kind: 'ours', error: 'EMFILE' }
const at = (instant: number): Pick<AttemptContext, 'now' | 'ages'> => ({
  now: instant,
  ages: { now: instant, correction: null },
})
const context: AttemptContext = { policy: presets.webhook, random: 0.5, ...at(now), probe: false }

test('delivered ends it and forgets the error', () => {
  assert.deepEqual(afterAttempt(processing, delivered, context), {
    ...facts,
    status: 'delivered',
    deliveredAt: now,
    version: 12,
    attempts: 8,
    triesInBudget: 3,
    lastAttemptAt: now,
    lastError: null,
    retryAfter: null,
  })
})

test('permanent ends it at once with the reason of the outcome', () => {
  assert.deepEqual(afterAttempt(processing, gone, context), {
    ...facts,
    status: 'failed',
    reason: 'gone',
    settledAt: now,
    version: 12,
    attempts: 8,
    triesInBudget: 3,
    lastAttemptAt: now,
    lastError: 'HTTP 410',
    retryAfter: null,
  })
})

test('retryable and unavailable wait for the delay of the try just spent', () => {
  for (const outcome of [later, down] as const) {
    assert.deepEqual(afterAttempt(processing, outcome, context), {
      ...facts,
      status: 'pending',
      dueAt: now + 4_000,
      retryAfter: now + 4_000,
      version: 12,
      attempts: 8,
      triesInBudget: 3,
      lastAttemptAt: now,
      lastError: outcome.kind === 'retryable' ? 'HTTP 429' : 'HTTP 503',
    })
  }
})

test('what the endpoint asked for lengthens the wait and never shortens it', () => {
  const waitFor = (retryAfterMs: number) => {
    const next = afterAttempt(processing, { ...later, retryAfterMs }, context)
    return next.status === 'pending' && next.dueAt === next.retryAfter ? next.dueAt! - now : null
  }
  assert.equal(waitFor(0), 4_000)
  assert.equal(waitFor(3_999), 4_000)
  assert.equal(waitFor(60_000), 60_000)
})

test('the last try of the budget fails as exhausted', () => {
  const last = { ...processing, triesInBudget: 4 }
  const next = afterAttempt(last, down, context)
  assert.deepEqual([next.status, 'reason' in next && next.reason], ['failed', 'exhausted'])
  assert.deepEqual([next.attempts, next.triesInBudget, next.lastError, next.retryAfter], [8, 5, 'HTTP 503', null])
  assert.equal(afterAttempt(last, delivered, context).status, 'delivered')
  assert.equal(afterAttempt({ ...last, triesInBudget: 9 }, down, context).status, 'failed')
})

test('a failure at or past the age limit is a dead letter, unless the budget ended first', () => {
  const limit = processing.replayedAt! + 7 * day
  const triedAt = (instant: number, delivery = processing) =>
    afterAttempt(delivery, down, { ...context, ...at(instant) })
  assert.equal(triedAt(limit - 1).status, 'pending')
  const next = triedAt(limit)
  assert.deepEqual([next.status, 'reason' in next && next.reason], ['dead_letter', 'expired'])
  assert.deepEqual([next.attempts, next.retryAfter], [8, null])
  const both = triedAt(limit, { ...processing, triesInBudget: 4 })
  assert.deepEqual([both.status, 'reason' in both && both.reason], ['failed', 'exhausted'])
  assert.equal(afterAttempt(processing, delivered, { ...context, ...at(limit + day) }).status, 'delivered')
  const endless = afterAttempt(processing, down, { ...context, policy: presets.publish, ...at(limit + 1_000 * day) })
  assert.equal(endless.status, 'pending')
})

test('a fault of ours spends nothing, says nothing about the endpoint and waits a moment', () => {
  for (const probe of [false, true]) {
    assert.deepEqual(afterAttempt(processing, ours, { ...context, probe }), {
      ...facts,
      status: 'pending',
      dueAt: now + oursPauseMs,
      version: 12,
    })
  }
})

test('a failed probe is an attempt but spends no budget', () => {
  for (const outcome of [later, down]) {
    const next = afterAttempt({ ...processing, triesInBudget: 4 }, outcome, { ...context, probe: true })
    assert.deepEqual([next.status, next.attempts, next.triesInBudget], ['pending', 8, 4])
    assert.equal(next.retryAfter, now + 8_000)
  }
  const first = afterAttempt(fresh, down, { ...context, probe: true })
  assert.deepEqual([first.attempts, first.triesInBudget, first.retryAfter], [1, 0, now + 1_000])
  const last = afterAttempt({ ...processing, triesInBudget: 4 }, gone, { ...context, probe: true })
  assert.deepEqual([last.status, last.triesInBudget], ['failed', 5])
})

test('handed back: due now, nothing spent', () => {
  assert.deepEqual(handedBack(processing, now), { ...facts, status: 'pending', dueAt: now, version: 12 })
})

test('replayed: fresh budget, numbering goes on, due now', () => {
  const ends: Settled[] = [
    { ...facts, status: 'failed', reason: 'exhausted', settledAt: now - 1 },
    { ...facts, status: 'dead_letter', reason: 'expired', settledAt: now - 1 },
    { ...facts, status: 'delivered', deliveredAt: now - 1 },
  ]
  for (const end of ends) {
    assert.deepEqual(replayed(end, now), {
      ...facts,
      status: 'pending',
      dueAt: now,
      version: 12,
      attempts: 7,
      triesInBudget: 0,
      retryAfter: null,
      replayedAt: now,
    })
  }
})

test('hurried: due now if it was later, and never ahead of its lane', () => {
  const waiting: Pending = { ...pending, dueAt: now + 9_000, retryAfter: now + 9_000 }
  assert.deepEqual(hurried(waiting, now), { ...pending, dueAt: now, retryAfter: now, version: 12 })
  assert.deepEqual(hurried(pending, now), { ...pending, version: 12 })
  const behind: Pending = { ...pending, dueAt: null, retryAfter: null }
  assert.deepEqual(hurried(behind, now), { ...behind, version: 12 })
})

test("a person's retry hurries what waits and replays what has ended", () => {
  const waiting: Pending = { ...pending, dueAt: now + 9_000 }
  assert.deepEqual(retried(waiting, now), hurried(waiting, now))
  const end: Settled = { ...facts, status: 'delivered', deliveredAt: now - 1 }
  assert.deepEqual(retried(end, now), replayed(end, now))
})

test('ended from outside: failed with that reason, no attempt counted', () => {
  for (const reason of ['cancelled', 'endpoint_deleted', 'breaker_open', 'crashed'] as const) {
    for (const delivery of [pending, processing]) {
      const expectedEnd = { ...facts, status: 'failed', reason, settledAt: now, version: 12, retryAfter: null }
      assert.deepEqual(ended(delivery, reason, now), expectedEnd)
    }
  }
})

test('expired: a dead letter with its history', () => {
  const expectedEnd = {
    ...facts,
    status: 'dead_letter',
    reason: 'expired',
    settledAt: now,
    version: 12,
    retryAfter: null,
  }
  assert.deepEqual(expired(pending, now), expectedEnd)
})

test('age counts from the arrival or the last replay, whichever is later', () => {
  assert.equal(ageLimit(fresh, presets.webhook), receivedAt + 7 * day)
  assert.equal(ageLimit(processing, presets.webhook), receivedAt + 1_000 + 7 * day)
  // The clock went back between arrival and replay.
  assert.equal(ageLimit({ ...processing, replayedAt: receivedAt - day }, presets.webhook), receivedAt + 7 * day)
  assert.equal(ageLimit(processing, presets.publish), null)
  // Received while the machine did not know the time: nobody can say how old it is.
  assert.equal(ageLimit({ ...fresh, receivedAt: 5_000 }, presets.webhook), null)
  assert.equal(ageLimit({ ...fresh, receivedAt: 5_000, replayedAt: receivedAt }, presets.webhook), receivedAt + 7 * day)
})

test('nothing expires while nobody can say how old it is, and then by the corrected age', () => {
  const late = processing.replayedAt! + 8 * day
  const statusBy = (ages: AttemptContext['ages']) =>
    afterAttempt(processing, down, { ...context, now: late, ages }).status
  assert.equal(statusBy(null), 'pending')
  assert.equal(statusBy({ now: late, correction: null }), 'dead_letter')
  const correction = { from: receivedAt, to: late, byMs: 2 * day }
  assert.equal(statusBy({ now: late, correction }), 'pending')
  assert.equal(statusBy({ now: late + day, correction }), 'dead_letter')
})

test('a clock that went back before the arrival harms nothing', () => {
  const early = receivedAt - 400 * day
  const next = afterAttempt(fresh, down, { ...context, ...at(early) })
  assert.deepEqual([next.status, next.retryAfter], ['pending', early + 1_000])
  assert.equal(hurried(pending, early).dueAt, early)
  assert.equal(handedBack(processing, early).dueAt, early)
})

test('the 10,000th try of a policy without limit still waits within its cap', () => {
  const old: Processing = { ...fresh, attempts: 9_999, triesInBudget: 9_999 }
  const next = afterAttempt(old, down, { ...context, policy: presets.relay })
  assert.deepEqual([next.status, next.attempts, next.retryAfter], ['pending', 10_000, now + 3_600_000])
})

test('what would have waited for an endpoint that went ends as failed, and keeps nothing of its waiting', () => {
  const { dueAt: _due, ...rest } = pending
  const end = givenUp(pending, 'endpoint_deleted', now)
  assert.deepEqual(end, { ...rest, status: 'failed', reason: 'endpoint_deleted', settledAt: now, retryAfter: null })
})

test('a delivery whose tries were made elsewhere is born failed, with the facts of its last try', () => {
  const attempt = {
    number: 4,
    startedAt: now - 20,
    tookMs: 15,
    outcome: 'retryable',
    statusCode: null,
    error: 'TypeError: no total',
    responseHeaders: null,
    responseBody: null,
    errorClass: 'TypeError',
    dependency: null,
    stack: null,
  } as const
  assert.deepEqual(bornEnded(newborn(processing), { reason: 'exhausted', at: now, attempt }), {
    ...newborn(processing),
    attempts: 4,
    triesInBudget: 4,
    lastError: 'TypeError: no total',
    lastAttemptAt: now - 20,
    status: 'failed',
    reason: 'exhausted',
    settledAt: now,
  })
})
