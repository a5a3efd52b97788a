import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { openServed, type Served } from './served.ts'

/** A request whose body never ends, and what is answered to it. */
async function slowSender(served: Served, path: string, bytes: number, more = ''): Promise<Socket> {
  const { port, host } = new URL(served.url)
  const socket = connect(Number(port), '127.0.0.1')
  await once(socket, 'connect')
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\n${more}`
  socket.write(`${head}content-length: 900000\r\n\r\n${' '.repeat(bytes)}`)
  return socket
}

const answerOf = async (socket: Socket) => String(await once(socket, 'data'))

describe('bodies that are being read', () => {
  test('share one budget on all routes: who is beyond it gets 503 at once, and there is room when others leave', async () => {
    const served = await openServed({ POSTHORN_REQUEST_BYTES_MAX: '1MiB' })
    try {
      const first = await slowSender(served, '/v1/events', 600_000)
      // Whether the server has read the first by now is not known, so the others decide who is beyond it.
      const others = await Promise.all(
        ['/v1/events', '/v1/events/batch', '/v1/events/raw'].map((path) => slowSender(served, path, 600_000)),
      )
      const answers = await Promise.any([first, ...others].map(answerOf))
      assert.match(answers, /^HTTP\/1\.1 503 /)
      assert.match(answers, /^retry-after: [1-9]\d*\r$/im)
      assert.match(answers, /urn:posthorn:problem:overloaded/)
      for (const socket of [first, ...others]) socket.destroy()
      const body = { type: 'a', data: 'x'.repeat(900_000) }
      let status = 503
      // The server learns of the closed connections in its own time.
      while (status === 503) status = (await served.call('POST', '/v1/events', body)).status
      assert.equal(status, 202)
    } finally {
      await served.stop()
    }
  })

  test('of senders without a key do not keep out those who have one', async () => {
    const served = await openServed({ POSTHORN_REQUEST_BYTES_MAX: '1MiB' })
    try {
      await served.call('POST', '/v1/sources', {
        name: 'open',
        provider: 'hmac',
        secret: 'a secret of some length',
        hmac: { header: 'x-signature' },
      })
      // It could be good: only the body will tell.
      const forged = `x-signature: ${'0'.repeat(64)}\r\n`
      const senders = await Promise.all([1, 2, 3].map(() => slowSender(served, '/in/open', 600_000, forged)))
      assert.match(await Promise.any(senders.map(answerOf)), /^HTTP\/1\.1 503 /)
      assert.equal((await served.call('POST', '/v1/events', { type: 'a', data: 'x'.repeat(900_000) })).status, 202)
      for (const socket of senders) socket.destroy()
    } finally {
      await served.stop()
    }
  })

  test('count by what has come, not by what was announced', async () => {
    const served = await openServed({ POSTHORN_REQUEST_BYTES_MAX: '1MiB' })
    try {
      const idle = await Promise.all(Array.from({ length: 20 }, () => slowSender(served, '/v1/events', 10)))
      assert.equal((await served.call('POST', '/v1/events', { type: 'a', data: 'x'.repeat(500_000) })).status, 202)
      for (const socket of idle) socket.destroy()
    } finally {
      await served.stop()
    }
  })
})

test('who sends on and on and reads no answer is cut off', async () => {
  const served = await openServed()
  try {
    const { port, host } = new URL(served.url)
    const event = await served.call('POST', '/v1/events', { type: 'a', data: 'x'.repeat(900_000) })
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.pause()
    socket.write(`GET /v1/events/${event.json.id}/body HTTP/1.1\r\nhost: ${host}\r\n\r\n`.repeat(200))
    const closed = once(socket, 'close')
    socket.resume()
    await closed
    assert.ok(socket.bytesRead < 200 * 900_000)
    assert.equal((await served.call('GET', '/healthz')).status, 200)
  } finally {
    await served.stop()
  }
})

test('connections beyond the limit are closed, and the others are served', async () => {
  const served = await openServed({ POSTHORN_CONNECTIONS_MAX: '3' })
  try {
    const { port, host } = new URL(served.url)
    const sockets = Array.from({ length: 3 }, () => connect(Number(port), '127.0.0.1'))
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    for (const socket of sockets) {
      socket.write(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
      assert.match(await answerOf(socket), /^HTTP\/1\.1 200 /)
    }
    const late = connect(Number(port), '127.0.0.1').on('error', () => {})
    await once(late, 'close')
    sockets[0]?.write(`GET /healthz HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
    assert.match(await answerOf(sockets[0]!), /^HTTP\/1\.1 200 /)
    for (const socket of sockets) socket.destroy()
  } finally {
    await served.stop()
  }
})

test('a large batch lets others have their turn while it is read', async () => {
  const served = await openServed()
  try {
    const data = Array.from({ length: 150 }, (_, i) => ({ i, text: 'some text' }))
    const item = JSON.stringify({ type: 'a', data })
    const batch = Buffer.from(
      `[${Array(Math.floor((15 * 1024 * 1024) / item.length))
        .fill(item)
        .join(',')}]`,
    )
    let isDone = false
    const sending = served.call('POST', '/v1/events/batch', batch).then((reply) => {
      isDone = true
      return reply
    })
    let answeredMeanwhile = 0
    while (!isDone) {
      await served.call('GET', '/healthz')
      if (!isDone) answeredMeanwhile += 1
    }
    assert.equal((await sending).status, 202)
    assert.ok(answeredMeanwhile > 2, `${answeredMeanwhile} were answered meanwhile`)
  } finally {
    await served.stop()
  }
})
