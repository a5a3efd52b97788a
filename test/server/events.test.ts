import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openServed, type Served } from './served.ts'

let served: Served
let sink: ScriptedEndpoint

before(async () => {
  served = await openServed()
  sink = await openScriptedEndpoint()
  await served.call('POST', '/v1/endpoints', { url: sink.url, types: ['order.*', 'ce.*'] })
})
after(async () => {
  await served.stop()
  await sink.close()
})

describe('POST /v1/events', () => {
  test('accepts an event and delivers its data as it was sent, byte for byte', async () => {
    const data = '{"z": 12345678901234567890, "a":1.0,"s":"\\u00e4ä","__proto__":{"x":1}}'
    const reply = await served.call(
      'POST',
      '/v1/events',
      ` {"data":${data} , "type":"order.created","key":"order-42"} `,
    )
    assert.equal(reply.status, 202)
    assert.match(reply.json.id, /^evt_/)
    assert.deepEqual({ ...reply.json, id: '' }, { id: '', deliveries: 1, duplicate: false })
    const received = await sink.next()
    assert.match(received.body.toString(), /^\{"type":"order\.created","timestamp":"[^"]+Z","data":/)
    assert.ok(received.body.toString().endsWith(`"data":${data}}`))
    assert.equal(received.headers['webhook-id'], reply.json.id)
  })

  test('keeps an event that no endpoint wants', async () => {
    const reply = await served.call('POST', '/v1/events', {
      type: 'nobody.cares',
      data: null,
      tenant: 'acme',
      key: null,
    })
    assert.deepEqual([reply.status, reply.json.deliveries], [202, 0])
    const shown = await served.call('GET', `/v1/events/${reply.json.id}`)
    assert.deepEqual([shown.json.tenant, shown.json.key, shown.json.deliveries], ['acme', null, []])
  })

  test('passes on the headers of an event and the trace of its request', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const event = { type: 'order.traced', data: 1, headers: { 'X-Shop': 'a' } }
    await served.call('POST', '/v1/events', event, { traceparent })
    const received = await sink.next()
    assert.deepEqual([received.headers['x-shop'], received.headers.traceparent], ['a', traceparent])
    await served.call('POST', '/v1/events', event, { traceparent: '00-nonsense' })
    assert.equal((await sink.next()).headers.traceparent, undefined)
  })

  test('takes JSON by any of its content types, and without one', async () => {
    const body = new TextEncoder().encode('{"type":"x","data":1}')
    for (const type of ['application/json; charset=utf-8', 'application/vnd.shop+json', 'Application/JSON']) {
      assert.equal((await served.call('POST', '/v1/events', body, { 'content-type': type })).status, 202, type)
    }
    const without = await fetch(`${served.url}/v1/events`, { method: 'POST', body })
    assert.equal(without.status, 202)
  })
})

