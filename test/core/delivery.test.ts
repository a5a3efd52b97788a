import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliveryStatuses, isSettled, newborn } from '../../src/core/delivery.ts'

test("a status is always the seeds' word", () => {
  assert.deepEqual(deliveryStatuses, ['pending', 'processing', 'delivered', 'failed', 'dead_letter'])
})

test('what is settled waits for nothing more', () => {
  assert.deepEqual(deliveryStatuses.filter(isSettled), ['delivered', 'failed', 'dead_letter'])
})

test('a newborn delivery has spent nothing and failed never', () => {
  const given = { id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt: 5 }
  const nothing = { retryAfter: null, lastError: null, lastAttemptAt: null, replayedAt: null }
  assert.deepEqual(newborn(given), { ...given, attempts: 0, triesInBudget: 0, version: 1, ...nothing })
})
