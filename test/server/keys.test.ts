import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { tempFolder } from '../support/sqlite.ts'
import { type Json, openServed, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-key-of-the-configuration' }
const env = { POSTHORN_API_KEY: 'the-key-of-the-configuration' }

async function keyFor(served: Served, body: object, headers: Record<string, string> = admin): Promise<Json> {
  const reply = await served.call('POST', '/v1/keys', body, headers)
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

describe('keys', () => {
  let served: Served
  before(async () => {
    served = await openServed(env)
  })
  after(() => served.stop())

  test('are shown once, and let their role do what it is named for and nothing else', async () => {
    const send = await keyFor(served, { role: 'send', name: 'shop' })
    const read = await keyFor(served, { role: 'read' })
    assert.match(send.key, /^phk_[\w-]{43}$/)
    assert.notEqual(send.key, read.key)
    const listed = await served.call('GET', '/v1/keys', undefined, admin)
    assert.equal(listed.json.items.length, 2)
    for (const { key } of [send, read]) assert.ok(!listed.text.includes(key))
    const event = { type: 'a', data: 1 }
    const calls: readonly [string, string, unknown, number, number][] = [
      ['POST', '/v1/events', event, 202, 403],
      ['POST', '/v1/events/batch', [event], 202, 403],
      ['POST', '/v1/events/a', 'x', 202, 403],
      ['GET', '/v1/events', undefined, 403, 200],
      ['GET', '/v1/endpoints', undefined, 403, 200],
      ['GET', '/metrics', undefined, 403, 200],
      ['GET', '/v1/keys', undefined, 403, 403],
      ['POST', '/v1/keys', { role: 'admin' }, 403, 403],
      ['POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/' }, 403, 403],
      ['GET', '/v1/nowhere', undefined, 404, 404],
    ]
    for (const [method, path, body, whenSend, whenRead] of calls) {
      const what = `${method} ${path}`
      assert.equal((await served.call(method, path, body, bearer(send.key))).status, whenSend, what)
      assert.equal((await served.call(method, path, body, bearer(read.key))).status, whenRead, what)
    }
  })

  test('shut their bearer out from the moment they are deleted', async () => {
    const { id, key } = await keyFor(served, { role: 'admin' })
    assert.equal((await served.call('GET', '/v1/events', undefined, bearer(key))).status, 200)
    assert.equal((await served.call('DELETE', `/v1/keys/${id}`, undefined, admin)).status, 204)
    for (const path of ['/v1/events', '/v1/keys']) {
      const reply = await served.call('GET', path, undefined, bearer(key))
      assert.deepEqual([reply.status, reply.json.type], [401, 'urn:posthorn:problem:unauthorized'])
    }
    assert.equal((await served.call('POST', '/v1/events', { type: 'a', data: 1 }, bearer(key))).status, 401)
    assert.equal((await served.call('DELETE', `/v1/keys/${id}`, undefined, admin)).status, 404)
  })

  test('of a tenant let it manage the keys of that tenant alone', async () => {
    const acme = await keyFor(served, { role: 'admin', tenant: 'acme' })
    const everywhere = await keyFor(served, { role: 'read' })
    const own = await keyFor(served, { role: 'send' }, bearer(acme.key))
    assert.equal(own.tenant, 'acme')
    const listed = await served.call('GET', '/v1/keys', undefined, bearer(acme.key))
    assert.deepEqual(
      listed.json.items.map((key: Json) => key.tenant),
      ['acme', 'acme'],
    )
    const others: readonly [string, string, unknown][] = [
      ['POST', '/v1/keys', { role: 'read', tenant: 'globex' }],
      ['GET', '/v1/keys?tenant=globex', undefined],
      ['DELETE', `/v1/keys/${everywhere.id}`, undefined],
      ['GET', '/metrics', undefined],
    ]
    for (const [method, path, body] of others) {
      assert.equal((await served.call(method, path, body, bearer(acme.key))).status, 404, `${method} ${path}`)
    }
    assert.equal((await served.call('DELETE', `/v1/keys/${own.id}`, undefined, bearer(acme.key))).status, 204)
  })

  test('give an event without a tenant their own, and know no other', async () => {
    const { key } = await keyFor(served, { role: 'send', tenant: 'initech' })
    const calls: readonly [string, unknown][] = [
      ['/v1/events', { type: 'a', data: 1 }],
      ['/v1/events/batch', [{ type: 'a', data: 1 }]],
      ['/v1/events/a', 'x'],
    ]
    for (const [path, body] of calls) {
      const sent = await served.call('POST', path, body, bearer(key))
      const id = sent.json.id ?? sent.json.items[0].id
      assert.equal((await served.call('GET', `/v1/events/${id}`, undefined, admin)).json.tenant, 'initech')
    }
    const foreign: readonly [string, unknown][] = [
      ['/v1/events', { type: 'a', data: 1, tenant: 'default' }],
      ['/v1/events/batch', [{ type: 'a', data: 1, tenant: 'acme' }]],
      ['/v1/events/a?tenant=acme', 'x'],
    ]
    const count = async () => (await served.call('GET', '/v1/events?limit=500', undefined, admin)).json.items.length
    const before = await count()
    for (const [path, body] of foreign) assert.equal((await served.call('POST', path, body, bearer(key))).status, 404)
    assert.equal(await count(), before)
  })

  test('are refused with every wrong field named', async () => {
    const reply = await served.call('POST', '/v1/keys', { role: 'root', tenant: 'a b', nam: 'x' }, admin)
    assert.equal(reply.status, 422)
    assert.deepEqual(reply.json.errors.map((error: Json) => error.path).sort(), ['nam', 'role', 'tenant'])
  })
})

test('without a key in the configuration a given key still holds, and a wrong one does not pass for none', async () => {
  const served = await openServed()
  try {
    const { key } = await keyFor(served, { role: 'read', tenant: 'acme' }, {})
    assert.equal((await served.call('POST', '/v1/events', { type: 'a', data: 1 })).status, 202)
    assert.equal((await served.call('POST', '/v1/events', { type: 'a', data: 1 }, bearer(key))).status, 403)
    assert.deepEqual((await served.call('GET', '/v1/events', undefined, bearer(key))).json.items, [])
    assert.equal((await served.call('GET', '/v1/events', undefined, bearer(`${key}x`))).status, 401)
  } finally {
    await served.stop()
  }
})

test('keys survive a restart and stand in the file only as a hash', async () => {
  const folder = await tempFolder()
  const file = join(folder.path, 'keys.db')
  const settings = { ...env, POSTHORN_DATABASE_URL: `sqlite:${file}` }
  try {
    const first = await openServed(settings)
    const { key } = await keyFor(first, { role: 'send', tenant: 'acme' })
    await first.stop()
    const second = await openServed(settings)
    assert.equal((await second.call('POST', '/v1/events', { type: 'a', data: 1 }, bearer(key))).status, 202)
    await second.stop()
    assert.ok(!(await readFile(file)).includes(key.slice('phk_'.length)))
  } finally {
    await folder.remove()
  }
})

test('the values of the headers of an endpoint are for admins alone', async (t) => {
  const served = await openServed(env)
  t.after(() => served.stop())
  const headers = { authorization: 'Bearer of-the-receiver' }
  const made = await served.call('POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/', headers }, admin)
  assert.deepEqual(made.json.headers, headers)
  const { key } = await keyFor(served, { role: 'read' })
  const path = `/v1/endpoints/${made.json.id}`
  assert.deepEqual((await served.call('GET', path, undefined, admin)).json.headers, headers)
  for (const readable of [path, '/v1/endpoints']) {
    const { text, json } = await served.call('GET', readable, undefined, bearer(key))
    assert.deepEqual((json.items?.[0] ?? json).headers, { authorization: '•••' })
    assert.ok(!text.includes('of-the-receiver'))
  }
})
