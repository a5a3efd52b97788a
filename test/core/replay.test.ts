import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliveryStatuses } from '../../src/core/delivery.ts'
import {
  blockedBecause,
  linkEffect,
  mayPruneReplay,
  type ReplayProgress,
  type ReplayState,
  replayAfter,
  replayCounted,
  replayMoved,
  replayStatuses,
  replayStepped,
  settledWhenKnown,
  stepWithoutEndpoint,
  waitingOf,
} from '../../src/core/replay.ts'

const running: ReplayState = {
  status: 'running',
  requeued: 3,
  delivered: 1,
  failedAgain: 1,
  skipped: 2,
  updatedAt: 5,
  endedAt: null,
  settledAt: null,
}

test('a replay can be paused, resumed and cancelled until it has ended', () => {
  const table = replayStatuses.map((status) => [
    status,
    replayAfter(status, 'pause'),
    replayAfter(status, 'resume'),
    replayAfter(status, 'cancel'),
  ])
  assert.deepEqual(table, [
    ['running', 'paused', null, 'cancelled'],
    ['paused', null, 'running', 'cancelled'],
    ['finished', null, null, null],
    ['settled', null, null, null],
    ['cancelled', null, null, null],
  ])
})

test('what is requeued waits until it is delivered or a dead letter again', () => {
  assert.equal(waitingOf({ requeued: 5, delivered: 2, failedAgain: 1 }), 2)
  assert.equal(waitingOf({ requeued: 5, delivered: null, failedAgain: null }), null)
})

test('a replay that has ended is settled by its last outcome, and a cancelled one stays cancelled', () => {
  const ended = { requeued: 3, delivered: 2, failedAgain: 1, endedAt: 5, settledAt: null } as const
  const after = (given: Partial<ReplayProgress>) => settledWhenKnown({ status: 'finished', ...ended, ...given }, 9)
  const facts = ({ status, settledAt }: ReplayProgress) => [status, settledAt]
  assert.deepEqual(facts(after({})), ['settled', 9])
  assert.deepEqual(facts(after({ status: 'cancelled' })), ['cancelled', 9])
  assert.deepEqual(facts(after({ delivered: 1 })), ['finished', null])
  assert.deepEqual(facts(after({ status: 'running', endedAt: null })), ['running', null])
  assert.deepEqual(facts(after({ status: 'settled', settledAt: 7 })), ['settled', 7])
  assert.deepEqual(facts(after({ delivered: null, failedAgain: null })), ['finished', null])
})

test('a job ends when it is finished or cancelled, and is not ended otherwise', () => {
  const table = replayStatuses.map((to) => {
    const { status, updatedAt, endedAt, settledAt } = replayMoved(running, { from: 'running', to }, 9)!
    return [status, updatedAt, endedAt, settledAt]
  })
  assert.deepEqual(table, [
    ['running', 9, null, null],
    ['paused', 9, null, null],
    ['finished', 9, 9, null],
    ['settled', 9, null, null],
    ['cancelled', 9, 9, null],
  ])
})

test('a job that has another status by now stays as it is', () => {
  assert.equal(replayMoved(running, { from: 'paused', to: 'running' }, 9), null)
})

test('a job that is cancelled when no outcome is missing is settled at once', () => {
  const known = { ...running, delivered: 2 }
  const cancelled = { ...known, status: 'cancelled', updatedAt: 9, endedAt: 9, settledAt: 9 }
  assert.deepEqual(replayMoved(known, { from: 'running', to: 'cancelled' }, 9), cancelled)
})

test('a step is counted, and the one that leaves nothing finishes the job', () => {
  const stepped = { ...running, requeued: 7, skipped: 3, updatedAt: 9 }
  assert.deepEqual(replayStepped(running, { requeued: 4, skipped: 1, exhausted: false }, 9), stepped)
  const last = replayStepped(running, { requeued: 4, skipped: 1, exhausted: true }, 9)
  assert.deepEqual(last, { ...stepped, status: 'finished', endedAt: 9 })
  const nothing = replayStepped({ ...running, delivered: 2 }, { requeued: 0, skipped: 0, exhausted: true }, 9)
  assert.deepEqual([nothing.status, nothing.endedAt, nothing.settledAt], ['settled', 9, 9])
})

