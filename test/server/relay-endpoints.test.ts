// Endpoints that lead to a route of a hub.
import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { type Json, openServed, type Reply, type Served } from './served.ts'

let served: Served
before(async () => {
  served = await openServed()
  for (const name of ['home', 'office']) assert.equal((await served.call('POST', '/v1/relays', { name })).status, 201)
  await served.call('POST', '/v1/relays', { name: 'elsewhere', tenant: 'acme' })
})
after(() => served.stop())

const behind = { kind: 'relay', relay: 'home', route: 'github' }
const create = (fields: object) => served.call('POST', '/v1/endpoints', fields)

async function created(fields: object = {}): Promise<Json> {
  const reply = await create({ ...behind, ...fields })
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

function errorsOf(reply: Reply): Record<string, string> {
  assert.equal(reply.status, 422, reply.text)
  return Object.fromEntries(reply.json.errors.map(({ path, message }: Json) => [path, message]))
}

describe('an endpoint of the kind relay', () => {
  test('is created with defaults that suit a hub of our own', async () => {
    const {
      id,
      secret,
      createdAt,
      updatedAt,
      condition,
      warnings: _w,
      ...rest
    } = await created({ types: ['github.*'] })
    assert.match(id, /^ep_/)
    assert.match(secret, /^whsec_/)
    assert.equal(createdAt, updatedAt)
    assert.equal(condition.state, 'closed')
    assert.equal(rest.retry.preset, 'relay')
    assert.deepEqual(
      { ...rest, retry: 'relay' },
      {
        ...{ tenant: 'default', kind: 'relay', relay: 'home', route: 'github', description: '', types: ['github.*'] },
        ...{ ordering: 'endpoint', concurrency: 100, rateLimit: null, timeout: '15s', retry: 'relay', breaker: false },
        ...{ classify: { '4xx': 'permanent' }, headers: {}, status: 'active', statusReason: null },
      },
    )
    const shown = (await served.call('GET', `/v1/endpoints/${id}`)).json
    assert.deepEqual(shown, { id, createdAt, updatedAt, condition, ...rest })
  })

  test('takes every rule that it does not leave to its defaults', async () => {
    const rules = {
      ...{ ordering: 'key', concurrency: 5, timeout: '30s', classify: { '404': 'retryable' }, headers: { 'x-a': 'b' } },
      breaker: { threshold: 3, cooldown: '1m', whenOpen: 'park' },
    }
    const made = await created({ ...rules, retry: 'patient' })
    assert.equal(made.retry.preset, 'patient')
    for (const [name, value] of Object.entries(rules)) assert.deepEqual(made[name], value, name)
  })

  test('needs a relay and a route, and refuses by field what is of other kinds', async () => {
    const nothing = errorsOf(await create({ kind: 'relay' }))
    assert.deepEqual(nothing, { relay: 'is required', route: 'is required' })
    const foreign = { url: 'http://127.0.0.1:9/', disableAfter: '5d', forwardHeaders: true, rute: 'x' }
    const errors = errorsOf(await create({ kind: 'relay', relay: 'Home!', ...foreign }))
    assert.match(errors.relay ?? '', /lower-case letters/)
    assert.equal(errors.route, 'is required')
    for (const name of ['url', 'disableAfter', 'forwardHeaders']) assert.match(errors[name] ?? '', /^is not for relays/)
    assert.match(errors.rute ?? '', /did you mean route\?/)
    const plain = errorsOf(await create({ url: 'http://127.0.0.1:9/', relay: 'home', route: 'github' }))
    const message = 'is only for endpoints of the kind relay'
    assert.deepEqual(plain, { relay: message, route: message })
    assert.deepEqual(errorsOf(await create({ ...behind, kind: 'relais' })), {
      ...{ kind: 'must be one of http, relay', url: 'is required', relay: message, route: message },
    })
  })

  test('leads to a relay of its own tenant alone, and says which was probably meant', async () => {
    assert.match(errorsOf(await create({ ...behind, relay: 'hone' })).relay ?? '', /did you mean home\?/)
    const foreign = errorsOf(await create({ ...behind, relay: 'elsewhere' }))
    assert.equal(
      foreign.relay,
      'is no relay of the tenant default; make it first, with POST /v1/relays or posthorn relays create',
    )
    assert.match(errorsOf(await create({ ...behind, tenant: 'acme' })).relay ?? '', /no relay of the tenant acme/)
    const { tenant } = await created({ relay: 'elsewhere', tenant: 'acme' })
    assert.equal(tenant, 'acme')
  })

  test('changes what is named, also where it leads, and nothing that is not its own', async () => {
    const { id, updatedAt: _, ...before } = await created()
    const change = (fields: object) => served.call('PATCH', `/v1/endpoints/${id}`, fields)
    const reply = await change({ relay: 'office', route: 'gitlab', concurrency: 3 })
    assert.equal(reply.status, 200, reply.text)
    const { updatedAt: __, ...changed } = reply.json
    const { secret: ___, ...shown } = before
    assert.deepEqual(changed, { ...shown, id, relay: 'office', route: 'gitlab', concurrency: 3, warnings: [] })
    assert.match(errorsOf(await change({ relay: 'offise' })).relay ?? '', /did you mean office\?/)
    const wrong = errorsOf(await change({ url: 'http://127.0.0.1:9/', disableAfter: false, forwardHeaders: true }))
    assert.deepEqual(Object.keys(wrong).sort(), ['disableAfter', 'forwardHeaders', 'url'])
    const { id: plain } = (await create({ url: 'http://127.0.0.1:9/' })).json
    const other = await served.call('PATCH', `/v1/endpoints/${plain}`, { relay: 'home', route: 'github' })
    assert.deepEqual(Object.keys(errorsOf(other)), ['relay', 'route'])
  })

  test('has a signing secret that is shown and rotated like that of any endpoint that is reached from here', async () => {
    const { id, secret } = await created()
    assert.equal((await served.call('GET', `/v1/endpoints/${id}/secret`)).json.secret, secret)
    const rotated = await served.call('POST', `/v1/endpoints/${id}/rotate-secret`, { keepOldFor: '1h' })
    assert.equal(rotated.status, 200, rotated.text)
    assert.notEqual(rotated.json.secret, secret)
  })

  test('is listed by its kind, and can be paused, resumed and deleted', async () => {
    const { id } = await created()
    const { json: http } = await served.call('POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/' })
    const idsOf = async (kind: string): Promise<string[]> =>
      (await served.call('GET', `/v1/endpoints?kind=${kind}&limit=500`)).json.items.map((endpoint: Json) => endpoint.id)
    const [relays, others] = [await idsOf('relay'), await idsOf('http')]
    assert.deepEqual([relays.includes(id), relays.includes(http.id)], [true, false])
    assert.deepEqual([others.includes(id), others.includes(http.id)], [false, true])
    assert.equal((await served.call('POST', `/v1/endpoints/${id}/pause`)).json.status, 'paused')
    assert.equal((await served.call('POST', `/v1/endpoints/${id}/resume`)).json.status, 'active')
    assert.equal((await served.call('DELETE', `/v1/endpoints/${id}`)).status, 204)
  })

  test('keeps what is sent to it while its hub is away, untried', async () => {
    const { id } = await created({ types: ['waiting'] })
    const sent = await served.call('POST', '/v1/events', { type: 'waiting', data: 1 })
    assert.equal(sent.status, 202)
    const [delivery] = (await served.call('GET', `/v1/deliveries?endpoint=${id}`)).json.items
    assert.deepEqual([delivery.status, delivery.attempts, delivery.lastError], ['pending', 0, null])
  })
})

