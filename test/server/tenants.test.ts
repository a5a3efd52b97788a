// What belongs to one tenant is for another as if it did not exist, on every route that there is.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Described, describedBy, type Operation } from './described.ts'
import { type Json, openServed, type Reply, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-key-of-the-configuration' }
/** In everything that is acme's. */
const marker = 'acme-marker'
/** Ids that have the right form and never existed, as many kinds as there are. */
const ghosts: Readonly<Record<string, string>> = Object.fromEntries(
  ['evt', 'dlv', 'ep', 'src', 'rly', 'rpl', 'key'].map((prefix) => [prefix, `${prefix}_${'0'.repeat(23)}`]),
)

let served: Served
let endpoint: ScriptedEndpoint
let api: Described
let acme: Record<string, string>
let globex: Record<string, string>
/** acme's ids by prefix. */
let ids: Readonly<Record<string, string>>

before(async () => {
  served = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration' })
  endpoint = await openScriptedEndpoint((received) => ({ status: received.body.includes('bad') ? 400 : 200 }))
  api = describedBy((await served.call('GET', '/openapi.json')).json)
  acme = await keyOf('acme')
  globex = await keyOf('globex')
  const made = await need(acme, 'POST', '/v1/endpoints', { url: endpoint.url, description: marker, types: ['*'] })
  const source = await need(acme, 'POST', '/v1/sources', { name: marker, provider: 'none', type: 'x' })
  const relay = await need(acme, 'POST', '/v1/relays', { name: marker })
  await need(acme, 'POST', '/v1/endpoints', { kind: 'relay', relay: marker, route: marker, types: ['nothing'] })
  const sent = await need(acme, 'POST', '/v1/events', { type: 'order.created', data: marker, key: marker })
  await need(acme, 'POST', '/v1/events', { type: 'order.created', data: `${marker} bad` })
  await Promise.all([endpoint.next(), endpoint.next()])
  const replay = await need(acme, 'POST', '/v1/replays', { filter: { reason: 'exhausted' }, note: marker, rate: 1 })
  await until(async () => (await need(acme, 'GET', '/v1/dead-letters')).items.length === 1)
  await until(async () => (await need(acme, 'GET', `/v1/replays/${replay.id}`)).settledAt !== null)
  const failed = await need(acme, 'GET', '/v1/dead-letters')
  const keys = await need(acme, 'GET', '/v1/keys')
  const found = [sent.id, failed.items[0].id, made.id, source.id, relay.id, replay.id, keys.items[0].id]
  ids = Object.fromEntries(found.map((id: string) => [id.split('_')[0] ?? '', id]))
  assert.deepEqual(Object.keys(ids).sort(), Object.keys(ghosts).sort())
})

after(async () => {
  await served.stop()
  await endpoint.close()
})

async function keyOf(tenant: string): Promise<Record<string, string>> {
  const made = await served.call('POST', '/v1/keys', { role: 'admin', tenant }, admin)
  return { authorization: `Bearer ${made.json.key}` }
}

async function need(who: Record<string, string>, method: string, path: string, body?: unknown): Promise<Json> {
  const reply = await served.call(method, path, body, who)
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.text}`)
  return reply.json
}

/** Asks again until it is so: what is awaited has no signal at this distance. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve))
}

/** All that acme can see of itself, but for times of reading. */
async function pictureOfAcme(): Promise<string> {
  const lists = [
    'events',
    'endpoints',
    'deliveries',
    'dead-letters',
    'sources',
    'relays',
    'replays',
    'keys',
    'breakers',
  ]
  const things = [`endpoints/${ids.ep}/secret`, `deliveries/${ids.dlv}`, `events/${ids.evt}`, `replays/${ids.rpl}`]
  const seen = await Promise.all([...lists, ...things].map((path) => need(acme, 'GET', `/v1/${path}`)))
  return JSON.stringify(seen)
}

const scoped = () => api.operations.filter(({ facts }) => facts['x-posthorn-tenants'] === 'own')

/** The operation as globex would call it, about this thing. */
async function asGlobex({ method, path, facts }: Operation, thing: string, search = ''): Promise<Reply> {
  const target = `${path.replace(/\{\w+\}/g, thing)}${search}`
  if (path === '/v1/stream') return streamHead(target)
  const [media] = Object.values<Json>(facts.requestBody?.content ?? {})
  const body = media === undefined ? undefined : bodyAbout(facts.operationId, media.example ?? {}, thing)
  return served.call(method, target, body, globex)
}

async function streamHead(target: string): Promise<Reply> {
  const stop = new AbortController()
  const response = await fetch(`${served.url}${target}`, { headers: globex, signal: stop.signal })
  const text = response.status === 200 ? '' : await response.text()
  stop.abort()
  return { status: response.status, headers: response.headers, text, json: null }
}

/** Where a body can name a thing it names this one. What makes new things makes them again under another name. */
function bodyAbout(operation: string, example: Json, thing: string): unknown {
  switch (operation) {
    case 'createReplay':
      return { filter: { endpoint: thing }, dryRun: true }
    case 'discardDeadLetters':
      return { filter: { ids: [thing] }, dryRun: false }
    case 'createEndpoint':
      return /^rly_|marker/.test(thing)
        ? { kind: 'relay', relay: thing, route: 'github' }
        : { url: endpoint.url, types: ['nothing'] }
    case 'createKey':
      return { role: 'read' }
    case 'createSource':
    case 'createRelay':
      return { ...example, name: `globex-${Math.random().toString(36).slice(2)}` }
    default:
      return example
  }
}

/** The answer without what differs from call to call. */
function masked({ status, text }: Reply, thing: string): string {
  const ours = text.replaceAll(thing, '<thing>').replace(/"(phk_|phr_|whsec_)[^"]*"/g, '<secret>')
  return `${status} ${ours
    .replace(/\b[a-z]{2,4}_[0-9a-z]{23}\b/g, '<id>')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<at>')
    // Rates are of the last minute: they change while the test runs.
    .replace(/"(\w+PerSecond|seconds)":[\d.]+/g, '"$1":"<rate>"')
    .replace(/globex-[a-z0-9]+/g, '<name>')}`
}

describe('a tenant', () => {
  test('cannot tell a thing of another tenant from one that does not exist, and changes nothing by trying', async () => {
    const before = await pictureOfAcme()
    let compared = 0
    for (const operation of scoped()) {
      const isAboutThing = operation.path.includes('{')
      if (!isAboutThing || operation.facts.operationId === 'sendRawEvent') continue
      const things: readonly (readonly [string, string])[] = [
        ...Object.entries(ids).map(([prefix, id]) => [id, ghosts[prefix] ?? ''] as const),
        [marker, 'no-such-marker'],
      ]
      for (const [real, ghost] of things) {
        const [about, aboutGhost] = [await asGlobex(operation, real), await asGlobex(operation, ghost)]
        const what = `${operation.method} ${operation.path} of ${real}`
        assert.equal(about.status, 404, `${what}: ${about.text}`)
        assert.equal(masked(about, real), masked(aboutGhost, ghost), what)
        compared += 1
      }
    }
    assert.ok(compared > 100, `${compared} were compared`)
    assert.equal(await pictureOfAcme(), before)
  })

  test('sees and counts nothing of another tenant in any list, whatever it filters by', async () => {
    const before = await pictureOfAcme()
    for (const operation of scoped().filter(({ path }) => !path.includes('{'))) {
      const what = `${operation.method} ${operation.path}`
      const names: string[] = (operation.facts.parameters ?? [])
        .filter((parameter: Json) => parameter.in === 'query')
        .map((parameter: Json) => parameter.name)
      const plain = await asGlobex(operation, ids.ep ?? '')
      assert.ok(!plain.text.includes(marker), what)
      for (const [prefix, id] of [...Object.entries(ids), ['ep', marker] as const]) {
        const ghost = id === marker ? 'no-such-marker' : (ghosts[prefix] ?? '')
        const [real, unreal] = [await asGlobex(operation, id), await asGlobex(operation, ghost)]
        assert.equal(masked(real, id), masked(unreal, ghost), `${what} with ${id}`)
        for (const name of names) {
          const [filtered, ghostly] = [
            await asGlobex(operation, id, `?${name}=${id}`),
            await asGlobex(operation, ghost, `?${name}=${ghost}`),
          ]
          assert.ok(filtered.status >= 400 || !filtered.text.includes(marker), `${what}?${name}=${id}`)
          assert.equal(masked(filtered, id), masked(ghostly, ghost), `${what}?${name}=${id}`)
        }
      }
      if (names.includes('tenant'))
        assert.equal((await asGlobex(operation, ghosts.ep ?? '', '?tenant=acme')).status, 404)
    }
    assert.equal(await pictureOfAcme(), before)
  })

  test('is not served what is about all tenants', async () => {
    const whole = api.operations.filter(({ facts }) => facts['x-posthorn-tenants'] === 'all')
    assert.ok(whole.length > 0)
    for (const { method, path } of whole) {
      const reply = await served.call(method, path, method === 'GET' ? undefined : {}, globex)
      assert.equal(reply.status, 404, `${method} ${path}`)
    }
  })

  test('is the only one whose endpoints get its events', async () => {
    const count = endpoint.received.length
    const sent = await need(globex, 'POST', '/v1/events', { type: 'order.created', data: 'globex' })
    assert.equal(sent.deliveries, 0)
    const missing = await need(globex, 'POST', '/v1/replays', { filter: { status: 'failed' }, dryRun: true })
    assert.equal(missing.matched, 0)
    assert.equal(endpoint.received.length, count)
  })
})
