import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plausibleSince } from '../../src/core/clock.ts'
import { deliveryStatuses, newborn } from '../../src/core/delivery.ts'
import {
  bornAt,
  claimed,
  dueAfterInterruption,
  interruptionsAfter,
  keepsInterruptions,
  statusAtBirth,
} from '../../src/core/lifecycle.ts'

const receivedAt = Date.UTC(2026, 0, 1)

test('a delivery is born in hand when it is wanted and is the head, and failed when its endpoint is gone', () => {
  const table = [false, true].flatMap((isEndpointGone) =>
    [false, true].flatMap((isBehind) =>
      [false, true].map((isWanted) => [
        isEndpointGone,
        isBehind,
        isWanted,
        statusAtBirth(isEndpointGone, isBehind, isWanted),
      ]),
    ),
  )
  assert.deepEqual(table, [
    [false, false, false, 'pending'],
    [false, false, true, 'processing'],
    [false, true, false, 'pending'],
    [false, true, true, 'pending'],
    [true, false, false, 'failed'],
    [true, false, true, 'failed'],
    [true, true, false, 'failed'],
    [true, true, true, 'failed'],
  ])
})

test('a claim takes a delivery under a lease and with a new version', () => {
  const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt })
  assert.deepEqual(claimed(facts, 9), { ...facts, version: 2, status: 'processing', leaseEndsAt: 9 })
})

test('a lease that ended without an outcome is counted, until a try comes back or the delivery ends', () => {
  assert.deepEqual([interruptionsAfter(2, false), interruptionsAfter(2, true)], [2, 3])
  const table = deliveryStatuses.map((status) => [
    status,
    keepsInterruptions(status, false),
    keepsInterruptions(status, true),
  ])
  assert.deepEqual(table, [
    ['pending', true, false],
    ['processing', false, false],
    ['delivered', false, false],
    ['failed', false, false],
    ['dead_letter', false, false],
  ])
})

test('what was in hand when its owner ended is due as it was before the claim', () => {
  assert.equal(dueAfterInterruption(1, null, null), 1)
  assert.equal(dueAfterInterruption(1, 2, null), 2)
  assert.equal(dueAfterInterruption(1, 2, 3), 3)
  assert.equal(dueAfterInterruption(1, null, 3), 3)
})

test('the age begins at receipt or at the last replay, and is unknown when the clock was wrong', () => {
  assert.equal(bornAt(receivedAt, null, null), receivedAt)
  assert.equal(bornAt(receivedAt, receivedAt + 5, null), receivedAt + 5)
  assert.equal(bornAt(receivedAt, receivedAt - 5, null), receivedAt)
  assert.equal(bornAt(plausibleSince - 1, null, null), null)
  assert.equal(bornAt(plausibleSince - 1, receivedAt, null), receivedAt)
  assert.equal(bornAt(10, null, { from: 0, to: 20, byMs: receivedAt }), receivedAt + 10)
})
