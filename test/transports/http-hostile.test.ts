import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import type { Report } from '../../src/core/outcome.ts'
import { openHttpTransport } from '../../src/transports/http/http-transport.ts'
import type { Transport } from '../../src/transports/transport.ts'
import { makeCertificate } from '../support/certificates.ts'
import { type Hostility, hostilities, openHostileEndpoint } from '../support/hostile-endpoint.ts'
import { openScriptedEndpoint, parcelFor } from '../support/scripted-endpoint.ts'

const loopback = ['127.0.0.0/8', '::1']
const never = new AbortController().signal
/** Where the deadline is what ends the try it is short; elsewhere it must not be what ends it on a slow machine. */
const shortMs = 300
const longMs = 20_000

/** `answered 200 begin…`, `unreachable DEADLINE`: what matters of a report, on one line. */
function gist(report: Report): string {
  if (report.kind === 'answered') return `answered ${report.statusCode} ${report.body.slice(0, 10)}`.trim()
  return report.kind === 'unreachable' ? `unreachable ${report.code}` : report.kind
}

const expected: Readonly<Record<keyof typeof hostilities, RegExp>> = {
  silent: /^unreachable DEADLINE$/,
  slowHeaders: /^unreachable DEADLINE$/,
  slowBody: /^answered 200 begin/,
  endlessBody: /^answered 200 aaaaaaaaaa$/,
  endlessInterim: /^unreachable INTERIM_MAX$/,
  interimThenSilence: /^unreachable DEADLINE$/,
  endlessHeaders: /^unreachable UND_ERR_HEADERS_OVERFLOW$/,
  hugeHeader: /^unreachable UND_ERR_HEADERS_OVERFLOW$/,
  endlessStatusLine: /^unreachable DEADLINE$/,
  resetBeforeAnswer: /^unreachable ECONNRESET$/,
  closeBeforeAnswer: /^unreachable (UND_ERR_SOCKET|ECONNRESET)$/,
  resetInsideHeaders: /^unreachable (UND_ERR_SOCKET|ECONNRESET)$/,
  closeInsideHeaders: /^unreachable UND_ERR_SOCKET$/,
  closeInsideBody: /^answered 200 begin$/,
  resetInsideBody: /^answered 200 begin$/,
  lengthTooShort: /^answered 200 to$/,
  twoLengths: /^unreachable UND_ERR_RES_CONTENT_LENGTH_MISMATCH$/,
  badChunks: /^answered 200 begin$/,
  noContentWithBody: /^answered 204$/,
  http09: /^unreachable HPE_/,
  notHttp: /^unreachable HPE_/,
  unasked100: /^unreachable UND_ERR_SOCKET$/,
  unasked101: /^unreachable UND_ERR_SOCKET$/,
  gzipBomb: /^answered 200/,
  prototypeHeaders: /^answered 200 ok$/,
  manyHeaders: /^answered 200 ok$/,
}

/** Delivers once to the hostile side, then shows that the transport still works and lets go of every connection. */
async function suffer(url: string, transport: Transport, timeoutMs = longMs): Promise<Report> {
  await using friendly = await openScriptedEndpoint([{ body: 'fine' }])
  const report = await transport.deliver(parcelFor(url, { timeoutMs }), never)
  const after = await transport.deliver(parcelFor(friendly.url), never)
  assert.equal(gist(after), 'answered 200 fine')
  await transport.close()
  return report
}

for (const [mode, pattern] of Object.entries(expected)) {
  test(`ends the try, leaves no connection and goes on after: ${mode}`, async () => {
    await using hostile = await openHostileEndpoint(hostilities[mode as keyof typeof hostilities])
    const timeoutMs = mode === 'slowBody' || pattern.source.includes('DEADLINE') ? shortMs : longMs
    const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
    assert.match(gist(await suffer(hostile.url, transport, timeoutMs)), pattern)
    await hostile.allClosed()
  })
}

