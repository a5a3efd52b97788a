import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, afterEach, before, describe, test } from 'node:test'
import { openServed, type Reply, type Served } from './served.ts'

let served: Served

before(async () => {
  served = await openServed()
  assert.equal((await served.call('POST', '/v1/events', { type: 'kept', data: 1 })).status, 202)
})
after(() => served.stop())

afterEach(async () => {
  const { items } = (await served.call('GET', '/v1/events')).json
  const types = items.map((event: { type: string }) => event.type)
  assert.deepEqual(types, ['kept'], 'what was refused is not kept, what was kept is not lost')
})

const send = (body: string | Uint8Array) => served.call('POST', '/v1/events', body)

function problem(reply: Reply, status: number, detail: RegExp): void {
  assert.equal(reply.status, status, reply.text)
  assert.equal(reply.headers.get('content-type'), 'application/problem+json')
  assert.equal(reply.json.status, status)
  assert.match(reply.json.type, /^urn:posthorn:problem:[a-z_]+$/)
  assert.ok(reply.json.title.length > 0)
  assert.match(reply.json.detail, detail)
}

function errorsOf(reply: Reply): Record<string, string> {
  assert.equal(reply.status, 422, reply.text)
  return Object.fromEntries(
    reply.json.errors.map((error: { path: string; message: string }) => [error.path, error.message]),
  )
}

