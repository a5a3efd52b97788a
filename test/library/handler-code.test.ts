import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { workersOf } from '../../src/library/handler-code.ts'

test('a handler has as many workers as it says, by default as there are cores, and no more than runs at once', () => {
  const types = ['a']
  assert.equal(workersOf({ types, workers: 5, concurrency: 1 }), 5)
  assert.equal(workersOf({ types, concurrency: 1 }), 1)
  assert.equal(workersOf({ types, concurrency: 1_000 }), availableParallelism())
  assert.equal(workersOf({ types }), Math.min(availableParallelism(), 8))
})
