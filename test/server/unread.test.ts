import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import { describe, mock, test } from 'node:test'
import { Answer } from '../../src/server/answer.ts'
import { Unread } from '../../src/server/unread.ts'
import { openServed, type Served } from './served.ts'

const mib = 1024 * 1024

describe('what connections hold until their clients read', () => {
  test('is counted over all of them, and beyond the limit the oldest are closed', async () => {
    const unread = new Unread(100)
    const [first, second, third] = [new Socket(), new Socket(), new Socket()]
    unread.hold(first, 40)
    unread.hold(second, 40)
    unread.hold(first, 10)
    assert.equal(unread.bytes, 90)
    unread.hold(third, 60)
    assert.deepEqual(
      [first, second, third].map(({ destroyed }) => destroyed),
      [true, false, false],
    )
    assert.equal(unread.bytes, 100)
    unread.release(first, 50)
    unread.release(second, 30)
    assert.equal(unread.bytes, 70)
    third.destroy()
    await once(third, 'close')
    assert.equal(unread.bytes, 10)
    unread.release(second, 10)
    unread.hold(second, 101)
    assert.deepEqual([second.destroyed, unread.bytes], [true, 0])
  })

  test('counts requests that wait for their turn, over all connections', async () => {
    // More than 64 MiB by 8 KiB each, and on no connection more than may be sent ahead.
    const sockets = Array.from({ length: 300 }, () => new Socket())
    for (const socket of sockets) {
      const request = { socket, method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as unknown as IncomingMessage
      for (let n = 0; n < 30; n++) new Answer(request).waitForTurn(() => {})
    }
    const open = sockets.findIndex(({ destroyed }) => !destroyed)
    assert.ok(open > 0 && open < 100, `${open} were closed`)
    assert.ok(
      sockets.slice(open).every(({ destroyed }) => !destroyed),
      'the oldest first',
    )
    const closed = sockets.slice(open).map((socket) => once(socket.destroy(), 'close'))
    await Promise.all(closed)
  })

  test('makes the server close some that do not read, and not one that comes after them and does', {
    timeout: 120_000,
  }, async (t) => {
    const served = await openServed({ POSTHORN_EVENT_BYTES_MAX: '16MiB' })
    t.after(() => served.stop())
    // More than the kernel takes for one connection.
    const bytes = 14 * mib
    const event = await served.call('POST', '/v1/events/raw', 'x'.repeat(bytes), { 'content-type': 'text/plain' })
    const path = `/v1/events/${event.json.id}/body`
    const sockets = await Promise.all(Array.from({ length: 20 }, () => connected(served)))
    t.after(() => sockets.forEach((socket) => void socket.destroy()))
    const begun = sockets.map((socket) => Promise.race([once(socket, 'readable'), once(socket, 'close')]))
    for (const socket of sockets) {
      socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
    }
    // Nobody reads what is readable.
    await Promise.all(begun)
    assert.equal((await served.call('GET', path)).text.length, bytes)
    const open = sockets.filter(({ closed }) => !closed)
    await Promise.all(open.map((socket) => once(socket.removeAllListeners('readable').resume(), 'close')))
    const short = sockets.filter(({ bytesRead }) => bytesRead < bytes).length
    assert.ok(short > 0 && short < sockets.length, `${short} were closed`)
  })
})

test('the description of the API is put together once, not for every answer', async (t) => {
  const served = await openServed()
  t.after(() => served.stop())
  const stringify = JSON.stringify
  let made = 0
  const counted = mock.method(JSON, 'stringify', (...given: Parameters<typeof stringify>) => {
    const text = stringify(...given)
    if (text?.includes('"openapi":"3.1.0"')) made += 1
    return text
  })
  const answers = []
  for (let i = 0; i < 3; i++) answers.push(await served.call('GET', '/openapi.json'))
  counted.mock.restore()
  assert.deepEqual([made, new Set(answers.map(({ text }) => text)).size], [1, 1])
  assert.equal(answers[0]?.json.openapi, '3.1.0')
})

describe('requests that are sent ahead', () => {
  test('are answered in their order, each when the one before it is on its way', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const socket = await connected(served)
    const body = '{"type":"a","data":1}'
    const post = `POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const list = 'GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n'
    const last = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'
    socket.write(post + list + post + list + last)
    const answer = await textOf(socket)
    assert.deepEqual(
      answer.match(/HTTP\/1\.1 \d+/g),
      ['202', '200', '202', '200', '200'].map((code) => `HTTP/1.1 ${code}`),
    )
    // The first list was made after the first event and before the second.
    const lists = answer.match(/\{"items":\[.*?\],"next"/g)?.map((page) => page.split('"id":').length - 1)
    assert.deepEqual(lists, [1, 2])
  })

  test('by the thousand end the connection', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const socket = await connected(served)
    const closed = once(socket, 'close')
    socket.resume().write('GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(1_000))
    await closed
    assert.equal((await served.call('GET', '/healthz')).status, 200)
  })
})

async function connected(served: Served): Promise<Socket> {
  const { port } = new URL(served.url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  await once(socket, 'connect')
  return socket
}

async function textOf(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  return text
}