test('a recovery without its endpoint skips all that is left', () => {
  const table: readonly (readonly [matched: number, requeued: number, skipped: number, left: number])[] = [
    [10, 3, 2, 5],
    [5, 3, 2, 0],
    // Counted on the side: a few more than were matched.
    [4, 3, 2, 0],
  ]
  for (const [matched, requeued, skipped, left] of table) {
    const done = stepWithoutEndpoint({ matched, requeued, skipped })
    assert.deepEqual(done, { requeued: 0, skipped: left, exhausted: true })
  }
})

test('outcomes are counted, the last one settles a job that has ended, and time does not go back', () => {
  const counted = replayCounted(running, { delivered: 1, failedAgain: 0, at: 4 })
  assert.deepEqual(counted, { ...running, delivered: 2, updatedAt: 5 })
  const finished: ReplayState = { ...running, status: 'finished', endedAt: 6 }
  const settled = replayCounted(finished, { delivered: 0, failedAgain: 1, at: 9 })
  assert.deepEqual(settled, { ...finished, status: 'settled', failedAgain: 2, updatedAt: 9, settledAt: 9 })
  const uncounted = replayCounted(
    { ...finished, delivered: null, failedAgain: null },
    { delivered: 1, failedAgain: 1, at: 9 },
  )
  assert.deepEqual(uncounted, { ...finished, delivered: null, failedAgain: null, updatedAt: 9 })
})

test('a job may be deleted when it ended long enough ago and no outcome is missing', () => {
  const settled: ReplayState = { ...running, status: 'settled', delivered: 2, endedAt: 5, settledAt: 8 }
  assert.deepEqual([mayPruneReplay(settled, 8), mayPruneReplay(settled, 9)], [false, true])
  const waiting: ReplayState = { ...running, status: 'finished', endedAt: 5 }
  assert.equal(mayPruneReplay(waiting, 99), false)
  const uncounted: ReplayState = { ...waiting, delivered: null, failedAgain: null }
  assert.deepEqual([mayPruneReplay(uncounted, 5), mayPruneReplay(uncounted, 6)], [false, true])
  assert.equal(mayPruneReplay({ ...running, delivered: 2 }, 99), false, 'it still runs')
})

test('of a requeued delivery the first end counts, and the next requeue drops the link', () => {
  const table = deliveryStatuses.map((before) => [
    before,
    ...deliveryStatuses.map((after) => linkEffect(before, after)),
  ])
  assert.deepEqual(table, [
    ['pending', 'none', 'none', 'delivered', 'failedAgain', 'failedAgain'],
    ['processing', 'none', 'none', 'delivered', 'failedAgain', 'failedAgain'],
    ['delivered', 'dropped', 'dropped', 'none', 'none', 'none'],
    ['failed', 'dropped', 'dropped', 'none', 'none', 'none'],
    ['dead_letter', 'dropped', 'dropped', 'none', 'none', 'none'],
  ])
})

test('what is requeued waits at an endpoint that is not active, and behind a breaker that is not closed', () => {
  const breaker = { threshold: 5, cooldownMs: 1_000, whenOpen: 'park' } as const
  assert.equal(blockedBecause({ status: 'active', breaker }, 'closed'), null)
  assert.equal(blockedBecause({ status: 'active', breaker }, 'open'), 'breaker_open')
  assert.equal(blockedBecause({ status: 'active', breaker }, 'half_open'), 'breaker_open')
  assert.equal(blockedBecause({ status: 'active', breaker: null }, 'open'), null)
  assert.equal(blockedBecause({ status: 'paused', breaker }, 'open'), 'paused')
  assert.equal(blockedBecause({ status: 'disabled', breaker: null }, 'closed'), 'disabled')
})