test('keeps a bounded part of what a hostile answer holds', async () => {
  await using bomb = await openHostileEndpoint(hostilities.gzipBomb)
  const bombed = await suffer(bomb.url, openHttpTransport({ userAgent: 'test', allowPrivate: loopback }))
  assert.ok(bombed.kind === 'answered' && bombed.body.length <= 4_096)

  await using many = await openHostileEndpoint(hostilities.manyHeaders)
  const counted = await suffer(many.url, openHttpTransport({ userAgent: 'test', allowPrivate: loopback }))
  assert.ok(counted.kind === 'answered' && Object.keys(counted.headers).length === 64)

  await using sly = await openHostileEndpoint(hostilities.prototypeHeaders)
  const plain = await suffer(sly.url, openHttpTransport({ userAgent: 'test', allowPrivate: loopback }))
  assert.ok(plain.kind === 'answered')
  assert.equal(Object.getPrototypeOf(plain.headers), null)
  assert.equal(plain.headers.constructor, 'y')
})

test('ends the try at its deadline when the other side never speaks TLS', async () => {
  await using hostile = await openHostileEndpoint(hostilities.silent)
  const url = hostile.url.replace('http:', 'https:')
  const report = await suffer(url, openHttpTransport({ userAgent: 'test', allowPrivate: loopback }), shortMs)
  assert.equal(gist(report), 'unreachable DEADLINE')
  await hostile.allClosed()
})

test('says that the other side does not speak TLS', async () => {
  const rubbish = (socket: Socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')
  await using hostile = await openHostileEndpoint(hostilities.silent, { onConnection: rubbish })
  const url = hostile.url.replace('http:', 'https:')
  const report = await suffer(url, openHttpTransport({ userAgent: 'test', allowPrivate: loopback }))
  assert.match(gist(report), /^unreachable (ERR_SSL_|EPROTO)/)
  assert.ok(report.kind === 'unreachable' && report.message.includes('TLS'))
  await hostile.allClosed()
})

const hour = 3_600_000
const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
const goodHosts = { hosts: ['127.0.0.1', 'good.test'], issuer: authority }
const badCertificates = {
  CERT_HAS_EXPIRED: makeCertificate({ name: 'late', ...goodHosts, validTo: new Date(Date.now() - hour) }),
  CERT_NOT_YET_VALID: makeCertificate({ name: 'early', ...goodHosts, validFrom: new Date(Date.now() + hour) }),
  DEPTH_ZERO_SELF_SIGNED_CERT: makeCertificate({ name: 'self', hosts: ['127.0.0.1'] }),
  ERR_TLS_CERT_ALTNAME_INVALID: makeCertificate({ name: 'other', hosts: ['other.test'], issuer: authority }),
}
for (const [code, certificate] of Object.entries(badCertificates)) {
  test(`refuses a certificate and says why in words: ${code}`, async () => {
    await using hostile = await openHostileEndpoint(hostilities.silent, { certificate })
    const settings = { userAgent: 'test', allowPrivate: loopback, ca: authority.cert }
    const report = await suffer(hostile.url, openHttpTransport(settings))
    assert.equal(gist(report), `unreachable ${code}`)
    assert.ok(report.kind === 'unreachable' && report.message.startsWith('the certificate'))
    assert.equal(hostile.turns(), 0)
    await hostile.allClosed()
  })
}

/** Answers the first request, then closes the connection when the next one comes on it: the keep-alive race. */
const raceClose: Hostility = (socket, turn) => {
  if (turn % 2 === 0) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
  else socket.destroy()
}

/** undici takes a connection back for the next request two turns of the loop after an answer. */
async function connectionIsIdle(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await setImmediate()
}

test('sends again, once and on a new connection, when a kept connection died before it answered', async () => {
  await using hostile = await openHostileEndpoint(raceClose)
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
  const parcel = parcelFor(hostile.url)
  assert.equal(gist(await transport.deliver(parcel, never)), 'answered 200 ok')
  await connectionIsIdle()
  assert.equal(gist(await transport.deliver(parcel, never)), 'answered 200 ok')
  assert.equal(hostile.turns(), 3)
  assert.equal(hostile.connections(), 2)
  await transport.close()
  await hostile.allClosed()
})

test('does not send a third time', async () => {
  await using hostile = await openHostileEndpoint((socket, turn) =>
    turn === 0 ? raceClose(socket, 0) : socket.destroy(),
  )
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
  const parcel = parcelFor(hostile.url)
  await transport.deliver(parcel, never)
  await connectionIsIdle()
  assert.match(gist(await transport.deliver(parcel, never)), /^unreachable (UND_ERR_SOCKET|ECONNRESET|EPIPE)$/)
  assert.equal(hostile.turns(), 3)
  await transport.close()
})

test('does not send again when a new connection died', async () => {
  await using hostile = await openHostileEndpoint(hostilities.closeBeforeAnswer)
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
  await transport.deliver(parcelFor(hostile.url), never)
  assert.equal(hostile.turns(), 1)
  await transport.close()
})

test('sends again after a reset as well as after an orderly end', async () => {
  await using hostile = await openHostileEndpoint((socket, turn) =>
    turn === 1 ? socket.resetAndDestroy() : raceClose(socket, 0),
  )
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
  const parcel = parcelFor(hostile.url)
  await transport.deliver(parcel, never)
  await connectionIsIdle()
  assert.equal(gist(await transport.deliver(parcel, never)), 'answered 200 ok')
  assert.equal(hostile.turns(), 3)
  await transport.close()
})

test('sends again over TLS too', async () => {
  const certificate = makeCertificate({ name: 'good', ...goodHosts })
  await using hostile = await openHostileEndpoint(raceClose, { certificate })
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback, ca: authority.cert })
  const parcel = parcelFor(hostile.url)
  await transport.deliver(parcel, never)
  await connectionIsIdle()
  assert.equal(gist(await transport.deliver(parcel, never)), 'answered 200 ok')
  assert.equal(hostile.turns(), 3)
  await transport.close()
})

