import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { type HttpTransportSettings, openHttpTransport } from '../../src/transports/http/http-transport.ts'
import type { Resolve } from '../../src/transports/http/system-dns.ts'
import type { Transport } from '../../src/transports/transport.ts'
import { transportContract } from '../contracts/transport.ts'
import { Arrivals, type Ending } from '../support/arrivals.ts'
import { anEndpoint } from '../support/builders.ts'
import { makeCertificate } from '../support/certificates.ts'
import { afterHeaders, hostilities, openHostileEndpoint } from '../support/hostile-endpoint.ts'
import { type Answer, openScriptedEndpoint, parcelFor, testSecret } from '../support/scripted-endpoint.ts'

const never = new AbortController().signal
/** A transport that closes itself at the end of its test. */
function open(more: Partial<HttpTransportSettings> = {}): Transport & AsyncDisposable {
  const transport = openHttpTransport({ userAgent: 'Posthorn/1.2.3', allowPrivate: ['127.0.0.0/8', '::1'], ...more })
  return Object.assign(transport, { [Symbol.asyncDispose]: () => transport.close() })
}

const answers: Readonly<Record<Ending, Answer>> = { ok: {}, fail: { status: 503 }, break: 'drop' }

transportContract('http', async (t) => {
  const arrivals = new Arrivals()
  const server = await openScriptedEndpoint(({ headers, body }) => {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    arrivals.add({
      deliveryId: String(headers['posthorn-delivery']),
      attempt: Number(headers['posthorn-attempt']),
      body: body.toString(),
      answer: (ending) => resolve(answers[ending]),
    })
    return promise
  })
  const transport = open()
  t.after(async () => {
    await server.close()
    await transport.close()
  })
  return {
    transport,
    anEndpoint: (given) => anEndpoint({ url: server.url, ...given }),
    next: () => arrivals.next(),
    graceMs: 0,
  }
})

test('posts the event with every header that the API promises', async () => {
  await using endpoint = await openScriptedEndpoint([{ status: 201, headers: { 'X-Seen': 'yes' }, body: 'thanks' }])
  await using transport = open()
  const parcel = { ...parcelFor(`${endpoint.url}/a%20b?q=1#f`), attempt: 3, deliveryId: 'dlv_9' }
  const report = await transport.deliver(parcel, never)
  assert.ok(report.kind === 'answered')
  assert.deepEqual([report.statusCode, report.body, report.headers['x-seen']], [201, 'thanks', 'yes'])

  const { method, path, headers } = await endpoint.next()
  assert.deepEqual([method, path], ['POST', '/hook/a%20b?q=1'])
  const { 'webhook-signature': signature, ...others } = headers
  assert.match(String(signature), /^v1,[A-Za-z0-9+/]{43}=$/)
  assert.deepEqual(others, {
    host: `127.0.0.1:${endpoint.port}`,
    connection: 'keep-alive',
    'content-length': '7',
    'content-type': 'application/json',
    'user-agent': 'Posthorn/1.2.3',
    'accept-encoding': 'identity',
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(parcel.sentAt / 1_000)),
    'posthorn-delivery': 'dlv_9',
    'posthorn-attempt': '3',
    'posthorn-hops': '1',
    'posthorn-event-type': 'order.created',
  })
})

test('sends the headers of the endpoint and the event, the event before the endpoint, and none that are reserved', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open()
  const reserved = { Host: 'evil', 'webhook-id': 'evil', 'Posthorn-Attempt': 'evil', 'proxy-x': 'evil', te: 'evil' }
  const own = { 'X-Team': 'endpoint', authorization: 'Bearer t', 'User-Agent': 'mine', 'x-bad': 'a\r\nx-evil: 1' }
  const events = { traceparent: '00-ab-cd-01', 'x-team': 'event', 'bad name': 'evil', Upgrade: 'h2c' }
  await transport.deliver(
    parcelFor(endpoint.url, { headers: { ...reserved, ...own } }, { headers: { ...reserved, ...events } }),
    never,
  )
  const { headers, rawHeaders } = await endpoint.next()
  const { 'x-team': team, authorization, 'user-agent': userAgent, traceparent } = headers
  assert.deepEqual([team, authorization, userAgent, traceparent], ['event', 'Bearer t', 'mine', '00-ab-cd-01'])
  assert.equal(headers['webhook-id'], 'evt_1')
  assert.ok(!rawHeaders.some((text) => text.includes('evil') || text === 'h2c'))
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
  assert.equal(new Set(names).size, names.length)
})

