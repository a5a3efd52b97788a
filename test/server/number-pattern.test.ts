import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseDuration } from '../../src/core/duration.ts'
import { durationPattern, wholeNumberPattern } from '../../src/server/number-pattern.ts'

test('a pattern of whole numbers matches those of its range and no others', () => {
  const number = fc.oneof(fc.nat(30), fc.nat(2_000), fc.nat(1_000_000))
  fc.assert(
    fc.property(number, number, number, (a, b, any) => {
      const [min, max] = [Math.min(a, b), Math.max(a, b)]
      const pattern = new RegExp(`^(?:${wholeNumberPattern(min, max)})$`)
      for (const tried of [any, min - 1, min, min + 1, max - 1, max, max + 1]) {
        assert.equal(pattern.test(String(tried)), tried >= min && tried <= max, `${tried} in ${min}..${max}`)
      }
    }),
    { numRuns: 2_000 },
  )
})

test('a pattern of durations matches what the server takes in whole units', () => {
  const unit = fc.constantFrom('ms', 's', 'm', 'h', 'd', 'w')
  fc.assert(
    fc.property(fc.nat(1e8), fc.nat(1e8), fc.nat(400_000), unit, (a, b, count, word) => {
      const [min, max] = [Math.min(a, b), Math.max(a, b)]
      const ms = parseDuration(`${count}${word}`)
      const isTaken = ms !== null && ms >= min && ms <= max
      assert.equal(new RegExp(durationPattern(min, max)).test(`${count}${word}`), isTaken)
    }),
  )
})