describe('an idempotency key', () => {
  const event = '{"type":"order.once","data":{"n":1}}'

  test('answers a repeat with the first event, whatever trace it comes with', async () => {
    const key = { 'idempotency-key': 'once-1' }
    const first = await served.call('POST', '/v1/events', event, key)
    await sink.next()
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const second = await served.call('POST', '/v1/events', event, { ...key, traceparent })
    assert.deepEqual(second.json, { id: first.json.id, deliveries: 1, duplicate: true })
    const traced = `${event.slice(0, -1)},"headers":{"traceparent":"${traceparent}","tracestate":"a=b"}}`
    assert.equal((await served.call('POST', '/v1/events', traced, key)).json.id, first.json.id)
    const inBody = await served.call(
      'POST',
      '/v1/events',
      '{"type":"order.once","data":{"n":1},"idempotencyKey":"once-1"}',
    )
    assert.deepEqual([inBody.json.id, inBody.json.duplicate], [first.json.id, true])
  })

  test('refuses another event under the same key, and is free in another tenant', async () => {
    const key = { 'idempotency-key': 'once-2' }
    await served.call('POST', '/v1/events', event, key)
    await sink.next()
    for (const other of ['{"type":"order.once","data":{"n":2}}', '{"type":"order.twice","data":{"n":1}}']) {
      const reply = await served.call('POST', '/v1/events', other, key)
      assert.equal(reply.status, 422)
      assert.equal(reply.json.type, 'urn:posthorn:problem:idempotency_key_reused')
    }
    const elsewhere = await served.call('POST', '/v1/events', '{"type":"a","data":1,"tenant":"acme"}', key)
    assert.deepEqual([elsewhere.status, elsewhere.json.duplicate], [202, false])
  })

  test('must not be longer than 255 bytes, nor contradict the body', async () => {
    const long = await served.call('POST', '/v1/events', event, { 'idempotency-key': 'x'.repeat(256) })
    assert.deepEqual(long.json.errors, [{ path: 'Idempotency-Key', message: 'must have 1 to 255 bytes' }])
    const body = '{"type":"a","data":1,"idempotencyKey":"a"}'
    const contradiction = await served.call('POST', '/v1/events', body, { 'idempotency-key': 'b' })
    assert.equal(contradiction.json.errors[0].path, 'idempotencyKey')
  })
})

describe('POST /v1/events/batch', () => {
  test('accepts an array, in order', async () => {
    const reply = await served.call(
      'POST',
      '/v1/events/batch',
      '[{"type":"x","data":1.0},{"type":"order.b","data":2.0}]',
    )
    assert.equal(reply.status, 202)
    const deliveries = reply.json.items.map((item: { deliveries: number }) => item.deliveries)
    assert.deepEqual(deliveries, [0, 1])
    assert.ok((await sink.next()).body.toString().endsWith('"data":2.0}'))
  })

  test('accepts lines, with and without a last newline, blank ones left out', async () => {
    const lines =
      '{"type":"x","data":1}\r\n\n {"type":"y","data":[\t1] , "idempotencyKey":"line-2"}\n{"type":"z","data":"\\n"}'
    const headers = { 'content-type': 'application/x-ndjson' }
    const reply = await served.call('POST', '/v1/events/batch', lines, headers)
    assert.deepEqual([reply.status, reply.json.items.length], [202, 3])
    const again = await served.call(
      'POST',
      '/v1/events/batch',
      '{"type":"y","data":[\t1],"idempotencyKey":"line-2"}\n',
      headers,
    )
    assert.deepEqual(again.json.items, [{ ...reply.json.items[1], duplicate: true }])
  })

  test('accepts nothing of a batch with one conflict in it', async () => {
    await served.call('POST', '/v1/events/batch', [{ type: 'c', data: 1, idempotencyKey: 'batch-key' }])
    const batch = [
      { type: 'only.here', data: 1 },
      { type: 'c', data: 2, idempotencyKey: 'batch-key' },
    ]
    const reply = await served.call('POST', '/v1/events/batch', batch)
    assert.equal(reply.json.type, 'urn:posthorn:problem:idempotency_key_reused')
    assert.equal(reply.json.errors[0].path, '[1].idempotencyKey')
    assert.deepEqual((await served.call('GET', '/v1/events?type=only.here')).json.items, [])
  })

  test('takes up to 10,000 events and an empty array', async () => {
    const batch = Array.from({ length: 10_000 }, () => ({ type: 'many', data: 0 }))
    assert.equal((await served.call('POST', '/v1/events/batch', batch)).json.items.length, 10_000)
    assert.deepEqual((await served.call('POST', '/v1/events/batch', [])).json, { items: [] })
  })
})

