import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import { Lines } from '../../src/engines/worker-lines.ts'

function linesOf(...chunks: readonly (string | Buffer)[]): readonly string[] {
  const told: string[] = []
  const lines = new Lines((line) => told.push(line))
  for (const chunk of chunks) lines.add(Buffer.from(chunk))
  lines.end()
  return told
}

describe('the lines of what a worker prints', () => {
  test('are put together from pieces, also in the middle of a character', () => {
    const bytes = Buffer.from('grün\nrot')
    assert.deepEqual(linesOf(bytes.subarray(0, 3), bytes.subarray(3, 6), bytes.subarray(6)), ['grün', 'rot'])
  })

  test('lose what is beyond their limit, and the next is whole again', () => {
    const long = 'x'.repeat(5_000)
    assert.deepEqual(linesOf(long, long, '\nnext\n'), ['x'.repeat(8_192), 'next'])
  })

  test('that are empty are left out', () => {
    assert.deepEqual(linesOf('\n\na\n\n'), ['a'])
  })
})
