import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventKeptUntil, keptUntil } from '../../src/core/retention.ts'

const day = 86_400_000
const t0 = Date.UTC(2026, 0, 1)
const retention = { deliveredMs: 7 * day, failedMs: 7 * day, deadLetterMs: 14 * day, eventMs: 7 * day }

test('what was delivered or failed is kept from its end, a dead letter from its receipt', () => {
  const ended = { receivedAt: t0, settledAt: t0 + day }
  assert.equal(keptUntil({ status: 'delivered', ...ended }, retention), t0 + 8 * day)
  assert.equal(keptUntil({ status: 'failed', ...ended }, retention), t0 + 8 * day)
  assert.equal(keptUntil({ status: 'dead_letter', ...ended }, retention), t0 + 14 * day)
})

test('a dead letter is kept for a while after it became one, however old it was', () => {
  assert.equal(keptUntil({ status: 'dead_letter', receivedAt: t0, settledAt: t0 + 30 * day }, retention), t0 + 37 * day)
})

test('what has not ended is kept for ever', () => {
  for (const status of ['pending', 'processing'] as const) {
    assert.equal(keptUntil({ status, receivedAt: 0, settledAt: null }, retention), null)
    assert.equal(keptUntil({ status, receivedAt: 0, settledAt: 0 }, retention), null)
  }
})

test('what ended while the machine did not know the time is not taken for old', () => {
  for (const status of ['delivered', 'failed', 'dead_letter'] as const) {
    assert.equal(keptUntil({ status, receivedAt: 5_000, settledAt: 9_000 }, retention), Number.POSITIVE_INFINITY)
  }
})

test('an event that went to nobody is kept from its receipt, and for ever when nobody knows that instant', () => {
  assert.equal(eventKeptUntil(t0, retention), t0 + 7 * day)
  assert.equal(eventKeptUntil(5_000, retention), Number.POSITIVE_INFINITY)
})