test('lets a try end at its deadline while it waits for a connection, and then sends nothing for it', async () => {
  await using endpoint = await openScriptedEndpoint(['hang', {}])
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback, connectionsPerOriginMax: 1 })
  const busy = transport.deliver(parcelFor(endpoint.url, { timeoutMs: 500 }), never)
  await endpoint.next()
  const queued = await Promise.all(
    Array.from({ length: 50 }, () => transport.deliver(parcelFor(endpoint.url, { timeoutMs: 50 }), never)),
  )
  assert.deepEqual(new Set(queued.map(gist)), new Set(['unreachable DEADLINE']))
  assert.equal(gist(await busy), 'unreachable DEADLINE')
  assert.equal(gist(await transport.deliver(parcelFor(endpoint.url), never)), 'answered 200')
  assert.equal(endpoint.received.length, 2)
  await transport.close()
})

test('survives any bytes as an answer', async () => {
  const pieces = [
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 103 x\r\n',
    'content-length: 3\r\n',
    'transfer-encoding: chunked\r\n',
  ]
  const more = ['connection: close\r\n', 'upgrade: h2c\r\n', '\r\n', '3\r\nabc\r\n', '0\r\n\r\n', 'HTTP/1.0 204 x\r\n']
  const bytes = fc.array(
    fc.oneof(
      fc.constantFrom(...pieces, ...more).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 20 }),
    ),
    { maxLength: 8 },
  )
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: loopback })
  let answer = Buffer.alloc(0)
  await using hostile = await openHostileEndpoint((socket) => socket.end(answer))
  const property = fc.asyncProperty(bytes, async (parts) => {
    answer = Buffer.concat(parts)
    const report = await transport.deliver(parcelFor(hostile.url, { timeoutMs: 2_000 }), never)
    assert.ok(report.kind === 'answered' || report.kind === 'unreachable')
  })
  await fc.assert(property, { numRuns: 200 })
  await transport.close()
  await hostile.allClosed()
})
