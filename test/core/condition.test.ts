import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Allowance, type Breaker, closedBreaker, unlimited } from '../../src/core/circuit-breaker.ts'
import {
  allowanceHere,
  allowanceOf,
  type Condition,
  conditionAfter,
  freshCondition,
  isFailingTooLong,
  isProbeDue,
  type ProbeRight,
  revivedCondition,
} from '../../src/core/condition.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import { aHandler, anEndpoint } from '../support/builders.ts'

const now = Date.UTC(2026, 0, 1)
const minuteMs = 60_000
const dayMs = 86_400_000
const endpoint = anEndpoint({ breaker: { threshold: 2, cooldownMs: 1_000, whenOpen: 'park' } })
const fresh = freshCondition(endpoint.id)
const down: Outcome = { kind: 'unavailable', error: 'HTTP 503', retryAfterMs: null }

function after(
  condition: Condition,
  outcome: Outcome,
  at = now,
  of = endpoint as Parameters<typeof conditionAfter>[2],
) {
  return conditionAfter(condition, { outcome, statusCode: null, startedAt: at, probe: false }, of, at)
}

test('a delivery to an endpoint that is well changes nothing', () => {
  assert.equal(after(fresh, { kind: 'delivered' }), fresh)
})

test('a failure of our own changes nothing', () => {
  assert.equal(after(fresh, { kind: 'ours', error: 'EMFILE' }), fresh)
})

test('the first failure is remembered until something is delivered, and the last error longer', () => {
  const first = after(fresh, down)
  assert.deepEqual([first.failingSince, first.lastError, first.lastErrorAt], [now, 'HTTP 503', now])
  const second = after(first, { ...down, error: 'HTTP 500' }, now + 5)
  assert.deepEqual([second.failingSince, second.lastError, second.lastErrorAt], [now, 'HTTP 500', now + 5])
  assert.equal(second.breaker.state, 'open')
  const well = after(first, { kind: 'delivered' }, now + 9)
  assert.deepEqual([well.failingSince, well.lastError], [null, 'HTTP 503'])
})

test('an endpoint without a breaker keeps it closed', () => {
  const without = anEndpoint({ breaker: null })
  assert.deepEqual(after(after(fresh, down, now, without), down, now, without).breaker, closedBreaker)
})

test('a hold is never shortened, and ends by itself', () => {
  const later: Outcome = { kind: 'retryable', error: 'HTTP 429', retryAfterMs: 5_000 }
  const held = after(fresh, later)
  assert.equal(held.heldUntil, now + 5_000)
  assert.equal(after(held, { ...later, retryAfterMs: 1_000 }).heldUntil, now + 5_000)
  assert.equal(after(held, { kind: 'delivered' }, now + 4_999).heldUntil, now + 5_000)
  assert.equal(after(held, { kind: 'delivered' }, now + 5_000).heldUntil, null)
})

test('a handler that wants one event later holds no others; one that is unavailable does', () => {
  const handler = aHandler()
  assert.equal(after(fresh, { kind: 'retryable', error: 'x', retryAfterMs: 5_000 }, now, handler).heldUntil, null)
  assert.equal(after(fresh, { ...down, retryAfterMs: 5_000 }, now, handler).heldUntil, now + 5_000)
})

test('an endpoint fails for too long by both what is kept and what was seen', () => {
  const http = anEndpoint({ disableAfterMs: dayMs })
  const failing = { ...fresh, failingSince: now - dayMs }
  const clock = { wall: () => now, steady: () => now, monotonic: () => now }
  assert.equal(isFailingTooLong(http, failing, now - 10 * minuteMs, clock), true)
  assert.equal(isFailingTooLong(http, failing, now - 9 * minuteMs, clock), false)
  assert.equal(isFailingTooLong(http, failing, null, clock), false)
  assert.equal(isFailingTooLong(http, { ...failing, failingSince: now - dayMs + 1 }, now - dayMs, clock), false)
  assert.equal(isFailingTooLong(anEndpoint({ disableAfterMs: null }), failing, now - dayMs, clock), false)
  assert.equal(isFailingTooLong(aHandler(), failing, now - dayMs, clock), false)
  const set = { wall: () => now + 2 * dayMs, steady: () => now, monotonic: () => now }
  assert.equal(isFailingTooLong(http, failing, now - 10 * minuteMs, set), false)
  assert.equal(isFailingTooLong(http, failing, now - dayMs, set), true)
})

