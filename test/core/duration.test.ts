import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { durationMsMax, formatDuration, parseDuration } from '../../src/core/duration.ts'

test('reads every unit, fractions, and milliseconds when no unit is named', () => {
  const readings: [string | number, number][] = [
    ['250ms', 250],
    ['5s', 5_000],
    ['1m', 60_000],
    ['1.5h', 5_400_000],
    ['7d', 604_800_000],
    ['2w', 1_209_600_000],
    ['2.3s', 2_300],
    ['0s', 0],
    ['0', 0],
    ['300', 300],
    [300, 300],
    [0, 0],
    ['366d', durationMsMax],
    [durationMsMax, durationMsMax],
  ]
  for (const [input, ms] of readings) assert.equal(parseDuration(input), ms, String(input))
  assert.ok(Object.is(parseDuration(-0), 0))
})

test('refuses what is not a duration', () => {
  const refused = [
    ...['', ' ', 's', '5 s', ' 5s', '5s ', '-5s', '+5s', '5S', '5x', '5sec', '1h30m', '.5s', '5.s', '1.5', '1e3'],
    ...['1e3s', '0x10', 'NaN', 'Infinity', '٥s', '367d', '53w', '99999999999999999999w', `${'9'.repeat(400)}s`],
  ]
  for (const text of refused) assert.equal(parseDuration(text), null, JSON.stringify(text))
  const numbers = [-1, -0.1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, durationMsMax + 1]
  for (const number of numbers) assert.equal(parseDuration(number), null, String(number))
})

test('writes the largest exact unit', () => {
  const writings: [number, string][] = [
    [0, '0s'],
    [1, '1ms'],
    [1_500, '1500ms'],
    [60_000, '1m'],
    [90_000, '90s'],
    [3_600_000, '1h'],
    [5_400_000, '90m'],
    [86_400_000, '1d'],
    [14 * 86_400_000, '14d'],
  ]
  for (const [ms, text] of writings) assert.equal(formatDuration(ms), text)
})

test('reads back what it wrote, for every duration', () => {
  const unit = fc.constantFrom(1, 1_000, 60_000, 3_600_000, 86_400_000)
  const anyMs = fc.tuple(fc.nat({ max: 10_000 }), unit).map(([count, ms]) => Math.min(count * ms, durationMsMax))
  fc.assert(
    fc.property(fc.oneof(anyMs, fc.integer({ min: 0, max: durationMsMax })), (ms) => {
      assert.equal(parseDuration(formatDuration(ms)), ms)
    }),
  )
})

test('is a whole number of milliseconds within the limit, or null, whatever the input', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.double(), fc.stringMatching(/^\d{1,9}(\.\d{1,9})?(ms|s|m|h|d|w)$/)),
      (input) => {
        const ms = parseDuration(input)
        assert.ok(ms === null || (Number.isInteger(ms) && ms >= 0 && ms <= durationMsMax))
      },
    ),
  )
})
