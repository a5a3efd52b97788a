import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecentCounts } from '../../src/upkeep/recent.ts'

function scene() {
  let now = 1_000_500
  const recent = new RecentCounts({ bucketMs: 1_000, buckets: 3 }, () => now)
  return {
    recent,
    pass: (ms: number) => {
      now += ms
    },
  }
}

test('counts by name, and forgets what is older than the window', () => {
  const { recent, pass } = scene()
  recent.of('a').attempts += 2
  pass(1_000)
  recent.of('a').attempts += 1
  recent.of('b').delivered += 1
  assert.deepEqual([recent.sum('a').attempts, recent.sum('b').delivered, recent.sum(null).attempts], [3, 1, 3])
  pass(1_000)
  assert.equal(recent.sum('a').attempts, 3)
  pass(1_000)
  assert.equal(recent.sum('a').attempts, 1)
  pass(1_000)
  assert.deepEqual(recent.sum('a'), { accepted: 0, delivered: 0, attempts: 0, failedAttempts: 0 })
  recent.of('a').attempts += 1
  pass(1e9)
  assert.equal(recent.sum(null).attempts, 0)
})

test('reaches back no further than its start', () => {
  const { recent, pass } = scene()
  assert.equal(recent.spanMs, 0)
  pass(700)
  assert.equal(recent.spanMs, 700)
  pass(10_000)
  // Two whole buckets, and what has passed of the third.
  assert.equal(recent.spanMs, 2_200)
})
