import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatId, type IdPrefix, numberAfter, numberOf } from '../../src/core/id.ts'

const prefix = fc.constantFrom<IdPrefix>('evt', 'dlv', 'ep', 'req')
const anyNumber = fc.maxSafeNat()
const randomBytes = fc.uint8Array({ minLength: 12, maxLength: 12 })
const now = Date.UTC(2026, 6, 26)

test('numbers grow, also when the clock stands still or goes back', () => {
  const clock = fc.array(fc.integer({ min: -400 * 86_400_000, max: 86_400_000 }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(clock, (offsets) => {
      let last = 0
      for (const offset of offsets) {
        const next = numberAfter(last, now + offset)
        assert.ok(Number.isSafeInteger(next) && next > last)
        last = next
      }
    }),
  )
  assert.ok(numberAfter(0, 0) > 0)
})

test('a clock in 2106 makes ids that still grow and can be read', () => {
  const far = Date.UTC(2106, 5, 1)
  const first = numberAfter(numberAfter(0, now), far)
  const second = numberAfter(first, far + 1)
  assert.ok(second > first)
  for (const number of [first, second])
    assert.equal(numberOf('evt', formatId('evt', number, new Uint8Array(12))), number)
})

test('numbers catch up with the clock, so that processes agree on age', () => {
  const early = numberAfter(0, now)
  assert.ok(numberAfter(early, now + 1) > early + 1)
  assert.equal(numberAfter(early, now), early + 1)
  assert.equal(numberAfter(0, now + 1), numberAfter(early, now + 1))
})

test('the number comes back out of the id', () => {
  fc.assert(
    fc.property(prefix, anyNumber, randomBytes, (name, number, random) => {
      const id = formatId(name, number, random)
      assert.equal(numberOf(name, id), number)
      assert.match(id, /^[a-z]+_[0-9a-hjkmnp-tv-z]{23}$/)
    }),
  )
})

test('ids sort as their numbers do', () => {
  fc.assert(
    fc.property(anyNumber, anyNumber, randomBytes, randomBytes, (a, b, randomA, randomB) => {
      fc.pre(a !== b)
      assert.equal(formatId('evt', a, randomA) < formatId('evt', b, randomB), a < b)
    }),
  )
})

test('all sixty random bits are in the id', () => {
  const zeros = formatId('evt', 1, new Uint8Array(12))
  for (let byte = 0; byte < 12; byte++) {
    for (let bit = 0; bit < 5; bit++) {
      const random = new Uint8Array(12)
      random[byte] = 1 << bit
      assert.notEqual(formatId('evt', 1, random), zeros)
    }
  }
})

test('what is no id has no number', () => {
  const id = formatId('evt', 42, new Uint8Array(12))
  const wrong = ['', 'evt_', id.slice(1), `${id}0`, id.slice(0, -1), id.toUpperCase(), id.replace('_', '-')]
  wrong.push(`${id.slice(0, -1)}u`, `${id.slice(0, -1)}-`, `evt_${'z'.repeat(23)}`, `dlv${id.slice(3)}`)
  for (const text of wrong) assert.equal(numberOf('evt', text), null, text)
  assert.equal(numberOf('dlv', id), null)
  fc.assert(
    fc.property(fc.string(), (text) => {
      assert.ok(text === id || numberOf('evt', text) === null)
    }),
  )
})
