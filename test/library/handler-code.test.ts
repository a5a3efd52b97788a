import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { workersOf } from '../../src/library/handler-code.ts'

test('a handler has as many workers as it says, by default as there are cores, and no more than runs at once', () => {
  assert.equal(workersOf({ workers: 5, concurrency: 1 }), 5)
  assert.equal(workersOf({ concurrency: 1 }), 1)
  assert.equal(workersOf({ concurrency: 1_000 }), availableParallelism())
  assert.equal(workersOf({}), Math.min(availableParallelism(), 8))
})
