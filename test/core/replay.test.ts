import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  isRecovery,
  type ReplayProgress,
  recoverOnly,
  replayAfter,
  replayable,
  replayStatuses,
  settledWhenKnown,
  waitingOf,
} from '../../src/core/replay.ts'

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

test('a replay means dead letters, unless other statuses are named', () => {
  assert.deepEqual(replayable({ type: 'a' }).statuses, ['failed', 'dead_letter'])
  assert.deepEqual(replayable({ statuses: ['delivered', 'failed'] }).statuses, ['delivered', 'failed'])
})

test('a replay never means what is still under way', () => {
  assert.deepEqual(replayable({ statuses: ['pending', 'processing', 'dead_letter'] }).statuses, ['dead_letter'])
})

test('a replay leaves out what was cancelled or whose endpoint was deleted, unless asked for by reason', () => {
  assert.deepEqual(replayable({}).exceptReasons, ['cancelled', 'endpoint_deleted'])
  assert.deepEqual(replayable({ reason: 'cancelled' }), { reason: 'cancelled', statuses: ['failed', 'dead_letter'] })
})

test('only a job for what is missing, or for all, makes deliveries', () => {
  const recovers = recoverOnly.filter((only) => isRecovery({ kind: 'recover', endpointId: 'ep_1', since: 0, only }))
  assert.deepEqual(recovers, ['missing', 'all'])
  assert.equal(isRecovery({ kind: 'deliveries', filter: {} }), false)
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
