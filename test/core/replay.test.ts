import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ReplayProgress, replayAfter, replayStatuses, settledWhenKnown, waitingOf } from '../../src/core/replay.ts'

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
