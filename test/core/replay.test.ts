import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRecovery, recoverOnly, replayAfter, replayable, replayStatuses } from '../../src/core/replay.ts'

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
