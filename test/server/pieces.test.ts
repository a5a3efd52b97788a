import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import fc from 'fast-check'
import { Pieces } from '../../src/server/pieces.ts'

test('gives back what was put in, however it was cut', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 20 }), (cuts) => {
      const pieces = new Pieces()
      for (const bytes of cuts) pieces.add(Buffer.from(bytes))
      assert.deepEqual(pieces.whole(), Buffer.concat(cuts))
      pieces.drop()
      assert.equal(pieces.whole().length, 0)
    }),
  )
})

test('a body that comes byte by byte is held in few buffers', () => {
  const pieces = new Pieces()
  for (let i = 0; i < 1_048_576; i++) pieces.add(Buffer.alloc(1, i))
  assert.ok(pieces.count <= 300, `${pieces.count} buffers`)
  assert.equal(pieces.whole().length, 1_048_576)
})
