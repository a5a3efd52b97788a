import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Json, openServed } from './served.ts'

const apiKey = 'the-key-of-the-configuration'
const admin = { authorization: `Bearer ${apiKey}` }
/** Nothing listens there: what goes there fails. */
const url = 'http://127.0.0.1:9/'

/** The first digits of an id: enough to tell it from what was made at another time. */
function short(id: string, digits: number): string {
  return id.slice(0, id.indexOf('_') + 1 + digits)
}

/** As much of an id as it takes to tell it from the other. */
function telling(id: string, other: string): string {
  let digits = 8
  while (other.startsWith(short(id, digits))) digits += 1
  return short(id, digits)
}

describe('an id that is cut', () => {
  test('is understood in paths, queries and filters, if it is one id alone', async (t) => {
    const served = await openServed({ POSTHORN_API_KEY: apiKey })
    t.after(() => served.stop())
    const call = async (method: string, path: string, body?: unknown): Promise<Json> => {
      const reply = await served.call(method, path, body, admin)
      assert.ok(reply.status < 300, `${method} ${path} ${reply.text}`)
      return reply.json
    }
    const endpoint = await call('POST', '/v1/endpoints', { url, retry: { preset: 'webhook', maxAttempts: 1 } })
    const paused = await call('POST', `/v1/endpoints/${endpoint.id}/pause`)
    const sent = await call('POST', '/v1/events', { type: 'order.created', data: 1 })
    const delivery = (await call('GET', `/v1/deliveries?event=${sent.id}`)).items[0]

    assert.equal((await call('GET', `/v1/endpoints/${short(paused.id, 11)}`)).id, endpoint.id)
    assert.equal((await call('GET', `/v1/events/${short(sent.id, 11)}`)).id, sent.id)
    assert.equal((await call('GET', `/v1/deliveries/${short(delivery.id, 11)}`)).id, delivery.id)
    for (const query of [`event=${short(sent.id, 11)}`, `endpoint=${short(endpoint.id, 11)}`]) {
      assert.equal((await call('GET', `/v1/deliveries?${query}`)).items[0]?.id, delivery.id, query)
    }
    await call('POST', `/v1/deliveries/${short(delivery.id, 12)}/cancel`)
    const filter = { endpoint: short(endpoint.id, 11), ids: [short(delivery.id, 11)], reason: 'cancelled' }
    assert.equal((await call('POST', '/v1/replays', { filter, dryRun: true })).matched, 1)
    const replay = await call('POST', '/v1/replays', { filter: { ids: [delivery.id], reason: 'cancelled' } })
    assert.equal((await call('GET', `/v1/replays/${short(replay.id, 11)}`)).id, replay.id)
    for (const [path, body] of [
      ['sources', { name: 'shop', provider: 'none' }],
      ['keys', { role: 'read' }],
      ['relays', { name: 'home' }],
    ] as const) {
      const { id } = await call('POST', `/v1/${path}`, body)
      await call('DELETE', `/v1/${path}/${short(id, 11)}`)
    }
  })

  test('is refused with the ids that it could be, and nothing is done', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    // Two of one batch have numbers next to each other.
    const events = [
      { type: 'a.b', data: 1 },
      { type: 'a.b', data: 2 },
    ]
    const { items } = (await served.call('POST', '/v1/events/batch', events)).json
    const [one, two] = items.map(({ id }: Json) => id).sort()
    let common = 8
    while (short(one, common + 1) === short(two, common + 1)) common += 1
    const cut = short(one, common)
    const asPath = await served.call('GET', `/v1/events/${cut}`)
    assert.equal(asPath.status, 422)
    assert.equal(asPath.json.errors[0].path, 'id')
    assert.match(asPath.json.errors[0].message, new RegExp(`several ids: ${one}, ${two}; write more`))
    const asFilter = await served.call('GET', `/v1/deliveries?event=${cut}`)
    assert.deepEqual([asFilter.status, asFilter.json.errors[0].path], [422, 'event'])
    assert.equal((await served.call('GET', `/v1/events/${telling(one, two)}`)).json.id, one)
  })

  test('names some candidates, not all, and cancels none of them', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    for (let n = 0; n < 4; n += 1) {
      const { id } = (await served.call('POST', '/v1/endpoints', { url })).json
      await served.call('POST', `/v1/endpoints/${id}/pause`)
    }
    await served.call('POST', '/v1/events', { type: 'a.b', data: 1 })
    const pending = async () => (await served.call('GET', '/v1/deliveries?status=pending')).json.items
    const refused = await served.call('POST', `/v1/deliveries/${short((await pending())[0].id, 9)}/cancel`)
    assert.equal(refused.status, 422)
    assert.match(refused.json.detail, /several ids: dlv_\w+, dlv_\w+, dlv_\w+ and more; write more/)
    assert.equal((await pending()).length, 4)
  })

  test('is the name of a relay before it is a part of an id', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const make = async (name: string) => (await served.call('POST', '/v1/relays', { name })).json
    const first = await make('first')
    const cut = short(first.id, 11)
    assert.equal((await served.call('GET', `/v1/relays/${cut}`)).json.id, first.id)
    const named = await make(cut)
    assert.equal((await served.call('GET', `/v1/relays/${cut}`)).json.id, named.id)
  })

  test('is not found when too much is missing, or nothing begins with it', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const { id } = (await served.call('POST', '/v1/endpoints', { url })).json
    for (const wrong of [
      short(id, 7),
      'ep_00000000',
      `${short(id, 22)}x`.replace(/.$/, id.endsWith('0') ? '1' : '0'),
    ]) {
      const reply = await served.call('DELETE', `/v1/endpoints/${wrong}`)
      assert.equal(reply.status, 404, wrong)
      assert.match(reply.json.detail, new RegExp(`no endpoint ${wrong}`))
    }
    assert.equal((await served.call('GET', `/v1/endpoints/${id}`)).status, 200)
  })

  test("does not tell a tenant of another tenant's ids, nor make them ambiguous", async (t) => {
    const served = await openServed({ POSTHORN_API_KEY: apiKey })
    t.after(() => served.stop())
    const keyOf = async (tenant: string) => {
      const { key } = (await served.call('POST', '/v1/keys', { role: 'admin', tenant }, admin)).json
      return { authorization: `Bearer ${key}` }
    }
    const [mine, theirs] = [await keyOf('acme'), await keyOf('other')]
    const event = (tenant: string) => ({ type: 'a.b', data: 1, tenant })
    const batch = [event('acme'), event('other')]
    const { items } = (await served.call('POST', '/v1/events/batch', batch, admin)).json
    const [ours, others] = items.map(({ id }: Json) => id)
    let common = 8
    while (short(ours, common + 1) === short(others, common + 1)) common += 1
    const cut = short(ours, common)
    assert.equal((await served.call('GET', `/v1/events/${cut}`, undefined, admin)).status, 422)
    assert.equal((await served.call('GET', `/v1/events/${cut}`, undefined, mine)).json.id, ours)
    const { id } = (await served.call('POST', '/v1/endpoints', { url }, mine)).json
    const foreign = await served.call('GET', `/v1/endpoints/${short(id, 20)}`, undefined, theirs)
    assert.equal(foreign.status, 404)
    assert.ok(!foreign.text.includes(id))
    assert.equal((await served.call('DELETE', `/v1/endpoints/${short(id, 20)}`, undefined, theirs)).status, 404)
  })
})