test('sends on what a source kept only where the endpoint asks for it, and never in place of its own', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open()
  const kept = {
    'x-github-event': 'push',
    'x-team': 'source',
    'content-type': 'text/evil',
    'webhook-id': 'evil',
    'user-agent': 'evil',
  }
  const request = { source: 'github', method: 'POST', query: '', headers: kept }
  const seen: (readonly unknown[])[] = []
  for (const forwardHeaders of [true, false]) {
    await transport.deliver(
      parcelFor(endpoint.url, { forwardHeaders, headers: { 'x-team': 'own' } }, { request }),
      never,
    )
    const { headers, rawHeaders } = await endpoint.next()
    seen.push([headers['x-github-event'], headers['x-team'], headers['content-type']])
    assert.ok(!rawHeaders.some((text) => text.includes('evil')))
  }
  assert.deepEqual(seen, [
    ['push', 'own', 'application/json'],
    [undefined, 'own', 'application/json'],
  ])
})

test('is verified by the Standard Webhooks library, with both secrets of a rotation', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open()
  const older = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
  const expired = `whsec_${Buffer.alloc(24, 2).toString('base64')}`
  const now = Date.now()
  const secrets = [
    { secret: testSecret, expiresAt: null },
    { secret: older, expiresAt: now + 60_000 },
    { secret: expired, expiresAt: now },
  ]
  const body = Buffer.from('{"text":"Grüße 🐎"}')
  await transport.deliver({ ...parcelFor(endpoint.url, { secrets }, { body }), sentAt: now }, never)
  const received = await endpoint.next()
  const headers = received.headers as Record<string, string>
  const payload = received.body.toString()
  for (const secret of [testSecret, older]) new Webhook(secret).verify(payload, headers)
  assert.throws(() => new Webhook(expired).verify(payload, headers))
  assert.throws(() => new Webhook(testSecret).verify(payload.replace('text', 'test'), headers))
  assert.equal(headers['webhook-signature']?.split(' ').length, 2)
})

test('delivers the bytes of the body as they are', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open()
  const property = fc.asyncProperty(fc.uint8Array({ maxLength: 5_000 }), fc.nat(8), async (bytes, offset) => {
    // A view into a larger buffer, as a database or a socket hands it out.
    const body = Buffer.concat([Buffer.alloc(offset, 1), bytes, Buffer.alloc(3, 2)]).subarray(
      offset,
      offset + bytes.length,
    )
    await transport.deliver(parcelFor(endpoint.url, {}, { body, contentType: 'application/octet-stream' }), never)
    const received = await endpoint.next()
    assert.ok(received.body.equals(bytes))
    assert.equal(received.headers['content-length'], String(bytes.length))
    assert.equal(received.headers['transfer-encoding'], undefined)
  })
  await fc.assert(property, { numRuns: 100 })
})

test('escapes an event type that no header can hold', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open()
  await transport.deliver(parcelFor(endpoint.url, {}, { type: 'zamówienie.✓', contentType: 'a\nb' }), never)
  const { headers } = await endpoint.next()
  assert.equal(headers['posthorn-event-type'], encodeURIComponent('zamówienie.✓'))
  assert.equal(headers['content-type'], 'application/octet-stream')
})

