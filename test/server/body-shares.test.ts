import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { BodyBudget } from '../../src/server/body-reader.ts'
import { BodyShares, networkOf } from '../../src/server/body-shares.ts'
import { aSource, fromGithub } from './inbound-scene.ts'
import { openServed, openServedParts, type Served } from './served.ts'

const mib = 1024 * 1024

describe('65 bodies of a MiB that stall', () => {
  const stall = async (served: Served, path: string) => {
    const { port } = new URL(served.url)
    const sockets = Array.from({ length: 65 }, () =>
      connect({ port: Number(port), host: '127.0.0.1', localAddress: '127.0.0.2' }).on('error', () => {}),
    )
    const answered = sockets.map((socket) => once(socket, 'data'))
    for (const socket of sockets) socket.write(`${forgedHead(path)}${'x'.repeat(mib - 1)}`)
    // Before one is refused the others may still be on their way.
    const [answer] = await Promise.any(answered)
    assert.match(String(answer), /^HTTP\/1\.1 503 [\s\S]*retry-after: /i)
    return sockets
  }

  test('shut out neither another source nor the real sender to the same one', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const [attacked, healthy] = [await aSource(served), await aSource(served)]
    const sockets = await stall(served, attacked.path)
    const body = JSON.stringify('x'.repeat(900_000))
    assert.equal((await fromGithub(served, healthy.path, body, 'a')).status, 202)
    assert.equal((await fromGithub(served, attacked.path, body, 'b')).status, 202)
    for (const socket of sockets) socket.destroy()
  })
})

describe('a body that stalls', () => {
  for (const [path, framing] of [
    ['/in/', 'content-length'],
    ['/in/', 'transfer-encoding'],
    ['/v1/events', 'content-length'],
    ['/v1/events/batch', 'content-length'],
  ] as const) {
    test(`on ${path} (${framing}) is ended long before the request times out`, async (t) => {
      const served = await openServedParts(() => ({}), { bodyWindow: 50 })
      t.after(() => served.stop())
      const where = path === '/in/' ? (await aSource(served)).path : path
      const { port } = new URL(served.url)
      const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
      const isChunked = framing === 'transfer-encoding'
      socket.write(
        isChunked ? `${forgedHead(where, 'transfer-encoding: chunked')}5\r\nhello\r\n` : `${forgedHead(where)}[`,
      )
      assert.match(await answerOf(socket), /^HTTP\/1\.1 408 /)
      await once(socket.resume(), 'close')
    })
  }

  test('is told from one that comes slowly', async (t) => {
    const served = await openServedParts(() => ({}), { bodyWindow: 50 })
    t.after(() => served.stop())
    const { port } = new URL(served.url)
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    const body = `{"type":"a","data":"${'x'.repeat(20_000)}"}`
    socket.write(`${forgedHead('/v1/events', `content-length: ${body.length}`)}${body.slice(0, 100)}`)
    let at = 100
    // Far more than 1 KiB/s, in far more than one window.
    const drip = setInterval(() => {
      socket.write(body.slice(at, at + 1_000))
      at += 1_000
      if (at >= body.length) clearInterval(drip)
    }, 10)
    assert.match(await answerOf(socket), /^HTTP\/1\.1 202 /)
    socket.destroy()
  })
})

describe('the shares of a budget', () => {
  const opened = (bytesMax: number) => new BodyShares(new BodyBudget(bytesMax))
  /** How much one room takes, a byte at a time. */
  const filled = (room: ReturnType<BodyShares['open']>) => {
    let bytes = 0
    while (room.take(1)) bytes += 1
    return bytes
  }

  test('leave a source half to others, and an address a third', () => {
    const shares = opened(600)
    const first = shares.open('a', '1')
    assert.ok(first.take(1))
    const bodies = Array.from({ length: 10 }, (_, i) => shares.open('a', i % 2 === 0 ? '1' : '2'))
    const byOne = 1 + filled(bodies[0] ?? assert.fail())
    assert.equal(byOne, 200)
    const byTwo = filled(bodies[1] ?? assert.fail())
    assert.ok(byTwo > 50 && byOne + byTwo <= 300, String(byTwo))
    assert.ok(filled(shares.open('b', '1')) >= 300)
  })

  test('let the only body of a source have all that is free', () => {
    const shares = opened(100)
    const only = shares.open('a', '1')
    assert.equal(filled(only), 100)
    only.give(100)
    assert.equal(filled(shares.open('a', '1')), 100)
  })

  test('come back when bodies end', () => {
    const shares = opened(90)
    for (let i = 0; i < 3; i++) {
      const [one, two] = [shares.open('a', '1'), shares.open('a', '1')]
      assert.ok(one.take(10))
      assert.equal(filled(two), 20)
      one.give(10)
      two.give(20)
    }
  })
})

test('an address of IPv6 counts by its network, and one of IPv4 is itself in either form', () => {
  assert.equal(networkOf('203.0.113.7'), '203.0.113.7')
  assert.equal(networkOf('::ffff:203.0.113.7'), '203.0.113.7')
  assert.equal(networkOf('2001:db8:1:2:3:4:5:6'), networkOf('2001:db8:1:2::9'))
  assert.equal(networkOf('2001:db8::9'), '2001:db8:0:0')
  assert.notEqual(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'))
  assert.equal(networkOf('::1'), '0:0:0:0')
})

/** It could be good: only the body will tell. */
function forgedHead(path: string, framing = `content-length: ${mib}`): string {
  const signature = `x-hub-signature-256: sha256=${'0'.repeat(64)}`
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${signature}\r\n${framing}\r\n\r\n`
}

const answerOf = async (socket: Socket) => String((await once(socket, 'data'))[0])