describe('a test of an endpoint of the kind relay', () => {
  let relay: Json
  let path: string

  before(async () => {
    relay = (await served.call('POST', '/v1/relays', { name: 'tested' })).json
    path = `/v1/endpoints/${(await created({ relay: 'tested' })).id}/test`
  })

  async function hubWith(t: TestContext, routes: string[]): Promise<ScriptedHub> {
    const address = `${served.url.replace('http:', 'ws:')}/v1/relay`
    const hub = await ScriptedHub.connect(address, { routes }, { headers: { authorization: `Bearer ${relay.key}` } })
    t.after(async () => {
      hub.ws.close()
      await hub.closed
    })
    return hub
  }

  test('is refused at once while the hub is away', async () => {
    const reply = await served.call('POST', path)
    assert.deepEqual([reply.status, reply.json.type], [409, 'urn:posthorn:problem:conflict'])
    assert.equal(reply.json.detail, 'The hub of the relay tested is not connected: start it with posthorn relay.')
  })

  test('is refused when the hub has no such route, and tells which it has', async (t) => {
    await hubWith(t, ['gitlab', 'stripe'])
    const reply = await served.call('POST', path)
    assert.equal(reply.status, 409)
    assert.match(reply.json.detail, /has no route github \(it has gitlab, stripe\): start it with --route github=<url>/)
  })

  test('is one try by the hub, and tells what came of it', async (t) => {
    const hub = await hubWith(t, ['github'])
    const asked = served.call('POST', path, { type: 'github.push', data: { id: 1 } })
    const deliver = await hub.next('deliver')
    assert.equal(deliver.head.event.type, 'github.push')
    hub.ack(deliver, { kind: 'answered', statusCode: 404, headers: {}, body: 'no such hook' })
    const { json: attempt, status } = await asked
    assert.equal(status, 200)
    assert.deepEqual([attempt.outcome, attempt.statusCode, attempt.responseBody], ['permanent', 404, 'no such hook'])
  })

  test('is refused when the relay was revoked', async () => {
    assert.equal((await served.call('DELETE', '/v1/relays/tested')).status, 204)
    const reply = await served.call('POST', path)
    assert.equal(reply.status, 409)
    assert.match(reply.json.detail, /The relay tested was revoked/)
  })
})