describe('POST /v1/events/:type', () => {
  test('keeps and delivers any bytes with their content type', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
    const headers = { 'content-type': 'image/x-odd; q=1' }
    const reply = await served.call('POST', '/v1/events/order.raw?key=k&tenant=default', bytes, headers)
    assert.equal(reply.status, 202)
    const received = await sink.next()
    assert.deepEqual(new Uint8Array(received.body), bytes)
    assert.equal(received.headers['content-type'], 'image/x-odd; q=1')
    const body = await fetch(`${served.url}/v1/events/${reply.json.id}/body`)
    assert.deepEqual(new Uint8Array(await body.arrayBuffer()), bytes)
    assert.equal(body.headers.get('content-type'), 'image/x-odd; q=1')
    assert.match(body.headers.get('content-disposition') ?? '', /^attachment/)
    assert.equal(body.headers.get('x-content-type-options'), 'nosniff')
    const { key, contentType, size } = (await served.call('GET', `/v1/events/${reply.json.id}`)).json
    assert.deepEqual([key, contentType, size], ['k', 'image/x-odd; q=1', 256])
  })

  test('keeps the content encoding and sends it on: gzip bytes do not arrive as plain JSON', async () => {
    const bytes = gzipSync('{"id":1}')
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
    const reply = await served.call('POST', '/v1/events/order.zipped', bytes, headers)
    assert.equal(reply.status, 202, reply.text)
    const received = await sink.next()
    assert.deepEqual(received.body, bytes)
    assert.deepEqual([received.headers['content-type'], received.headers['content-encoding']], Object.values(headers))
    const body = await fetch(`${served.url}/v1/events/${reply.json.id}/body`)
    assert.equal(body.headers.get('content-encoding'), 'gzip')
    assert.equal(await body.text(), '{"id":1}')
    const endless = await served.call('POST', '/v1/events/order.odd', '{}', { 'content-encoding': 'x'.repeat(5_000) })
    assert.deepEqual([endless.status, endless.json.errors?.[0]?.path], [422, 'Content-Encoding'])
    await served.call('POST', '/v1/events/order.plain', '{}', { 'content-encoding': 'identity' })
    assert.equal((await sink.next()).headers['content-encoding'], undefined)
  })

  test('where the body has to be read, refuses an encoded one and says how to send it', async () => {
    const bytes = gzipSync('{"type":"order.zipped","data":1}')
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
    const structured = { ...headers, 'content-type': 'application/cloudevents+json' }
    const lines = { ...headers, 'content-type': 'application/x-ndjson' }
    for (const [path, sent] of [
      ['/v1/events', headers],
      ['/v1/events', structured],
      ['/v1/events/batch', headers],
      ['/v1/events/batch', lines],
      ['/v1/endpoints', headers],
    ] as const) {
      const { status, json } = await served.call('POST', path, bytes, sent)
      assert.equal(status, 415, path)
      assert.match(json.detail, /content-encoding "gzip"; send it without, or as raw bytes/)
    }
  })

  test('takes an empty body and no content type', async () => {
    const response = await fetch(`${served.url}/v1/events/ping`, { method: 'POST' })
    const { id } = (await response.json()) as { id: string }
    assert.equal(response.status, 202)
    const shown = (await served.call('GET', `/v1/events/${id}`)).json
    assert.deepEqual([shown.size, shown.contentType], [0, 'application/octet-stream'])
  })
})

