import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { hmac } from '../src/hmac.ts'

const scheme = fc.record({
  algorithm: fc.constantFrom('sha1', 'sha256', 'sha512'),
  encoding: fc.constantFrom('hex', 'base64'),
})
const halfOfPair = fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => String.fromCharCode(unit))
/** Text with characters of every width, halves of pairs included. */
const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.string({ unit: halfOfPair, maxLength: 30 }))
const part = fc.oneof(text, fc.uint8Array({ maxLength: 300 }))
const atTheEdge = [0, 63, 64, 65, 127, 128, 129].map((length) => 'k'.repeat(length))
const key = fc.oneof(part, fc.constantFrom(...atTheEdge))

describe('an HMAC', () => {
  it('is what node:crypto says, whatever the key and the parts', () => {
    const property = fc.property(scheme, key, fc.array(part, { maxLength: 4 }), (given, secret, parts) => {
      assert.equal(hmac(given, secret, ...parts), expected(given, secret, parts))
    })
    fc.assert(property, { numRuns: 1_000 })
  })

  it('is the same on both sides of the length where the way changes', () => {
    const given = { algorithm: 'sha256', encoding: 'hex' } as const
    for (const length of [0, 16_383, 16_384, 16_385, 100_000]) {
      const body = new Uint8Array(length).fill(0xab)
      assert.equal(hmac(given, 'secret', body), expected(given, 'secret', [body]), `of ${length} bytes`)
      const letters = 'ä'.repeat(length)
      assert.equal(hmac(given, 'secret', letters), expected(given, 'secret', [letters]), `of ${length} letters`)
    }
  })
})

type Given = Parameters<typeof hmac>

function expected({ algorithm, encoding }: Given[0], secret: Given[1], parts: readonly Given[1][]): string {
  const made = createHmac(algorithm, secret)
  for (const piece of parts) made.update(piece)
  return made.digest(encoding)
}
