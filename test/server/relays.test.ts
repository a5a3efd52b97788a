// The hubs that may connect: their keys, what is shown of them, and how they are shut out.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, describe, type TestContext, test } from 'node:test'
import { Relays } from '../../src/server/relays.ts'
import { itemsOf } from '../support/registry.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import { type Json, openServed, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-key-of-the-configuration' }
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

describe('the relays API', () => {
  let served: Served
  before(async () => {
    served = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration' })
  })
  after(() => served.stop())

  async function keyFor(body: object): Promise<Record<string, string>> {
    return bearer((await served.call('POST', '/v1/keys', body, admin)).json.key)
  }
  async function created(body: object, who: Record<string, string> = admin): Promise<Json> {
    const reply = await served.call('POST', '/v1/relays', body, who)
    assert.equal(reply.status, 201, reply.text)
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    return reply.json
  }

  test('shows the key of a new relay once, and never again', async () => {
    const { key, ...made } = await created({ name: 'once' })
    assert.match(key, /^phr_[\w-]{43}$/)
    assert.deepEqual(Object.keys(made).sort(), ['createdAt', 'id', 'name', 'tenant'])
    assert.match(made.id, /^rly_/)
    assert.deepEqual([made.name, made.tenant], ['once', 'default'])
    for (const path of ['/v1/relays', `/v1/relays/${made.id}`, '/v1/relays/once']) {
      const shown = await served.call('GET', path, undefined, admin)
      assert.equal(shown.status, 200)
      assert.ok(shown.text.includes(made.id))
      assert.ok(!shown.text.includes('phr_') && !shown.text.includes('hash'), shown.text)
    }
  })

  test('takes a name once per tenant', async () => {
    const first = await created({ name: 'twice', tenant: 'acme' })
    const again = await served.call('POST', '/v1/relays', { name: 'twice', tenant: 'acme' }, admin)
    assert.deepEqual([again.status, again.json.type], [409, 'urn:posthorn:problem:conflict'])
    assert.match(again.json.detail, /twice/)
    const elsewhere = await created({ name: 'twice', tenant: 'globex' })
    assert.notEqual(elsewhere.id, first.id)
  })

  test('tells what is wrong with a name, and with every other field', async () => {
    const reply = await served.call('POST', '/v1/relays', { name: 'Home Hub', tennant: 'acme' }, admin)
    assert.equal(reply.status, 422)
    const errors = Object.fromEntries(reply.json.errors.map(({ path, message }: Json) => [path, message]))
    assert.match(errors.name, /lower-case letters/)
    assert.match(errors.tennant, /did you mean tenant\?/)
  })

  test('refuses a name that two tenants have to who sees both, and tells them apart for who sees one', async () => {
    const [ours, theirs] = [
      await created({ name: 'shared', tenant: 'acme' }),
      await created({ name: 'shared', tenant: 'globex' }),
    ]
    for (const [method, path] of [
      ['GET', '/v1/relays/shared'],
      ['DELETE', '/v1/relays/shared'],
      ['POST', '/v1/relays/shared/rotate-key'],
    ] as const) {
      const reply = await served.call(method, path, undefined, admin)
      assert.equal(reply.status, 409, `${method} ${path}`)
      assert.match(reply.json.detail, /2 tenants have a relay that is named shared: name it by its id/)
    }
    const acme = await keyFor({ role: 'admin', tenant: 'acme' })
    assert.equal((await served.call('GET', '/v1/relays/shared', undefined, acme)).json.id, ours.id)
    assert.equal((await served.call('DELETE', '/v1/relays/shared', undefined, acme)).status, 204)
    assert.equal((await served.call('GET', '/v1/relays/shared', undefined, admin)).json.id, theirs.id)
  })

  test('lets readers read, and administrators alone change', async () => {
    const { id } = await created({ name: 'roles' })
    const read = await keyFor({ role: 'read' })
    const send = await keyFor({ role: 'send' })
    const calls: readonly [string, string, unknown, number, number][] = [
      ['GET', '/v1/relays', undefined, 200, 403],
      ['GET', `/v1/relays/${id}`, undefined, 200, 403],
      ['POST', '/v1/relays', { name: 'other' }, 403, 403],
      ['POST', `/v1/relays/${id}/rotate-key`, undefined, 403, 403],
      ['DELETE', `/v1/relays/${id}`, undefined, 403, 403],
    ]
    for (const [method, path, body, whenRead, whenSend] of calls) {
      assert.equal((await served.call(method, path, body, read)).status, whenRead, `${method} ${path}`)
      assert.equal((await served.call(method, path, body, send)).status, whenSend, `${method} ${path}`)
    }
  })

  test('is no way in: the key of a relay opens nothing of it', async () => {
    const { key } = await created({ name: 'not-an-admin' })
    for (const path of ['/v1/relays', '/v1/events', '/v1/endpoints']) {
      assert.equal((await served.call('GET', path, undefined, bearer(key))).status, 401, path)
    }
  })

  test('gives pages of one tenant, oldest first', async () => {
    const names = ['a', 'b', 'c']
    for (const name of names) await created({ name, tenant: 'paged' })
    const first = await served.call('GET', '/v1/relays?tenant=paged&limit=2', undefined, admin)
    const second = await served.call('GET', `/v1/relays?tenant=paged&cursor=${first.json.next}`, undefined, admin)
    assert.deepEqual(
      [...first.json.items, ...second.json.items].map((item) => item.name),
      names,
    )
    assert.equal(second.json.next, null)
  })
})

