import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replayAfter, replayStatuses } from '../../src/core/replay.ts'

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
