import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, type Reply, type Served } from './served.ts'

const operator = { authorization: 'Bearer the-key-of-the-configuration' }
type Headers = Record<string, string>

async function adminOf(served: Served, tenant: string): Promise<Headers> {
  const { json } = await served.call('POST', '/v1/keys', { role: 'admin', tenant }, operator)
  return { authorization: `Bearer ${json.key}` }
}

/** How many of these calls at once are let through; the others must all be refused in this way. */
async function letThrough(calls: readonly Promise<Reply>[], status: number, says: RegExp): Promise<number> {
  const replies = await Promise.all(calls)
  const refused = replies.filter((reply) => reply.status >= 300)
  for (const { text, status: given } of refused) {
    assert.equal(given, status, text)
    assert.match(text, says)
  }
  return replies.length - refused.length
}

describe('one tenant cannot use up what all share', () => {
  let served: Served
  let acme: Headers
  let globex: Headers
  before(async () => {
    served = await openServed({
      POSTHORN_API_KEY: 'the-key-of-the-configuration',
      POSTHORN_PAUSED: 'yes',
      POSTHORN_TENANT_KEYS_MAX: '4',
      POSTHORN_TENANT_RELAYS_MAX: '2',
      POSTHORN_TENANT_ENDPOINTS_MAX: '2',
      POSTHORN_TENANT_SOURCES_MAX: '2',
      POSTHORN_TENANT_REPLAYS_MAX: '2',
      POSTHORN_TENANT_STREAMS_MAX: '2',
      POSTHORN_TENANT_TESTS_MAX: '2',
    })
    acme = await adminOf(served, 'acme')
    globex = await adminOf(served, 'globex')
  })
  after(() => served.stop())

  const many = (make: (n: number) => Promise<Reply>) => Array.from({ length: 6 }, (_, n) => make(n))

  test('not the API keys, however many are made at once', async () => {
    const make = (headers: Headers, tenant?: string) =>
      served.call('POST', '/v1/keys', { role: 'send', tenant }, headers)
    // The key that asks is one of the four.
    assert.equal(
      await letThrough(
        many(() => make(acme)),
        409,
        /POSTHORN_TENANT_KEYS_MAX/,
      ),
      3,
    )
    assert.equal((await make(globex)).status, 201)
    assert.equal((await make(operator, 'acme')).status, 201, 'the limit of a tenant is not for the operator')
  })

  test('not the relays', async () => {
    const make = (name: string, headers: Headers) => served.call('POST', '/v1/relays', { name }, headers)
    assert.equal(
      await letThrough(
        many((n) => make(`hub-${n}`, acme)),
        409,
        /POSTHORN_TENANT_RELAYS_MAX/,
      ),
      2,
    )
    assert.equal((await make('hub', globex)).status, 201)
  })

  test('not the sources and endpoints', async () => {
    const source = (name: string, headers: Headers) =>
      served.call('POST', '/v1/sources', { name, provider: 'none' }, headers)
    assert.equal(
      await letThrough(
        many((n) => source(`own-${n}`, acme)),
        409,
        /POSTHORN_TENANT_SOURCES_MAX/,
      ),
      2,
    )
    assert.equal((await source('other', globex)).status, 201)
    const endpoint = (headers: Headers) => served.call('POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/' }, headers)
    assert.equal(
      await letThrough(
        many(() => endpoint(acme)),
        409,
        /POSTHORN_TENANT_ENDPOINTS_MAX/,
      ),
      2,
    )
    assert.equal((await endpoint(globex)).status, 201)
  })

  test('not the listeners of the stream', async (t) => {
    const end = new AbortController()
    t.after(() => end.abort())
    const listen = (headers: Headers) => fetch(`${served.url}/v1/stream`, { headers, signal: end.signal })
    assert.deepEqual([(await listen(acme)).status, (await listen(acme)).status], [200, 200])
    const refused = await listen(acme)
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '10'])
    assert.match(await refused.text(), /limit_reached.*POSTHORN_TENANT_STREAMS_MAX/)
    for (const other of [globex, operator, operator, operator]) assert.equal((await listen(other)).status, 200)
  })

  test('not the running replays', async () => {
    const tenant = 'initech'
    const initech = await adminOf(served, tenant)
    await served.call('POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/', tenant }, operator)
    await served.call('POST', '/v1/events', { type: 'a', tenant, data: 1 }, operator)
    const { json } = await served.call('GET', '/v1/deliveries', undefined, initech)
    const cancelled = await served.call('POST', `/v1/deliveries/${json.items[0].id}/cancel`, undefined, initech)
    assert.equal(cancelled.status, 202, cancelled.text)
    // While all delivery is paused, jobs stand still and run on.
    const replay = (headers: Headers) => served.call('POST', '/v1/replays', { filter: { tenant } }, headers)
    assert.equal(
      await letThrough(
        many(() => replay(initech)),
        409,
        /POSTHORN_TENANT_REPLAYS_MAX/,
      ),
      2,
    )
    assert.equal((await replay(operator)).status, 202)
  })
})

describe('tests of endpoints', () => {
  let served: Served
  before(async () => {
    served = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration', POSTHORN_TENANT_TESTS_MAX: '2' })
  })
  after(() => served.stop())

  test('are limited in number at once, per tenant', async (t) => {
    const gate = Promise.withResolvers<void>()
    const sink = await openScriptedEndpoint(() => gate.promise.then(() => ({ status: 200 })))
    t.after(() => sink.close())
    const acme = await adminOf(served, 'acme')
    const { json } = await served.call('POST', '/v1/endpoints', { url: sink.url, tenant: 'acme' }, operator)
    const run = (headers: Headers) => served.call('POST', `/v1/endpoints/${json.id}/test`, {}, headers)
    const running = [run(acme), run(acme)]
    await sink.next()
    await sink.next()
    const refused = await run(acme)
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '1'])
    assert.match(refused.text, /POSTHORN_TENANT_TESTS_MAX/)
    const operators = run(operator)
    await sink.next()
    gate.resolve()
    for (const reply of await Promise.all([...running, operators])) assert.equal(reply.json.statusCode, 200)
    assert.equal((await run(acme)).status, 200, 'there is room again')
  })

  test('keep to the rate limit of the endpoint', async (t) => {
    const sink = await openScriptedEndpoint()
    t.after(() => sink.close())
    const made = await served.call('POST', '/v1/endpoints', { url: sink.url, rateLimit: { perSecond: 0.01 } }, operator)
    const run = (): Promise<Json> => served.call('POST', `/v1/endpoints/${made.json.id}/test`, {}, operator)
    assert.equal((await run()).status, 200)
    const refused = await run()
    assert.equal(refused.status, 429)
    assert.match(refused.text, /rate limit of the endpoint is 0\.01 per second/)
    assert.ok(Number(refused.headers.get('retry-after')) > 1)
  })
})