test('after a restart, times from a clock that ran ahead are pulled back', () => {
  const ahead = { ...fresh, heldUntil: now + 9 * dayMs, failingSince: now + dayMs, lastErrorAt: now + dayMs }
  const back = revivedCondition(ahead, endpoint, now, dayMs)
  assert.deepEqual([back.heldUntil, back.failingSince, back.lastErrorAt], [now + dayMs, now, now])
})

const open: Breaker = { state: 'open', failures: 2, openedAt: now, until: now + 1_000 }
const underway: Breaker = { state: 'half_open', failures: 2, openedAt: now, probeStartedAt: now, until: now + 1_000 }
const ramp: Breaker = { state: 'closed', failures: 0, ramp: 8 }
const wait: Allowance = { kind: 'wait', until: now + 1_000 }
const held: Allowance = { kind: 'wait', until: now + 5_000 }

const allowances: readonly (readonly [Partial<Condition>, number, Allowance])[] = [
  [{}, now, { kind: 'open_to', limit: null }],
  [{ breaker: open }, now, wait],
  [{ breaker: open }, now + 1_000, { kind: 'probe' }],
  [{ breaker: open, heldUntil: now + 5_000 }, now + 1_000, held],
  [{ breaker: open, heldUntil: now + 5_000 }, now + 5_000, { kind: 'probe' }],
  [{ heldUntil: now + 5_000 }, now + 4_999, held],
  [{ heldUntil: now + 5_000 }, now + 5_000, { kind: 'open_to', limit: null }],
]

for (const [changed, at, expected] of allowances) {
  test(`with ${JSON.stringify(changed)} at +${at - now} breaker and hold allow ${expected.kind}`, () => {
    const condition = { ...fresh, ...changed }
    assert.deepEqual(allowanceOf(condition, endpoint, at), expected)
    assert.equal(isProbeDue(condition, endpoint, at), expected.kind === 'probe')
  })
}

test('without a breaker only a hold counts, whatever is left of a breaker', () => {
  const none = anEndpoint({ breaker: null })
  assert.deepEqual(allowanceOf({ ...fresh, breaker: open }, none, now), unlimited)
  assert.deepEqual(allowanceOf({ ...fresh, heldUntil: now + 5_000 }, none, now), held)
  assert.deepEqual(allowanceHere(fresh, none, { probe: 'asked', share: 1 }, now), unlimited)
})

const probing: Allowance = { kind: 'probe' }
const here: readonly (readonly [Partial<Condition>, ProbeRight, number | null, Allowance])[] = [
  [{ breaker: open }, 'none', null, wait],
  // The state of the others may be behind: what was asked for here counts.
  [{ breaker: open }, 'asked', null, probing],
  [{ breaker: underway }, 'granted', null, probing],
  [{ breaker: underway }, 'none', null, wait],
  [{ breaker: underway, heldUntil: now + 5_000 }, 'granted', null, held],
  [{ breaker: ramp }, 'none', null, { kind: 'open_to', limit: 8 }],
  [{ breaker: ramp }, 'none', 5, { kind: 'open_to', limit: 4 }],
  [{ breaker: ramp }, 'none', 0, { kind: 'open_to', limit: 0 }],
  [{}, 'none', 5, { kind: 'open_to', limit: null }],
]

for (const [changed, probe, share, expected] of here) {
  test(`with ${JSON.stringify(changed)}, its probe ${probe} and a share of ${share} this member gets ${expected.kind}`, () => {
    assert.deepEqual(allowanceHere({ ...fresh, ...changed }, endpoint, { probe, share }, now), expected)
  })
}
