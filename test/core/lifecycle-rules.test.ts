import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plausibleSince } from '../../src/core/clock.ts'
import { deliveryStatuses, newborn } from '../../src/core/delivery.ts'
import {
  birthOf,
  born,
  bornAt,
  bornBackfilled,
  claimed,
  dueAfterInterruption,
  interruptionsAfter,
  keepsInterruptions,
  pulledBack,
} from '../../src/core/lifecycle.ts'

const receivedAt = Date.UTC(2026, 0, 1)

test('a delivery is born in hand when it is wanted and is the head, and failed when its endpoint is gone', () => {
  const at = { receivedAt: 5, dueAt: 6 }
  const table = [false, true].flatMap((isEndpointGone) =>
    [false, true].flatMap((isBehind) =>
      [null, 9].map((leaseEndsAt) => [
        isEndpointGone,
        isBehind,
        leaseEndsAt,
        birthOf({ ...at, isEndpointGone, isBehind, leaseEndsAt }),
      ]),
    ),
  )
  const gone = { status: 'failed', reason: 'endpoint_deleted', settledAt: 5 }
  assert.deepEqual(table, [
    [false, false, null, { status: 'pending', dueAt: 6 }],
    [false, false, 9, { status: 'processing', leaseEndsAt: 9 }],
    [false, true, null, { status: 'pending', dueAt: null }],
    [false, true, 9, { status: 'pending', dueAt: null }],
    [true, false, null, gone],
    [true, false, 9, gone],
    [true, true, null, gone],
    [true, true, 9, gone],
  ])
})

test('a delivery that is born is as all newborn are, but for its birth', () => {
  const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt })
  assert.deepEqual(born(facts, { status: 'processing', leaseEndsAt: 9 }), {
    ...facts,
    status: 'processing',
    leaseEndsAt: 9,
  })
})

test('what a recovery makes is due now unless it waits behind others, and its age counts from now', () => {
  const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: 'all', receivedAt })
  const made = { ...facts, status: 'pending', replayedAt: 9 }
  assert.deepEqual(bornBackfilled(facts, false, 9), { ...made, dueAt: 9 })
  assert.deepEqual(bornBackfilled(facts, true, 9), { ...made, dueAt: null })
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

test('a due time beyond its limit is pulled back, after a failure with its retry', () => {
  const limits = { latestDueAt: 20, untriedDueAt: 10 }
  type Times = Readonly<{ dueAt: number; retryAfter: number | null }>
  const table: readonly (readonly [dueAt: number, retryAfter: number | null, Times | null])[] = [
    [10, null, null],
    [11, null, { dueAt: 10, retryAfter: null }],
    [20, 20, null],
    [21, 21, { dueAt: 20, retryAfter: 20 }],
    // Due later than its failure said: it was given back untried.
    [21, 15, { dueAt: 20, retryAfter: 15 }],
    [15, 99, null],
  ]
  for (const [dueAt, retryAfter, after] of table) assert.deepEqual(pulledBack(dueAt, retryAfter, limits), after)
})

test('the age begins at receipt or at the last replay, and is unknown when the clock was wrong', () => {
  assert.equal(bornAt(receivedAt, null, null), receivedAt)
  assert.equal(bornAt(receivedAt, receivedAt + 5, null), receivedAt + 5)
  assert.equal(bornAt(receivedAt, receivedAt - 5, null), receivedAt)
  assert.equal(bornAt(plausibleSince - 1, null, null), null)
  assert.equal(bornAt(plausibleSince - 1, receivedAt, null), receivedAt)
  assert.equal(bornAt(10, null, { from: 0, to: 20, byMs: receivedAt }), receivedAt + 10)
})