describe('a CloudEvent', () => {
  const binary = { 'ce-specversion': '1.0', 'ce-id': 'A-1', 'ce-source': '/shop', 'ce-type': 'ce.binary' }

  for (const path of ['/v1/events', '/v1/events/whatever']) {
    test(`in binary mode is routed by its own type and travels on as one (${path})`, async () => {
      const headers = {
        ...binary,
        'ce-id': path,
        'ce-partitionkey': 'p',
        'ce-custom': 'x',
        'content-type': 'text/plain',
      }
      const reply = await served.call('POST', path, 'hello', headers)
      assert.equal(reply.status, 202)
      const received = await sink.next()
      assert.equal(received.body.toString(), 'hello')
      assert.deepEqual([received.headers['ce-id'], received.headers['ce-custom']], [path, 'x'])
      const { type, key } = (await served.call('GET', `/v1/events/${reply.json.id}`)).json
      assert.deepEqual([type, key], ['ce.binary', 'p'])
    })
  }

  test('in structured mode is kept byte for byte, its attributes as headers', async () => {
    const body = '{"specversion":"1.0", "id":"B-1","source":"/ä","type":"ce.structured","n":7,"data":{"a":1.0}}'
    const reply = await served.call('POST', '/v1/events/x', body, { 'content-type': 'application/cloudevents+json' })
    assert.equal(reply.status, 202)
    const received = await sink.next()
    assert.equal(received.body.toString(), body)
    assert.equal(received.headers['content-type'], 'application/cloudevents+json')
    assert.deepEqual([received.headers['ce-source'], received.headers['ce-n']], ['/%C3%A4', '7'])
  })

  test('is known again by source and id, whatever trace it comes with', async () => {
    const first = await served.call('POST', '/v1/events', 'x', { ...binary, 'content-type': 'text/plain' })
    await sink.next()
    const again = await served.call('POST', '/v1/events', 'x', { ...binary, 'content-type': 'text/plain' })
    assert.deepEqual([again.json.id, again.json.duplicate], [first.json.id, true])
    const trace = {
      'ce-traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'ce-tracestate': 'a=b',
    }
    const traced = await served.call('POST', '/v1/events', 'x', { ...binary, ...trace, 'content-type': 'text/plain' })
    assert.deepEqual([traced.json.id, traced.json.duplicate], [first.json.id, true])
    const other = await served.call('POST', '/v1/events', 'y', {
      ...binary,
      'ce-source': '/b',
      'content-type': 'text/plain',
    })
    assert.deepEqual([other.status, other.json.duplicate], [202, false])
    await sink.next()
  })

  test('that lacks required attributes is refused with all of them named', async () => {
    const reply = await served.call('POST', '/v1/events/x', 'x', { 'ce-specversion': '0.3', 'ce-id': '1' })
    const paths = reply.json.errors.map((error: { path: string }) => error.path)
    assert.deepEqual([reply.status, paths], [422, ['ce-source', 'ce-type', 'ce-specversion']])
    const type = { 'content-type': 'application/cloudevents+json' }
    const structured = await served.call('POST', '/v1/events/x', '{"specversion":"1.0","id":"","type":"a"}', type)
    assert.deepEqual(
      [structured.status, structured.json.errors.map((error: { path: string }) => error.path)],
      [422, ['id', 'source']],
    )
  })
})

describe('reading events', () => {
  test('lists them newest first, by filter and page', async () => {
    const tenant = 'lists'
    for (const n of [1, 2, 3]) await served.call('POST', '/v1/events', { type: `page.n${n}`, data: n, tenant })
    const first = (await served.call('GET', `/v1/events?tenant=${tenant}&limit=2`)).json
    assert.deepEqual(
      first.items.map((event: { type: string }) => event.type),
      ['page.n3', 'page.n2'],
    )
    const second = (await served.call('GET', `/v1/events?tenant=${tenant}&limit=2&cursor=${first.next}`)).json
    assert.deepEqual(
      second.items.map((event: { type: string }) => event.type),
      ['page.n1'],
    )
    assert.equal(second.next, null)
    const at = first.items[0].receivedAt
    assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const later = (await served.call('GET', `/v1/events?tenant=${tenant}&from=2100-01-01`)).json
    assert.deepEqual(later, { items: [], next: null })
  })

  test('knows no event that does not exist', async () => {
    for (const id of ['evt_00000000000000000000000', 'x', 'evt_%00', '..%2f']) {
      assert.equal((await served.call('GET', `/v1/events/${id}`)).status, 404, id)
      assert.equal((await served.call('GET', `/v1/events/${id}/body`)).status, 404, id)
    }
  })
})
