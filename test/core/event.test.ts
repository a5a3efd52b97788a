import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dataOf } from '../../src/core/event.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

test("cuts the sender's data out of the envelope, byte for byte", () => {
  const head = '{"type":"a","timestamp":"2026-07-26T12:00:00.000Z","data":'
  const data = '{"id":12345678901234567890,"price":1.0}'
  const body = bytes(`${head}${data}}`)
  assert.deepEqual(dataOf({ body, dataOffset: head.length }), bytes(data))
})

test('is the whole body when there is no envelope', () => {
  const body = bytes('raw')
  assert.equal(dataOf({ body, dataOffset: null }), body)
})
