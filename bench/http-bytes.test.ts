import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import { EventRequest, eventIndex, MessageReader, statusOf } from './http-bytes.ts'

const stream = Buffer.from(
  [
    'POST /a HTTP/1.1\r\nhost: x\r\nContent-Length: 5\r\n\r\nhello',
    'HTTP/1.1 202 Accepted\r\ncontent-type: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n',
    'HTTP/1.1 204 No Content\r\n\r\n',
    'POST /b HTTP/1.1\r\ncontent-length: 2\r\n\r\nok',
  ].join(''),
)

test('cuts the same messages out of a stream however it is split', () => {
  const whole = read([stream])
  assert.deepEqual(whole, [
    ['POST /a HTTP/1.1', 'hello'],
    ['HTTP/1.1 202 Accepted', '3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n'],
    ['HTTP/1.1 204 No Content', ''],
    ['POST /b HTTP/1.1', 'ok'],
  ])
  for (let at = 1; at < stream.length; at++) {
    assert.deepEqual(read([stream.subarray(0, at), stream.subarray(at)]), whole, `split at ${at}`)
  }
  const bytes = Array.from(stream, (byte) => Buffer.from([byte]))
  assert.deepEqual(read(bytes), whole)
})

test('reads the status of a response', () => {
  assert.equal(statusOf('HTTP/1.1 503 Service Unavailable\r\na: b'), 503)
  assert.equal(statusOf('POST / HTTP/1.1'), 0)
})

test('makes requests of one size with 200 bytes of data whose number can be read back', () => {
  const request = new EventRequest(new URL('http://127.0.0.1:1/v1/events'), 'bench.event')
  for (const index of [0, 7, 10, 123_456, 899_999_999]) {
    const [message, ...others] = messages([Buffer.from(request.setNumber(index))])
    assert.equal(others.length, 0)
    const event: unknown = JSON.parse(message?.body.toString() ?? '')
    assert.ok(event !== null && typeof event === 'object' && 'data' in event)
    assert.equal(JSON.stringify(event.data).length, 200)
    assert.equal(eventIndex(message?.body ?? Buffer.alloc(0)), index)
  }
  assert.equal(eventIndex(Buffer.from('{"n":"none"}')), -1)
  assert.equal(eventIndex(Buffer.from('}}')), -1)
})

function read(chunks: readonly Buffer[]): [string, string][] {
  return messages(chunks).map(({ head, body }) => [head.split('\r\n')[0] ?? '', body.toString()])
}

function messages(chunks: readonly Buffer[]): { head: string; body: Buffer }[] {
  const found: { head: string; body: Buffer }[] = []
  const reader = new MessageReader((head, body) => found.push({ head, body: Buffer.from(body) }))
  for (const chunk of chunks) reader.push(chunk)
  return found
}
