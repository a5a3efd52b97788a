import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Delivery, newborn, type Pending, type Processing } from '../../src/core/delivery.ts'
import { afterAttempt, oursPauseMs } from '../../src/core/lifecycle.ts'
import type { Outcome } from '../../src/core/outcome.ts'
import { delayAfter, presetNames, presets, type RetryPolicy } from '../../src/core/retry-policy.ts'

const now = 1_000_005_000

const fresh: Processing = {
  ...newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: 'all', receivedAt: 1_000_000_000 }),
  status: 'processing',
  leaseEndsAt: now + 30_000,
}

const delivered: Outcome = { kind: 'delivered' }
const gone: Outcome = { kind: 'permanent', reason: 'gone', error: 'HTTP 410' }
const later: Outcome = { kind: 'retryable', error: 'HTTP 429', retryAfterMs: null }
const down: Outcome = { kind: 'unavailable', error: 'HTTP 503', retryAfterMs: null }
const ours: Outcome = { kind: 'ours', error: 'EMFILE' }

const turns: { outcome: Outcome; probe: boolean; spends: boolean }[] = [
  { outcome: delivered, probe: false, spends: true },
  { outcome: gone, probe: false, spends: true },
  { outcome: later, probe: false, spends: true },
  { outcome: down, probe: false, spends: true },
  { outcome: ours, probe: false, spends: false },
  { outcome: down, probe: true, spends: false },
  { outcome: delivered, probe: true, spends: true },
]

/** Walks all sequences of outcomes up to a depth and counts how they end. */
function walk(delivery: Processing, policy: RetryPolicy, depth: number, ends: Map<string, number>): void {
  for (const { outcome, probe, spends } of turns) {
    const next = afterAttempt(delivery, outcome, { policy, random: 0.5, now, ages: { now, correction: null }, probe })
    const tries = delivery.triesInBudget + (spends ? 1 : 0)
    assert.equal(next.triesInBudget, tries)
    assert.equal(next.attempts, delivery.attempts + (outcome.kind === 'ours' ? 0 : 1))
    assert.ok(policy.maxAttempts === null || tries <= policy.maxAttempts, 'spent more than its budget')

    const isSpent = policy.maxAttempts !== null && tries >= policy.maxAttempts
    const expectedEnd =
      outcome.kind === 'delivered'
        ? 'delivered'
        : outcome.kind === 'permanent'
          ? 'gone'
          : isSpent
            ? 'exhausted'
            : 'pending'
    const end = 'reason' in next ? next.reason : next.status
    assert.equal(end, expectedEnd)
    ends.set(end, (ends.get(end) ?? 0) + 1)

    if (next.status !== 'pending') continue
    const delay = outcome.kind === 'ours' ? oursPauseMs : delayAfter(policy, tries, 0.5)
    assert.equal(next.dueAt, now + delay)
    if (depth > 1) walk(claimed(next), policy, depth - 1, ends)
  }
}

function claimed(delivery: Pending): Processing {
  const { dueAt: _, ...rest } = delivery
  return { ...rest, status: 'processing', version: delivery.version + 1, leaseEndsAt: now + 30_000 }
}

describe('every sequence of outcomes ends as it must, or goes on with the right delay', () => {
  for (const name of presetNames) {
    const policy = presets[name]
    const depth = Math.min(policy.maxAttempts ?? 5, 5) + 1
    test(`${name}, all sequences of up to ${depth} tries`, () => {
      const ends = new Map<string, number>()
      walk(fresh, policy, depth, ends)
      assert.ok(ends.get('delivered')! > 0 && ends.get('gone')! > 0 && ends.get('pending')! > 0)
      assert.equal(ends.has('exhausted'), policy.maxAttempts !== null && policy.maxAttempts <= depth)
    })
  }
})

for (const name of presetNames) {
  const { maxAttempts } = presets[name]
  if (maxAttempts === null) continue
  test(`${name} fails after exactly ${maxAttempts} tries`, () => {
    let delivery: Delivery = fresh
    let tries = 0
    while (delivery.status === 'processing') {
      const next = afterAttempt(delivery, down, {
        policy: presets[name],
        random: 0.5,
        now,
        ages: { now, correction: null },
        probe: false,
      })
      tries += 1
      delivery = next.status === 'pending' ? claimed(next) : next
    }
    assert.equal(tries, maxAttempts)
    // S0: status = 'failed' AND attempts >= MAX_ATTEMPTS
    assert.ok(delivery.status === 'failed' && delivery.attempts >= maxAttempts)
  })
}
