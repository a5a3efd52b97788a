import assert from 'node:assert/strict'
import { test } from 'node:test'
import { laneOf } from '../../src/core/lanes.ts'

test('unordered endpoints have no lanes', () => {
  assert.equal(laneOf('none', 'order-1'), null)
  assert.equal(laneOf('none', null), null)
})

test('ordering by key gives each key its lane and leaves events without a key unordered', () => {
  assert.equal(laneOf('key', null), null)
  assert.equal(laneOf('key', 'a'), laneOf('key', 'a'))
  assert.notEqual(laneOf('key', 'a'), laneOf('key', 'b'))
  assert.notEqual(laneOf('key', ''), null)
})

test('ordering by endpoint puts everything in one lane, which no key can name', () => {
  const lane = laneOf('endpoint', null)
  assert.notEqual(lane, null)
  assert.equal(laneOf('endpoint', 'a'), lane)
  assert.notEqual(laneOf('key', 'all'), lane)
})