test('keeps the beginning of a long answer and reads bytes that are no text', async () => {
  await using endpoint = await openScriptedEndpoint([
    { body: 'x'.repeat(30_000) },
    { body: Buffer.from([0x61, 0xff, 0x62]), headers: { 'x-long': 'v'.repeat(5_000) } },
  ])
  await using transport = open({ responseBytesMax: 100 })
  const long = await transport.deliver(parcelFor(endpoint.url), never)
  assert.ok(long.kind === 'answered' && long.body === 'x'.repeat(100))
  const binary = await transport.deliver(parcelFor(endpoint.url), never)
  assert.ok(binary.kind === 'answered' && binary.body === 'a\ufffdb')
  assert.equal(binary.headers['x-long']?.length, 1_024)
})

test('uses a connection again, and no more of them than allowed', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open({ connectionsPerOriginMax: 3 })
  const parcel = parcelFor(endpoint.url)
  const reports = await Promise.all(Array.from({ length: 60 }, () => transport.deliver(parcel, never)))
  assert.ok(reports.every((report) => report.kind === 'answered'))
  assert.ok(endpoint.connections() <= 3)
})

test('asks for the name over TLS and in Host while it connects to the address', async () => {
  const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
  const certificate = makeCertificate({ name: 'good.test', hosts: ['good.test'], issuer: authority })
  await using endpoint = await openScriptedEndpoint([{}], { certificate })
  const resolve: Resolve = async () => ['127.0.0.9', '127.0.0.1'].map((address) => ({ address, ttlS: 30 }))
  await using transport = open({ resolve, ca: authority.cert })
  for (const host of ['good.test', 'GOOD.test', 'good.test.']) {
    const report = await transport.deliver(parcelFor(`https://${host}:${endpoint.port}/`), never)
    assert.ok(report.kind === 'answered', JSON.stringify(report))
    const received = await endpoint.next()
    assert.equal(received.serverName, 'good.test')
  }
  const other = await transport.deliver(parcelFor(`https://other.test:${endpoint.port}/`), never)
  assert.ok(other.kind === 'unreachable' && other.code === 'ERR_TLS_CERT_ALTNAME_INVALID')
})

test('names a refused connection by its code and keeps addresses out of the words', async () => {
  const endpoint = await openScriptedEndpoint()
  await endpoint.close()
  await using transport = open()
  const report = await transport.deliver(parcelFor(endpoint.url), never)
  assert.deepEqual(report, { kind: 'unreachable', code: 'ECONNREFUSED', message: 'the connection was refused' })
})

test('ends at once as interrupted when the signal aborts, for each of those that share it', async () => {
  await using endpoint = await openScriptedEndpoint(['hang'])
  await using transport = open({ connectionsPerOriginMax: 2 })
  const control = new AbortController()
  const tries = Array.from({ length: 20 }, () => transport.deliver(parcelFor(endpoint.url), control.signal))
  await endpoint.next()
  await endpoint.next()
  control.abort()
  assert.deepEqual(new Set((await Promise.all(tries)).map(({ kind }) => kind)), new Set(['interrupted']))
  assert.equal((await transport.deliver(parcelFor(endpoint.url), control.signal)).kind, 'interrupted')
  assert.equal(endpoint.received.length, 2)
})

test('an answer counts although the signal aborts inside its body', async () => {
  await using hostile = await openHostileEndpoint(hostilities.slowBody)
  await using transport = open()
  const control = new AbortController()
  afterHeaders(() => control.abort())
  const report = await transport.deliver(parcelFor(hostile.url), control.signal)
  assert.ok(report.kind === 'answered' && report.statusCode === 200)
})

test('a name server that never answers holds up neither its own try nor the others', async () => {
  await using endpoint = await openScriptedEndpoint()
  const resolve: Resolve = (name) =>
    name === 'hung.test' ? new Promise(() => {}) : Promise.resolve([{ address: '127.0.0.1', ttlS: 30 }])
  await using transport = open({ resolve })
  const hung = transport.deliver(parcelFor(`http://hung.test:${endpoint.port}/`, { timeoutMs: 200 }), never)
  const fine = await transport.deliver(parcelFor(`http://fine.test:${endpoint.port}/`), never)
  assert.equal(fine.kind, 'answered')
  const report = await hung
  assert.ok(report.kind === 'unreachable' && report.code === 'DEADLINE')
})
