import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { rawExchange } from './inbound-scene.ts'
import { openServed, type Served } from './served.ts'

const event = '{"type":"a","data":1}'

describe('without an API key', () => {
  let served: Served
  before(async () => {
    served = await openServed()
  })
  after(() => served.stop())

  const paths: readonly [string, string][] = [
    ['POST', '/v1/events'],
    ['POST', '/v1/events/batch'],
    ['GET', '/v1/deliveries'],
    ['GET', '/metrics'],
    ['GET', '/nowhere'],
  ]

  test('a request target that names the server is served, and its host counts instead of the Host header', async () => {
    const { port } = new URL(served.url)
    const ask = (target: string) =>
      rawExchange(served.url, `GET ${target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`)
    assert.match(await ask(`http://127.0.0.1:${port}/healthz`), /^HTTP\/1\.1 200 /)
    assert.match(await ask(`HTTP://localhost:${port}/v1/events?limit=1`), /^HTTP\/1\.1 200 /)
    assert.match(await ask(`http://127.0.0.1:${port}/in/nobody`), /^HTTP\/1\.1 404 .*There is no source/s)
    assert.match(await ask('http://evil.example/v1/events'), /^HTTP\/1\.1 403 /)
  })

  test('only loopback names in Host are served, so that DNS rebinding gets nowhere', async () => {
    const { port } = new URL(served.url)
    for (const host of ['localhost', `localhost:${port}`, '127.0.0.1', '127.9.9.9:1', '[::1]:4800', 'LOCALHOST']) {
      assert.equal(await statusOf(served, 'POST', '/v1/events', { host }, event), 202, host)
    }
    for (const host of [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example:80',
      '10.0.0.1',
      '0.0.0.0',
      'x',
    ]) {
      for (const [method, path] of paths) assert.equal(await statusOf(served, method, path, { host }, event), 403, host)
    }
  })

  test('only pages of the same origin are served, so that no web page can send events', async () => {
    const { host } = new URL(served.url)
    assert.equal(await statusOf(served, 'POST', '/v1/events', { origin: `http://${host}` }, event), 202)
    for (const origin of [
      'https://evil.example',
      'null',
      `https://${host}`,
      'http://127.0.0.1',
      `http://${host}.evil.example`,
    ]) {
      for (const [method, path] of paths)
        assert.equal(await statusOf(served, method, path, { origin }, event), 403, origin)
    }
    const preflight = await fetch(`${served.url}/v1/events`, {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example' },
    })
    assert.equal(preflight.headers.get('access-control-allow-origin'), null)
  })

  test('what came through a proxy or a tunnel is refused, on every route, and told what to do', async () => {
    const host = 'localhost'
    const passedOn: readonly Record<string, string>[] = [
      { forwarded: 'for=192.0.2.1' },
      { via: '1.1 tunnel' },
      { 'x-real-ip': '192.0.2.1' },
      { 'x-forwarded-for': '192.0.2.1' },
      { 'X-Forwarded-Proto': 'https' },
      { 'x-forwarded-anything': '' },
    ]
    const all = [...paths, ['GET', '/v1/stream'], ['POST', '/v1/keys'], ['GET', '/v1/events/evt_0/body']] as const
    for (const headers of passedOn) {
      for (const [method, path] of all) {
        assert.equal(await statusOf(served, method, path, { host, ...headers }, event), 403, `${method} ${path}`)
      }
    }
    const told = await served.call('GET', '/v1/endpoints', undefined, { 'x-forwarded-for': '192.0.2.1' })
    assert.equal(told.json.type, 'urn:posthorn:problem:forbidden')
    assert.match(told.json.detail, /x-forwarded-for.*POSTHORN_API_KEY.*POSTHORN_PUBLIC_PORT/)
  })

  test('what came through a tunnel is served with a key, on open routes, and to sources', async () => {
    const made = await served.call('POST', '/v1/keys', { role: 'read' })
    const through = { host: 'localhost', 'x-forwarded-for': '192.0.2.1' }
    const authorization = `Bearer ${made.json.key}`
    assert.equal(await statusOf(served, 'GET', '/v1/endpoints', { ...through, authorization }), 200)
    assert.equal(await statusOf(served, 'GET', '/healthz', through), 200)
    await served.call('POST', '/v1/sources', { name: 'tunnelled', provider: 'none' })
    assert.equal(await statusOf(served, 'POST', '/in/tunnelled', through, event), 202)
  })

  test('nothing that was refused is kept', async () => {
    const events = (await served.call('GET', '/v1/events?limit=500')).json.items.length
    await statusOf(served, 'POST', '/v1/events', { host: 'evil.example' }, event)
    assert.equal((await served.call('GET', '/v1/events?limit=500')).json.items.length, events)
  })

  test('probes are answered whatever the Host', async () => {
    for (const path of ['/healthz', '/readyz']) {
      assert.equal(await statusOf(served, 'GET', path, { host: '10.1.2.3:4800' }), 200)
    }
  })
})

describe('with an API key', () => {
  const key = 'a-key-of-some-length'
  let served: Served
  before(async () => {
    served = await openServed({ POSTHORN_API_KEY: key })
  })
  after(() => served.stop())

  test('who sends it is served, under any name and from any origin', async () => {
    const headers = { authorization: `Bearer ${key}`, host: 'hooks.example', origin: 'https://shop.example' }
    assert.equal(await statusOf(served, 'POST', '/v1/events', headers, event), 202)
    assert.equal(await statusOf(served, 'GET', '/v1/events', { ...headers, authorization: `bearer  ${key}` }), 200)
  })

  test('who does not is told how, with 401', async () => {
    const wrong = [
      '',
      'Bearer',
      'Bearer ',
      `Bearer ${key}x`,
      `Bearer ${key.slice(1)}`,
      `Basic ${key}`,
      key,
      `Bearer x ${key}`,
    ]
    for (const authorization of wrong) {
      for (const [method, path] of [
        ['POST', '/v1/events'],
        ['GET', '/v1/endpoints'],
        ['GET', '/metrics'],
      ] as const) {
        assert.equal(await statusOf(served, method, path, { authorization }, event), 401, authorization)
      }
    }
    for (const path of ['/v1/events', '/v1/events/batch', '/v1/nowhere']) {
      const reply = await served.call('POST', path, event)
      assert.equal(reply.status, 401)
      assert.equal(reply.headers.get('www-authenticate'), 'Bearer realm="posthorn"')
      assert.equal(reply.json.type, 'urn:posthorn:problem:unauthorized')
    }
  })

  test('probes need no key', async () => {
    assert.equal((await served.call('GET', '/healthz')).json.status, 'ok')
    assert.deepEqual((await served.call('GET', '/readyz')).json, { status: 'ready', reasons: [], paused: false })
  })
})

/** fetch does not let a client choose its Host. */
function statusOf(
  served: Served,
  method: string,
  path: string,
  headers: Record<string, string>,
  body = '',
): Promise<number> {
  return new Promise((resolve, reject) => {
    const content: Record<string, string> = method === 'GET' ? {} : { 'content-type': 'application/json' }
    const sent = request(`${served.url}${path}`, { method, headers: { ...content, ...headers } }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject)
    sent.end(method === 'GET' ? undefined : body)
  })
}
