// The hubs that may connect: their keys, what is shown of them, and how they are shut out.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { RelayLink } from '../../src/core/relay.ts'
import { Relays } from '../../src/server/relays.ts'
import type { RelayGate } from '../../src/transports/relay-gate.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import { type Json, openServed, openServedParts, type Served } from './served.ts'

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
  let revoked: string[]
  const links = new Map<string, RelayLink>()
  const gate: RelayGate = {
    admit: () => assert.fail('nobody connects here'),
    linkOf: (id) => links.get(id) ?? null,
    revoke: (id) => {
      revoked.push(id)
    },
  }
  before(async () => {
    served = await openServedParts(() => ({ gate }))
  })
  beforeEach(() => {
    revoked = []
    links.clear()
  })
  after(() => served.stop())

  const created = async (name: string): Promise<Json> => (await served.call('POST', '/v1/relays', { name })).json

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
    const shown = (await served.call('GET', `/v1/relays/${id}`)).json
    assert.deepEqual(
      { ...shown, createdAt: '' },
      {
        ...{ id, name: 'away', tenant: 'default', createdAt: '' },
        ...{ connected: false, since: null, version: null, protocol: null, routes: null },
        ...{ roundTripMs: null, lastAckAt: null },
        ...{ queued: 6, oldestAt: receivedAt, endpoints },
      },
    )
    assert.deepEqual(
      (await served.call('GET', '/v1/relays')).json.items.find((item: Json) => item.id === id),
      shown,
    )
  })

  test('is shown with its link while its hub is connected', async () => {
    const { id } = await created('here')
    const connectedAt = Date.parse('2026-01-31T12:00:00.000Z')
    const link = { software: 'posthorn/1.2.0', protocol: 1, routes: ['github'], roundTripMs: 12, outstanding: 3 }
    links.set(id, { ...link, connectedAt, lastAckAt: connectedAt + 1_000 })
    const { connected, since, version, protocol, routes, roundTripMs, lastAckAt, queued, oldestAt } = (
      await served.call('GET', '/v1/relays/here')
    ).json
    assert.deepEqual([connected, since, version, protocol], [true, '2026-01-31T12:00:00.000Z', 'posthorn/1.2.0', 1])
    assert.deepEqual([routes, roundTripMs, lastAckAt], [['github'], 12, '2026-01-31T12:00:01.000Z'])
    assert.deepEqual([queued, oldestAt], [0, null])
  })

  test('is gone when it is revoked, its link is cut, and its endpoints stay', async () => {
    const { id } = await created('leaving')
    const body = { kind: 'relay', relay: 'leaving', route: 'github', types: ['nothing'] }
    const endpoint = (await served.call('POST', '/v1/endpoints', body)).json
    assert.equal((await served.call('DELETE', '/v1/relays/leaving')).status, 204)
    assert.deepEqual(revoked, [id])
    assert.equal((await served.call('GET', `/v1/relays/${id}`)).status, 404)
    assert.equal((await served.call('DELETE', `/v1/relays/${id}`)).status, 404)
    const left = (await served.call('GET', `/v1/endpoints/${endpoint.id}`)).json
    assert.deepEqual([left.relay, left.status], ['leaving', 'active'])
    const { id: successor } = await created('leaving')
    const { endpoints } = (await served.call('GET', `/v1/relays/${successor}`)).json
    assert.deepEqual(endpoints, [endpoint.id])
  })

  test('gets a new key, and the link with the old one is cut', async () => {
    const { id, key } = await created('renewed')
    const reply = await served.call('POST', '/v1/relays/renewed/rotate-key')
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers.get('cache-control'), 'no-store')
    assert.equal(reply.json.id, id)
    assert.match(reply.json.key, /^phr_[\w-]{43}$/)
    assert.notEqual(reply.json.key, key)
    assert.deepEqual(revoked, [id])
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
      const { relay, text } = await new Relays(store).create(given)
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
      const { relay, text } = await relays.create(given)
      const renewed = await Promise.all([relays.rotateKey(relay), relays.rotateKey(relay), relays.rotateKey(relay)])
      const texts = [text, ...renewed.map((each) => each.text)]
      assert.deepEqual(
        texts.map((each) => relays.find(each) !== null),
        [false, false, false, true],
      )
      assert.deepEqual(await store.listRelays(), relays.list())
      await store.close()
    }))

  test('do not come back by a key that is made while they are revoked', () =>
    onFile(async (file) => {
      const store = await openStoreFile(file)
      const relays = new Relays(store)
      const { relay, text } = await relays.create(given)
      const [removed, renewed] = await Promise.allSettled([relays.remove(relay), relays.rotateKey(relay)])
      assert.deepEqual([removed.status, renewed.status], ['fulfilled', 'rejected'])
      assert.equal(relays.find(text), null)
      assert.deepEqual([await store.listRelays(), relays.list()], [[], []])
      await store.close()
    }))
})