describe('a relay', () => {
  let served: Served
  before(async () => {
    served = await openServed()
  })
  after(() => served.stop())

  const created = async (name: string): Promise<Json> => (await served.call('POST', '/v1/relays', { name })).json
  const shownOf = async (id: string): Promise<Json> => (await served.call('GET', `/v1/relays/${id}`)).json

  const address = () => `${served.url.replace('http:', 'ws:')}/v1/relay`

  async function hubOf(t: TestContext, key: string): Promise<ScriptedHub> {
    const hub = await ScriptedHub.connect(address(), { software: 'posthorn/1.2.0' }, { headers: bearer(key) })
    t.after(() => hub.ws.terminate())
    return hub
  }

  /** What somebody with this key is answered who wants to connect. */
  async function refusalOf(key: string): Promise<number | undefined> {
    const { ws } = new ScriptedHub(address(), { headers: bearer(key) })
    const [, response] = await once(ws, 'unexpected-response')
    ws.terminate()
    return response.statusCode
  }

  test('is shown as away, with what waits for it, while its hub is not connected', async () => {
    const { id } = await created('away')
    const endpoints = []
    for (const route of ['one', 'two']) {
      const body = { kind: 'relay', relay: 'away', route, types: ['order.*'] }
      endpoints.push((await served.call('POST', '/v1/endpoints', body)).json.id)
    }
    const send = (data: number) => served.call('POST', '/v1/events', { type: 'order.created', data })
    const first = await send(1)
    await send(2)
    await send(3)
    const { receivedAt } = (await served.call('GET', `/v1/events/${first.json.id}`)).json
    const shown = await shownOf(id)
    assert.deepEqual(
      { ...shown, createdAt: '' },
      {
        ...{ id, name: 'away', tenant: 'default', createdAt: '' },
        ...{ connected: false, member: null, since: null, version: null, protocol: null },
        ...{ routes: null, missingRoutes: null },
        ...{ roundTripMs: null, lastAckAt: null },
        ...{ queued: 6, oldestAt: receivedAt, endpoints },
      },
    )
    assert.deepEqual(
      (await served.call('GET', '/v1/relays')).json.items.find((item: Json) => item.id === id),
      shown,
    )
  })

  test('is shown with its link while its hub is connected', async (t) => {
    const { id, key, createdAt } = await created('here')
    await hubOf(t, key)
    const { connected, since, version, protocol, routes, queued, oldestAt } = await shownOf(id)
    assert.deepEqual([connected, version, protocol, routes], [true, 'posthorn/1.2.0', 1, ['github']])
    assert.ok(since >= createdAt)
    assert.deepEqual([queued, oldestAt], [0, null])
  })

  test('names what active endpoints want and its hub does not have, and so do the deliveries that wait', async (t) => {
    const { id, key } = await created('lacking')
    const endpoint = async (route: string): Promise<string> => {
      const body = { kind: 'relay', relay: 'lacking', route, types: ['lacking.sent'] }
      return (await served.call('POST', '/v1/endpoints', body)).json.id
    }
    const [gitlab, , paused] = [await endpoint('gitlab'), await endpoint('gitlab'), await endpoint('shop')]
    await served.call('POST', `/v1/endpoints/${paused}/pause`)
    await served.call('POST', '/v1/events', { type: 'lacking.sent', data: 1 })
    const [waiting] = (await served.call('GET', `/v1/deliveries?endpoint=${gitlab}`)).json.items
    const waitsFor = async () => (await served.call('GET', `/v1/deliveries/${waiting.id}`)).json.waitsFor
    assert.equal(await waitsFor(), 'hub')
    await hubOf(t, key)
    const { routes, missingRoutes } = await shownOf(id)
    assert.deepEqual([routes, missingRoutes], [['github'], ['gitlab']])
    assert.equal(await waitsFor(), 'route')
  })

  test('tells when its hub answered last, and that nothing waits any more', async (t) => {
    const { id, key } = await created('busy')
    await served.call('POST', '/v1/endpoints', { kind: 'relay', relay: 'busy', route: 'github', types: ['busy'] })
    await served.call('POST', '/v1/events', { type: 'busy', data: 1 })
    // Where counting is slow the last count is shown for a while.
    const counted = async (wanted: number): Promise<Json> => {
      for (;;) {
        const shown = await shownOf(id)
        if (shown.queued === wanted) return shown
      }
    }
    assert.equal((await counted(1)).lastAckAt, null)
    const hub = await hubOf(t, key)
    hub.ack(await hub.next('deliver'))
    await hub.settled()
    const { lastAckAt, since } = await counted(0)
    assert.ok(lastAckAt >= since)
  })

  test('is gone when it is revoked, its hub is cut off and stays out, and its endpoints stay', async (t) => {
    const { id, key } = await created('leaving')
    const body = { kind: 'relay', relay: 'leaving', route: 'github', types: ['nothing'] }
    const endpoint = (await served.call('POST', '/v1/endpoints', body)).json
    const hub = await hubOf(t, key)
    assert.equal((await served.call('DELETE', '/v1/relays/leaving')).status, 204)
    assert.equal((await hub.closed).code, 4401)
    assert.equal(await refusalOf(key), 401)
    assert.equal((await served.call('GET', `/v1/relays/${id}`)).status, 404)
    assert.equal((await served.call('DELETE', `/v1/relays/${id}`)).status, 404)
    const left = (await served.call('GET', `/v1/endpoints/${endpoint.id}`)).json
    assert.deepEqual([left.relay, left.status], ['leaving', 'active'])
    const { id: successor } = await created('leaving')
    assert.deepEqual((await shownOf(successor)).endpoints, [endpoint.id])
  })

  test('lets its hub in with a new key, and cuts off the one with the old', async (t) => {
    const { id, key } = await created('renewed')
    const old = await hubOf(t, key)
    const reply = await served.call('POST', '/v1/relays/renewed/rotate-key')
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    assert.equal(reply.json.id, id)
    assert.match(reply.json.key, /^phr_[\w-]{43}$/)
    assert.equal((await old.closed).code, 4401)
    assert.equal(await refusalOf(key), 401)
    await hubOf(t, reply.json.key)
    assert.equal((await shownOf(id)).connected, true)
  })
})

