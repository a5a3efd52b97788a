import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  areApart,
  corrected,
  correctedMsMin,
  type Reckoning,
  reckoning,
  type Skew,
  skewAfter,
} from '../../src/core/clock.ts'

const dayMs = 86_400_000

test('the clocks are apart when they disagree by more than an hour, in either direction', () => {
  const hourMs = 3_600_000
  const at = (skewMs: number) => ({ monotonic: () => 1_000_000_000, wall: () => 1_000_000_000 + skewMs })
  for (const skewMs of [0, 1, hourMs, -hourMs]) assert.equal(areApart(at(skewMs)), false, String(skewMs))
  for (const skewMs of [hourMs + 1, -hourMs - 1, 1e12]) assert.equal(areApart(at(skewMs)), true, String(skewMs))
})

const startedAt = Date.UTC(2026, 0, 1)
const minuteMs = 60_000

/** How far the wall clock is ahead, look by look, ten minutes apart; what ages are measured by at the last look. */
const corrections: readonly (readonly [string, readonly number[], 'monotonic' | 'wall' | null])[] = [
  ['nobody has set it', [0, 0], 'monotonic'],
  ['it goes a little wrong', [0, minuteMs], 'monotonic'],
  ['it was just set', [0, dayMs], null],
  ['it was set, and goes on from there', [0, dayMs, dayMs], 'wall'],
  ['it drifts by seconds meanwhile', [0, dayMs, dayMs + 2_000], 'wall'],
  ['it is set once more', [0, dayMs, 2 * dayMs], null],
  ['it was set back, and goes on from there', [0, -dayMs, -dayMs], 'wall'],
  ['it was set, and set right again', [0, dayMs, dayMs, 0], 'monotonic'],
  ['it shows 1970, and goes on from there', [0, -startedAt, -startedAt], null],
]

for (const [name, aheads, expected] of corrections) {
  test(`what ages are measured by when the wall clock is set: ${name}`, () => {
    let skew: Skew | null = null
    let ages: Reckoning | null = null
    aheads.forEach((aheadMs, look) => {
      const monotonic = startedAt + look * correctedMsMin
      const clock = { monotonic: () => monotonic, wall: () => monotonic + aheadMs }
      skew = skewAfter(skew, clock)
      ages = reckoning(skew, clock, startedAt)
    })
    const monotonic = startedAt + (aheads.length - 1) * correctedMsMin
    const wall = monotonic + (aheads.at(-1) ?? 0)
    const now = (ages as Reckoning | null)?.now ?? null
    assert.equal(now, expected === null ? null : expected === 'wall' ? wall : Math.min(wall, monotonic))
  })
}

test('what was written by a clock that was behind is as much younger as that; nothing else is', () => {
  const clock = { monotonic: () => startedAt + 5_000, wall: () => startedAt + 5_000 + dayMs }
  const ages = reckoning({ aheadMs: dayMs, since: startedAt - correctedMsMin }, clock, startedAt)
  const at = (instant: number) => corrected(instant, ages?.correction ?? null) - instant
  assert.deepEqual([startedAt - 1, startedAt, startedAt + 5_000, startedAt + 5_001].map(at), [0, dayMs, dayMs, 0])
})

test('what was written by a clock that was ahead is not made older', () => {
  const clock = { monotonic: () => startedAt + 5_000, wall: () => startedAt + 5_000 - dayMs }
  const ages = reckoning({ aheadMs: -dayMs, since: startedAt - correctedMsMin }, clock, startedAt)
  assert.deepEqual(ages, { now: startedAt + 5_000 - dayMs, correction: null })
})
