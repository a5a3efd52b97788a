// Large bodies over TLS go out piece by piece.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { openHttpTransport } from '../../src/transports/http/http-transport.ts'
import { pieceBytes } from '../../src/transports/http/pieces.ts'
import type { Transport } from '../../src/transports/transport.ts'
import { makeCertificate } from '../support/certificates.ts'
import { type Hostility, openHostileEndpoint } from '../support/hostile-endpoint.ts'
import { openScriptedEndpoint, parcelFor, testSecret } from '../support/scripted-endpoint.ts'

const never = new AbortController().signal
const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
const certificate = makeCertificate({ name: 'good', hosts: ['127.0.0.1'], issuer: authority })
/** More than the machine takes for a reader that does not read. */
const hugeBytes = 32 * 1024 * 1024
const huge = Buffer.alloc(hugeBytes, 0x61)

function open(): Transport & AsyncDisposable {
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: ['127.0.0.0/8'], ca: authority.cert })
  return Object.assign(transport, { [Symbol.asyncDispose]: () => transport.close() })
}

/** undici takes a connection back for the next request two turns of the loop after an answer. */
async function connectionIsIdle(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await setImmediate()
}

test('a large body arrives byte for byte over TLS, with its length and one connection for all', async () => {
  await using endpoint = await openScriptedEndpoint([{}], { certificate })
  await using transport = open()
  const sizes = [pieceBytes, pieceBytes + 1, 2 * pieceBytes, 1_000_000]
  for (const size of sizes) {
    const text = JSON.stringify(
      randomBytes(size)
        .toString('base64')
        .slice(0, size - 2),
    )
    const report = await transport.deliver(parcelFor(endpoint.url, {}, { body: Buffer.from(text) }), never)
    assert.ok(report.kind === 'answered' && report.statusCode === 200, JSON.stringify(report))
    const { headers, body } = await endpoint.next()
    assert.equal(headers['content-length'], String(size))
    assert.equal(headers['transfer-encoding'], undefined)
    assert.ok(body.equals(Buffer.from(text)), `${size}`)
    assert.doesNotThrow(() => new Webhook(testSecret).verify(text, headers as Record<string, string>))
    await connectionIsIdle()
  }
  assert.equal(endpoint.connections(), 1)
})

test('a large body goes out whole again when a kept connection died before it answered', async () => {
  await using endpoint = await openScriptedEndpoint([{}, 'drop', {}], { certificate })
  await using transport = open()
  const body = randomBytes(1_000_000)
  const parcel = parcelFor(endpoint.url, {}, { body })
  assert.equal((await transport.deliver(parcel, never)).kind, 'answered')
  await connectionIsIdle()
  assert.equal((await transport.deliver(parcel, never)).kind, 'answered')
  assert.equal(endpoint.received.length, 3)
  for (const received of endpoint.received) assert.ok(received.body.equals(body))
})

/** An endpoint that reads no more of a connection after a request has begun on it, until it is told to. */
async function openUnreading(hostility: Hostility) {
  const paused: Socket[] = []
  const hostile = await openHostileEndpoint(
    (socket, turn) => {
      paused.push(socket)
      socket.pause()
      hostility(socket, turn)
    },
    { certificate },
  )
  return Object.assign(hostile, {
    /** A connection that is not read does not show that it was closed. */
    allGone() {
      for (const socket of paused) socket.resume()
      return hostile.allClosed()
    },
  })
}

test('an answer that comes while a large body is being sent counts', async () => {
  await using hostile = await openUnreading((socket) =>
    socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno'),
  )
  await using transport = open()
  const report = await transport.deliver(parcelFor(hostile.url, {}, { body: huge }), never)
  assert.ok(report.kind === 'answered' && report.statusCode === 413 && report.body === 'no', JSON.stringify(report))
  await hostile.allGone()
})

test('a try whose large body is not read ends at its deadline, and its connection with it', async () => {
  await using hostile = await openUnreading(() => {})
  await using transport = open()
  const report = await transport.deliver(parcelFor(hostile.url, { timeoutMs: 500 }, { body: huge }), never)
  assert.ok(report.kind === 'unreachable' && report.code === 'DEADLINE', JSON.stringify(report))
  await hostile.allGone()
})

test('a try whose large body is not read is interrupted at once, and its connection with it', async () => {
  const control = new AbortController()
  await using hostile = await openUnreading(() => control.abort())
  await using transport = open()
  const report = await transport.deliver(parcelFor(hostile.url, {}, { body: huge }), control.signal)
  assert.equal(report.kind, 'interrupted')
  await hostile.allGone()
})

test('a connection that is closed inside a large body makes the try fail, and the next one goes on', async () => {
  await using hostile = await openHostileEndpoint((socket) => socket.destroy(), { certificate })
  await using endpoint = await openScriptedEndpoint([{}], { certificate })
  await using transport = open()
  const report = await transport.deliver(parcelFor(hostile.url, {}, { body: huge }), never)
  assert.ok(report.kind === 'unreachable', JSON.stringify(report))
  assert.match(report.code, /^(UND_ERR_SOCKET|ECONNRESET|EPIPE)$/)
  await hostile.allClosed()
  assert.equal((await transport.deliver(parcelFor(endpoint.url), never)).kind, 'answered')
})
