import assert from 'node:assert/strict'
import { test } from 'node:test'
import { areApart } from '../../src/core/clock.ts'

test('the clocks are apart when they disagree by more than an hour, in either direction', () => {
  const hourMs = 3_600_000
  const at = (skewMs: number) => ({ steady: () => 1_000_000_000, wall: () => 1_000_000_000 + skewMs })
  for (const skewMs of [0, 1, hourMs, -hourMs]) assert.equal(areApart(at(skewMs)), false, String(skewMs))
  for (const skewMs of [hourMs + 1, -hourMs - 1, 1e12]) assert.equal(areApart(at(skewMs)), true, String(skewMs))
})
