// Where hubs connect: who is let in, who is not, and what that costs.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTo } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { Relay } from '../../src/core/relay.ts'
import { boundedServer, closeWithin, listenAt } from '../../src/server/listening.ts'
import { openRelayPath } from '../../src/server/relay-path.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { freePort } from '../support/server-process.ts'
import { aRelay, openScene } from '../transports/relay-scene.ts'
import { type Json, openServed, type Served } from './served.ts'

const apiKey = 'the-key-of-the-configuration'
const admin = { authorization: `Bearer ${apiKey}` }

const upgradeHeaders = {
  host: 'edge.example',
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': Buffer.alloc(16).toString('base64'),
}

/** Asks for an upgrade by hand and reads until the other side ends. Our own half stays open. */
async function refusedAt(base: string, headers: Record<string, string> = {}, path = '/v1/relay') {
  const { port, hostname } = new URL(base)
  const socket = connectTo({ port: Number(port), host: hostname, allowHalfOpen: true })
  const all = Object.entries({ ...upgradeHeaders, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET ${path} HTTP/1.1\r\n${all.join('')}\r\n`)
  let text = ''
  socket.on('data', (data) => {
    text += data
  })
  await once(socket, 'end')
  socket.destroy()
  const [head = '', body = ''] = text.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), head, json: body.startsWith('{') ? JSON.parse(body) : null }
}

const withKey = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })
const at = (base: string) => `${base.replace('http', 'ws')}/v1/relay`

describe('a hub', () => {
  let served: Served
  let publicUrl: string
  before(async () => {
    const port = await freePort()
    publicUrl = `http://127.0.0.1:${port}`
    const open = { POSTHORN_PUBLIC_PORT: String(port), POSTHORN_PUBLIC_HOST: '127.0.0.1' }
    served = await openServed({ POSTHORN_API_KEY: apiKey, ...open })
  })
  after(() => served.stop())

  const created = async (body: object): Promise<Json> => {
    const reply = await served.call('POST', '/v1/relays', body, admin)
    assert.equal(reply.status, 201, reply.text)
    return reply.json
  }
  const hubAt = async (t: TestContext, base: string, key: string, hello = {}) => {
    const hub = await ScriptedHub.connect(at(base), hello, withKey(key))
    t.after(() => hub.ws.terminate())
    return hub
  }
  const shown = async (id: string) => (await served.call('GET', `/v1/relays/${id}`, undefined, admin)).json

  test('comes in with its key, on both ports, and is shown as connected', async (t) => {
    const { id, key } = await created({ name: 'both' })
    await hubAt(t, served.url, key, { session: 'a' })
    assert.equal((await shown(id)).connected, true)
    const hub = await hubAt(t, publicUrl, key, { session: 'b' })
    hub.ws.close()
    await hub.closed
    assert.equal((await shown(id)).connected, false)
  })

  test('gets the deliveries of its endpoint, and what it answers is what they become', async (t) => {
    const { key } = await created({ name: 'work', tenant: 'acme' })
    const stranger = await created({ name: 'work', tenant: 'zeta' })
    const made = await served.call(
      'POST',
      '/v1/endpoints',
      { kind: 'relay', relay: 'work', route: 'github', tenant: 'acme', types: ['push'] },
      admin,
    )
    assert.equal(made.status, 201, made.text)
    const other = await hubAt(t, served.url, stranger.key)
    const hub = await hubAt(t, served.url, key)
    const sent = await served.call('POST', '/v1/events', { type: 'push', tenant: 'acme', data: { a: 1 } }, admin)
    assert.equal(sent.status, 202, sent.text)
    const frame = await hub.next('deliver')
    assert.deepEqual(JSON.parse(Buffer.from(frame.body).toString()).data, { a: 1 })
    hub.ack(frame, { kind: 'answered', statusCode: 404, headers: {}, body: 'no such hook' })
    let delivery: Json = null
    while (delivery?.status !== 'failed') {
      delivery = (await served.call('GET', `/v1/deliveries/${frame.head.delivery}`, undefined, admin)).json
    }
    assert.match(delivery.lastError, /404/)
    assert.equal(
      other.heard.some(({ kind }) => kind === 'deliver'),
      false,
      'another tenant has a relay of the same name',
    )
  })

  test('is cut off when its relay is revoked, and does not come back', async () => {
    const { id, key } = await created({ name: 'revoked' })
    const hub = await ScriptedHub.connect(at(publicUrl), {}, withKey(key))
    assert.equal((await served.call('DELETE', `/v1/relays/${id}`, undefined, admin)).status, 204)
    assert.equal((await hub.closed).code, 4401)
    for (const base of [served.url, publicUrl]) {
      assert.equal((await refusedAt(base, withKey(key).headers)).status, 401)
    }
  })

  test('without a good key is refused with a problem, and its connection is ended', async () => {
    const kept = await served.call('POST', '/v1/keys', { name: 'k', role: 'admin' }, admin)
    const wrong: Record<string, string>[] = [
      {},
      { authorization: '' },
      admin,
      { authorization: `Bearer ${kept.json.key}` },
      { authorization: 'Bearer phr_' },
      { authorization: `Bearer phr_${'x'.repeat(43)}` },
      { authorization: `Bearer phr_${'x'.repeat(9_000)}` },
      { authorization: 'Basic cGhyX3g6cGhyX3g=' },
    ]
    for (const base of [served.url, publicUrl]) {
      for (const headers of wrong) {
        const { status, head, json } = await refusedAt(base, headers)
        assert.equal(status, 401, JSON.stringify(headers))
        assert.equal(json.type, 'urn:posthorn:problem:unauthorized')
        assert.match(head, /content-type: application\/problem\+json/)
        assert.match(head, /www-authenticate: Bearer/)
        assert.match(head, /connection: close/)
      }
    }
  })

  test('does not keep others out by asking in vain, however often', async (t) => {
    const asking = Array.from({ length: 200 }, () => refusedAt(publicUrl, { authorization: 'Bearer phr_guess' }))
    const statuses = new Set((await Promise.all(asking)).map(({ status }) => status))
    assert.deepEqual(statuses, new Set([401]))
    const { id, key } = await created({ name: 'after-the-flood' })
    await hubAt(t, publicUrl, key)
    assert.equal((await shown(id)).connected, true)
  })

  test('that sends nonsense for a handshake is refused', async () => {
    const { key } = await created({ name: 'nonsense' })
    const headers = { ...withKey(key).headers, 'sec-websocket-key': 'short' }
    assert.equal((await refusedAt(served.url, headers)).status, 400)
  })

  test('is told to ask for a WebSocket where it asks for a page', async () => {
    const reply = await served.call('GET', '/v1/relay')
    assert.deepEqual([reply.status, reply.json.type], [426, 'urn:posthorn:problem:upgrade_required'])
    assert.equal(reply.headers.get('upgrade'), 'websocket')
    assert.equal((await fetch(`${publicUrl}/v1/relay`)).status, 404)
  })
})

