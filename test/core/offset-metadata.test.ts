import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeDone, encodeDone, metadataBytesMax, type OffsetRange } from '../../src/core/offset-metadata.ts'

const offset = fc.oneof(fc.nat({ max: 1_000 }), fc.constant(2 ** 52))

/** Ascending ranges above an offset, from `[not done, done]` lengths. */
const done = (most: number, lengthMax: number) =>
  fc.tuple(
    offset,
    fc.array(fc.tuple(fc.integer({ min: 1, max: lengthMax }), fc.integer({ min: 1, max: lengthMax })), {
      maxLength: most,
    }),
  )

function rangesOf(base: number, lengths: readonly (readonly [number, number])[]): readonly OffsetRange[] {
  let at = base
  return lengths.map(([open, length]) => {
    const from = at + open
    at = from + length
    return { from, to: at }
  })
}

function offsetsIn(ranges: readonly OffsetRange[]): readonly number[] {
  return ranges.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, at) => from + at))
}

test('what is written is read again, whatever is done', () => {
  fc.assert(
    fc.property(done(60, 20), ([base, lengths]) => {
      const ranges = rangesOf(base, lengths)
      assert.deepEqual(decodeDone(base, encodeDone(base, ranges)), ranges)
    }),
  )
})

test('it never takes more than the broker keeps, and leaves out only from the top', () => {
  fc.assert(
    fc.property(done(40, 300), fc.integer({ min: 0, max: 90 }), ([base, lengths], bytesMax) => {
      const ranges = rangesOf(base, lengths)
      const text = encodeDone(base, ranges, bytesMax)
      assert.ok(text.length <= bytesMax)
      const kept = offsetsIn(decodeDone(base, text))
      assert.deepEqual(kept, offsetsIn(ranges).slice(0, kept.length))
    }),
  )
})

test('it tells what a window of tens of thousands needs, in few bytes where little is open', () => {
  const base = 5_000_000_000
  const oneOpen = [{ from: base + 1, to: base + 1_000_000 }]
  assert.ok(encodeDone(base, oneOpen).length < 30)
  assert.deepEqual(decodeDone(base, encodeDone(base, oneOpen)), oneOpen)
  const everySecond = Array.from({ length: 12_000 }, (_, at) => ({ from: base + 2 * at + 1, to: base + 2 * at + 2 }))
  assert.deepEqual(decodeDone(base, encodeDone(base, everySecond)), everySecond)
  const tooMany = Array.from({ length: 100_000 }, (_, at) => ({ from: base + 2 * at + 1, to: base + 2 * at + 2 }))
  const cut = encodeDone(base, tooMany)
  assert.ok(cut.length <= metadataBytesMax && cut.length > metadataBytesMax - 40)
  assert.deepEqual(decodeDone(base, cut), tooMany.slice(0, decodeDone(base, cut).length))
})

test('where both are cut, it keeps what tells more', () => {
  // 30 bytes are 120 bits, or a few of these ranges, each a thousand long.
  const ranges = Array.from({ length: 20 }, (_, at) => ({ from: 2_000 * at + 1, to: 2_000 * at + 1_001 }))
  const kept = decodeDone(0, encodeDone(0, ranges, 60))
  assert.ok(kept.length >= 5)
  assert.deepEqual(kept, ranges.slice(0, kept.length))
})

test('metadata of others says nothing', () => {
  const mine = encodeDone(7, [{ from: 9, to: 12 }])
  assert.deepEqual(decodeDone(7, mine), [{ from: 9, to: 12 }])
  const [magic, kind, base, text] = mine.split('.')
  const others = [
    null,
    '',
    'AgAHMTIzNDU2Nw==',
    `ph2.${kind}.${base}.${text}`,
    `${magic}.x.${base}.${text}`,
    `${mine}.more`,
    `${magic}.${kind}.${base}`,
    `${magic}.r.${base}.not base64!`,
    // A number that does not end, a length without its partner, and lengths beyond all offsets.
    `${magic}.r.${base}.${btoa('\x81')}`,
    `${magic}.r.${base}.${btoa('\x01')}`,
    `${magic}.r.${base}.${btoa(`\x01${'\xff'.repeat(9)}\x01`)}`,
  ]
  for (const metadata of others) assert.deepEqual(decodeDone(7, metadata), [], String(metadata))
  // As when a tool that mirrors topics copies it.
  assert.deepEqual(decodeDone(6, mine), [])
  fc.assert(fc.property(fc.string(), (text) => assert.deepEqual(decodeDone(7, text), [])))
})

test('nothing done is no text', () => {
  assert.equal(encodeDone(7, []), '')
  assert.equal(encodeDone(7, [{ from: 9, to: 12 }], 10), '')
})