describe('a bad event is refused with a clear error:', () => {
  test('malformed JSON', async () => {
    problem(await send('{"type":"a","data":}'), 400, /has } where a value should be \(at byte 19\)/)
    problem(await send('{"type":"a","data":1'), 400, /ends where a comma or } should be/)
    problem(await send(''), 400, /must be an object/)
    problem(await send('[]'), 400, /must be an object/)
    problem(await send('type=a&data=1'), 400, /must be an object/)
  })

  test('wrong types, all fields at once', async () => {
    const body = { type: 5, key: {}, tenant: [], headers: 'x', idempotencyKey: true }
    assert.deepEqual(errorsOf(await send(JSON.stringify(body))), {
      type: 'must be a text',
      data: 'is required',
      key: 'must be a text',
      tenant: 'must be a text',
      headers: 'must be an object of texts',
      idempotencyKey: 'must be a text',
    })
  })

  test('unknown fields, with a hint', async () => {
    const errors = errorsOf(await send('{"typ":"a","data":1,"colour":2,"Key":"x"}'))
    assert.equal(errors.typ, 'is not a field; did you mean type?')
    assert.equal(errors.Key, 'is not a field; did you mean key?')
    assert.equal(errors.colour, 'is not a field')
    assert.equal(errors.type, 'is required')
  })

  test('__proto__ as a field and as a header', async () => {
    const field = errorsOf(await send('{"type":"a","data":1,"__proto__":{"tenant":"x"}}'))
    assert.deepEqual(Object.keys(field), ['__proto__'])
    const header = errorsOf(await send('{"type":"a","data":1,"headers":{"__proto__":5}}'))
    assert.deepEqual(Object.keys(header), ['headers.__proto__'])
  })

  test('more than 32 headers', async () => {
    const headers = `{${Array.from({ length: 33 }, (_, i) => `"x-${i}":"1"`).join(',')}}`
    assert.match(errorsOf(await send(`{"type":"a","data":1,"headers":${headers}}`)).headers ?? '', /at most 32/)
  })

  test('an empty type, a type of 10 kB, a type with odd characters', async () => {
    for (const type of ['', 'x'.repeat(10_000), 'a b', '.a', 'a..b', 'ä', '*']) {
      const inBody = await send(JSON.stringify({ type, data: 1 }))
      assert.match(errorsOf(inBody).type ?? '', /must/)
      if (type === '') continue
      const inPath = await served.call('POST', `/v1/events/${encodeURIComponent(type)}`, 'x')
      assert.match(errorsOf(inPath).type ?? '', /must/)
    }
  })

  test("a type that only Posthorn's own notifications have, on every way in", async () => {
    const type = 'posthorn.dead_letters'
    const refusals = [
      errorsOf(await send(JSON.stringify({ type, data: 1 }))).type,
      errorsOf(await served.call('POST', '/v1/events/batch', [{ type, data: 1 }]))['[0].type'],
      errorsOf(await served.call('POST', `/v1/events/${type}`, 'bytes')).type,
    ]
    for (const refusal of refusals) assert.match(refusal ?? '', /must not begin with posthorn\./)
  })

  test('a key of 100 kB, an empty one, one of 255 characters but more bytes', async () => {
    for (const key of ['x'.repeat(100_000), '', 'ä'.repeat(255)]) {
      assert.equal(errorsOf(await send(JSON.stringify({ type: 'a', data: 1, key }))).key, 'must have 1 to 255 bytes')
    }
  })

  test('a tenant with odd characters or too long', async () => {
    for (const tenant of ['', 'a b', 'x'.repeat(65), '../x']) {
      assert.match(errorsOf(await send(JSON.stringify({ type: 'a', data: 1, tenant }))).tenant ?? '', /1 to 64/)
    }
  })

  test('a body of 17 MiB, with and without a length, and an event over its limit in a batch', async () => {
    const large = Buffer.alloc(17 * 1024 * 1024, 0x20)
    for (const path of ['/v1/events', '/v1/events/batch', '/v1/events/a', '/v1/endpoints']) {
      problem(await served.call('POST', path, large), 413, /larger/)
    }
    for (const path of ['/v1/events', '/v1/events/batch']) assert.equal(await chunked(path, large), 413)
    const item = `[{"type":"a","data":1},{"type":"a","data":"${'x'.repeat(1_048_577)}"}]`
    problem(await served.call('POST', '/v1/events/batch', item), 413, /event \[1\] is larger/)
  })

  test('a batch of 10,001 events', async () => {
    const batch = `[${'{"type":"a","data":1},'.repeat(10_000)}{"type":"a","data":1}]`
    problem(await served.call('POST', '/v1/events/batch', batch), 413, /10000 events/)
  })

  test('deep nesting', async () => {
    const deep = `{"type":"a","data":${'['.repeat(500_000)}${']'.repeat(500_000)}}`
    problem(await send(deep), 400, /nested more than 100 levels/)
  })

  test('a key that comes twice, also deeper', async () => {
    problem(await send('{"type":"a","data":1,"headers":{"x":"1","x":"2"}}'), 400, /the key "x" twice inside "headers"/)
    const endpoint = '{"url":"https://a.example","retry":{"preset":"webhook","preset":"patient"}}'
    problem(await served.call('POST', '/v1/endpoints', endpoint), 400, /the key "preset" twice inside "retry"/)
    problem(await send('{"type":"a","data":1,"type":"b"}'), 400, /has the key "type" twice \(at byte 21\)/)
  })

  test('bytes that are not UTF-8', async () => {
    const bytes = Buffer.concat([Buffer.from('{"type":"a","data":"'), Buffer.from([0xff]), Buffer.from('"}')])
    problem(await send(bytes), 400, /is not UTF-8 \(at byte 20\)/)
  })

  test('half a surrogate pair, in data as well', async () => {
    problem(await send('{"type":"a","data":"\\ud800"}'), 400, /surrogate/)
    problem(await send('{"type":"a","data":1,"key":"\\udfff"}'), 400, /surrogate/)
  })

  test('headers that would change the request or inject another', async () => {
    const headers = { Host: 'x', 'content-length': '1', 'webhook-id': 'x', 'x-a': 'a\r\nx-b: c', 'a b': '1', 'x-n': 1 }
    const errors = errorsOf(await send(JSON.stringify({ type: 'a', data: 1, headers })))
    assert.deepEqual(
      Object.keys(errors).sort(),
      Object.keys(headers)
        .map((name) => `headers.${name}`)
        .sort(),
    )
    assert.match(
      errorsOf(await send('{"type":"a","data":1,"headers":{"X-A":"1","x-a":"2"}}'))['headers.x-a'] ?? '',
      /twice/,
    )
  })

  test('a content type that is not JSON', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    problem(await served.call('POST', '/v1/events', '{"type":"a","data":1}', form), 415, /send JSON with content-type/)
    problem(await served.call('POST', '/v1/events/batch', '[]', form), 415, /x-ndjson/)
    problem(await served.call('POST', '/v1/endpoints', '{}', form), 415, /application\/json/)
  })

  test('a batch of events that are all wrong, of which the first hundred fields are listed and the rest counted', async () => {
    const wrong = `{"type":"a","data":1,${Array.from({ length: 60 }, (_, n) => `"f${n}":1`).join(',')}}`
    const reply = await served.call('POST', '/v1/events/batch', `[${`${wrong},`.repeat(999)}${wrong}]`)
    problem(reply, 422, /the first 100 are listed, and 998 more events are not valid/)
    assert.equal(reply.json.errors.length, 100)
    assert.equal(reply.json.errors[99].path, '[1].f39')
  })

  test('a batch with wrong events in it, every field with its path', async () => {
    const reply = await served.call(
      'POST',
      '/v1/events/batch',
      '[{"type":"a","data":1},{"type":"","x":1},{"headers":{"host":"a"}}]',
    )
    assert.deepEqual(Object.keys(errorsOf(reply)).sort(), [
      '[1].data',
      '[1].type',
      '[1].x',
      '[2].data',
      '[2].headers.host',
      '[2].type',
    ])
  })

  test('a batch that is no array of objects, with the place', async () => {
    problem(await served.call('POST', '/v1/events/batch', '{}'), 400, /must be an array/)
    problem(
      await served.call('POST', '/v1/events/batch', '[{"type":"a","data":1},5]'),
      400,
      /event \[1\] must be an object.*byte 23/,
    )
    const lines = '{"type":"a","data":1}\n\n{"type":"a","data":}\n'
    const headers = { 'content-type': 'application/x-ndjson' }
    problem(await served.call('POST', '/v1/events/batch', lines, headers), 400, /Line 3 has }/)
  })

  test('an idempotency key for a whole batch', async () => {
    const reply = await served.call('POST', '/v1/events/batch', [], { 'idempotency-key': 'k' })
    assert.match(errorsOf(reply)['Idempotency-Key'] ?? '', /its own idempotencyKey/)
  })

  test('a batch with more errors than anyone can read', async () => {
    const reply = await served.call('POST', '/v1/events/batch', `[${'{},'.repeat(9_999)}{}]`)
    assert.equal(reply.json.errors.length, 100)
    assert.match(reply.json.detail, /9950 more events/)
  })

  test('a flood of unknown fields, of which a hundred are told, with names cut short', async () => {
    const flood = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`field${n}`, 1]))
    const reply = await served.call('POST', '/v1/events', { type: 'a', data: 1, ...flood })
    assert.deepEqual([reply.status, reply.json.errors.length], [422, 100])
    const long = await served.call('POST', '/v1/events', { type: 'a', data: 1, ['x'.repeat(500_000)]: 1 })
    assert.ok(long.status === 422 && long.text.length < 2_000, `${long.text.length}`)
  })

  test('a provider that is no text, and a header that every object has', async () => {
    const odd = { name: 'odd', provider: { toString: 1 } }
    assert.equal((await served.call('POST', '/v1/sources', odd)).status, 422)
    const hmac = { header: 'constructor', idHeader: 'toString' }
    const made = { name: 'odd', provider: 'hmac', secret: 'a secret of some length', hmac }
    assert.equal((await served.call('POST', '/v1/sources', made)).status, 201)
    assert.equal((await served.call('POST', '/in/odd', { a: 1 })).status, 401)
  })

  test('unknown query parameters', async () => {
    problem(await served.call('POST', '/v1/events?key=a', '{"type":"a","data":1}'), 400, /takes no query/)
    const reply = await served.call('POST', '/v1/events/a?kye=a&tenant=b&tenant=c', 'x')
    assert.deepEqual(Object.keys(errorsOf(reply)), ['tenant', 'kye'])
    const list = errorsOf(await served.call('GET', '/v1/events?limit=501&cursor=abc&from=soon&typ=x&type=a%20b'))
    assert.deepEqual(Object.keys(list).sort(), ['cursor', 'from', 'limit', 'typ', 'type'])
  })
})

describe('what is not there', () => {
  test('is 404 for an unknown path and 405 for an unknown method, as a problem', async () => {
    problem(await served.call('GET', '/v2/events'), 404, /no \/v2\/events here/)
    problem(await served.call('GET', '/'), 404, /here/)
    const reply = await served.call('DELETE', '/v1/events')
    problem(reply, 405, /only GET, HEAD, POST/)
    assert.equal(reply.headers.get('allow'), 'GET, HEAD, POST')
    problem(await served.call('PUT', '/v1/endpoints/ep_1', {}), 405, /PATCH/)
  })

  test('is 400 for a path that cannot be decoded', async () => {
    problem(await served.call('GET', '/v1/events/%E0%A4%A'), 400, /./)
  })
})

function chunked(path: string, body: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    const sent = request(`${served.url}${path}`, { method: 'POST', headers }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