describe('other requests that ask for an upgrade', () => {
  test('are served as if they had not', async () => {
    const served = await openServed()
    try {
      const loopback = { host: 'localhost', connection: 'Upgrade, close' }
      assert.equal((await refusedAt(served.url, loopback, '/v1/relays')).status, 200)
      assert.equal((await refusedAt(served.url, loopback, '/v1/relayed')).status, 404)
      assert.equal((await refusedAt(served.url, { ...loopback, upgrade: 'h2c' }, '/healthz')).status, 200)
    } finally {
      await served.stop()
    }
  })
})

describe('a link over a server of ours', () => {
  async function openEdge(t: TestContext, isStopping = () => false, refresh: (() => Promise<void>) | null = null) {
    const relay: Relay = aRelay()
    const { transport, log, logged } = await openScene(t)
    const keys = new Set(['phr_good'])
    const find = (key: string) => (keys.has(key) ? relay : null)
    const upgrades = openRelayPath({ find, refresh, gate: transport, isStopping, log, now: Date.now })
    const timeouts = { headersTimeout: 200, requestTimeout: 200, connectionsCheckingInterval: 10 }
    const server = boundedServer({ timeouts, connectionsMax: 1_000, upgrades }, (_, response) => response.end('page'))
    const url = await listenAt(server, { host: '127.0.0.1', port: 0, setting: 'X' })
    t.after(() => closeWithin(server, 0))
    return { server, url, transport, relay, logged, keys }
  }

  test('is not cut by the timeouts of requests', async (t) => {
    const { url, transport, relay } = await openEdge(t)
    const hub = await ScriptedHub.connect(at(url), {}, withKey('phr_good'))
    for (let i = 0; i < 3; i += 1) {
      // A request that never comes to its end is, and it began after the link.
      const slow = connectTo(Number(new URL(url).port), '127.0.0.1')
      slow.on('error', () => {})
      slow.write('GET / HTTP/1.1\r\n')
      await once(slow.resume(), 'close')
    }
    await hub.settled()
    assert.notEqual(transport.linkOf(relay.id), null)
  })

  test('does not keep the server from closing, which waits for requests alone', async (t) => {
    const { url, server, transport, relay } = await openEdge(t)
    const hub = await ScriptedHub.connect(at(url), {}, withKey('phr_good'))
    assert.equal(await (await fetch(url)).text(), 'page')
    await closeWithin(server, 60_000)
    await hub.settled()
    assert.notEqual(transport.linkOf(relay.id), null, 'it is the transport that ends it')
    await transport.close()
    assert.equal((await hub.closed).code, 1012)
  })

  test('begins with a key that another process has just made', async (t) => {
    const { url, keys, transport, relay } = await openEdge(t, undefined, async () => {
      keys.add('phr_new')
    })
    const hub = await ScriptedHub.connect(at(url), {}, withKey('phr_new'))
    await hub.settled()
    assert.notEqual(transport.linkOf(relay.id), null)
  })

  test('with a key that nobody has made is looked for once for all who come together, and refused', async (t) => {
    let looks = 0
    const { url } = await openEdge(t, undefined, async () => {
      looks += 1
    })
    const refused = await Promise.all(Array.from({ length: 10 }, () => refusedAt(url, withKey('phr_bad').headers)))
    assert.deepEqual(new Set(refused.map(({ status }) => status)), new Set([401]))
    assert.ok(looks <= 2, `${looks} looks`)
    const before = looks
    assert.equal((await refusedAt(url, withKey('phk_bad').headers)).status, 401)
    assert.equal(looks, before, 'it is none of a hub at all')
  })

  test('is not refused for good while nobody can say whether its key exists', async (t) => {
    const { url } = await openEdge(t, undefined, () => Promise.reject(new Error('no database')))
    const { status, json } = await refusedAt(url, withKey('phr_new').headers)
    assert.deepEqual([status, json.type], [503, 'urn:posthorn:problem:store_unavailable'])
  })

  test('is not begun while we stop', async (t) => {
    const { url } = await openEdge(t, () => true)
    const { status, head, json } = await refusedAt(url, withKey('phr_good').headers)
    assert.deepEqual([status, json.type], [503, 'urn:posthorn:problem:shutting_down'])
    assert.match(head, /retry-after: \d/)
  })

  test('that is refused again and again fills no log', async (t) => {
    const { url, logged } = await openEdge(t)
    for (let i = 0; i < 20; i += 1) await refusedAt(url)
    assert.equal(logged.filter(({ message }) => message === 'relay.refused').length, 1)
  })

  test('ends with an app that stops, which does not wait for it', async () => {
    const served = await openServed()
    const { json } = await served.call('POST', '/v1/relays', { name: 'home' })
    const hub = await ScriptedHub.connect(at(served.url), {}, withKey(json.key))
    const stopping = served.stop()
    await hub.next('drain')
    assert.equal((await hub.closed).code, 1012)
    await stopping
  })
})