describe('the kept relays', () => {
  const given = { id: 'rly_1', name: 'home', tenant: 'acme', createdAt: 1 }

  async function onFile(use: (file: string) => Promise<void>): Promise<void> {
    const folder = await tempFolder()
    await use(`${folder.path}/posthorn.db`)
    await folder.remove()
  }

  test('are found by their key and by their name, also after a restart', () =>
    onFile(async (file) => {
      const store = await openStoreFile(file)
      const { relay, text } = await new Relays(store).create(given, null)
      await store.close()
      const again = await openStoreFile(file)
      const relays = new Relays(again)
      await relays.load()
      assert.deepEqual(relays.find(text), relay)
      assert.deepEqual(relays.named('acme', 'home'), relay)
      assert.equal(relays.named('globex', 'home'), null)
      assert.equal(relays.find(`${text}x`), null)
      assert.equal(relays.find(text.replace('phr_', 'phk_')), null)
      assert.ok(!JSON.stringify(relays.list()).includes(text))
      await again.close()
    }))

  test('let in with the last key alone, however many were made at the same time', () =>
    onFile(async (file) => {
      const store = await openStoreFile(file)
      const relays = new Relays(store)
      const { relay, text } = await relays.create(given, null)
      const renewed = await Promise.all([relays.rotateKey(relay), relays.rotateKey(relay), relays.rotateKey(relay)])
      const texts = [text, ...renewed.map((each) => each.text)]
      assert.deepEqual(
        texts.map((each) => relays.find(each) !== null),
        [false, false, false, true],
      )
      assert.deepEqual(await itemsOf(store, 'relay'), relays.list())
      await store.close()
    }))

  test('do not come back by a key that is made while they are revoked', () =>
    onFile(async (file) => {
      const store = await openStoreFile(file)
      const relays = new Relays(store)
      const { relay, text } = await relays.create(given, null)
      const [removed, renewed] = await Promise.allSettled([relays.remove(relay), relays.rotateKey(relay)])
      assert.deepEqual([removed.status, renewed.status], ['fulfilled', 'rejected'])
      assert.equal(relays.find(text), null)
      assert.deepEqual([await itemsOf(store, 'relay'), relays.list()], [[], []])
      await store.close()
    }))
})
