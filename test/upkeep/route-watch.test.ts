// A real Posthorn and real links: what it hears of hubs and endpoints is what these bring about themselves.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openApp, type Pipeline } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import type { Endpoint, RelayEndpoint } from '../../src/core/endpoint.ts'
import { anEndpoint, anId, t0 } from '../support/builders.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { tempFolder } from '../support/sqlite.ts'
import { aRelayEndpoint } from '../transports/relay-scene.ts'

async function scene(t: TestContext) {
  const folder = await tempFolder()
  const env = {
    POSTHORN_PORT: '0',
    POSTHORN_DATABASE_URL: `sqlite:${join(folder.path, 'posthorn.db')}`,
    POSTHORN_LOG_LEVEL: 'silent',
  }
  const { promise: prepared, resolve } = Promise.withResolvers<Pipeline>()
  const prepare = async (pipeline: Pipeline) => resolve(pipeline)
  const app = await openApp(loadConfig({ flags: {}, env }), { onFatal: assert.fail, prepare })
  const pipeline = await prepared
  const hubs: ScriptedHub[] = []
  t.after(async () => {
    for (const hub of hubs) hub.ws.terminate()
    await app.stop()
    await folder.remove()
  })
  const warned: Readonly<Record<string, unknown>>[] = []
  const warn = (fields: object, message: string) => warned.push({ message, ...fields })
  Object.assign(pipeline.log, { warn })
  const made = (name: string) =>
    pipeline.relays.create({ id: anId('rly'), name, tenant: 'default', createdAt: t0 }, null)
  const relays = { home: await made('home'), office: await made('office') }
  return {
    pipeline,
    put: (endpoint: Endpoint) => pipeline.catalogue.put(endpoint),
    /** What was warned of since the last time. */
    warned: () => warned.splice(0).filter(({ message }) => message === 'relay.route_missing'),
    warning: ({ id: endpointId, route }: RelayEndpoint, routes: readonly string[]) => ({
      ...{ message: 'relay.route_missing', relayId: relays.home.relay.id, relay: 'home', tenant: 'default' },
      ...{ route, routes, endpointId },
    }),
    /** Connected, and everybody here has heard of it. */
    async connect(routes: readonly string[], name: keyof typeof relays = 'home'): Promise<ScriptedHub> {
      const url = `${app.url.replace('http:', 'ws:')}/v1/relay`
      const headers = { authorization: `Bearer ${relays[name].text}` }
      const hub = await ScriptedHub.connect(url, { routes: [...routes], session: anId('rly') }, { headers })
      hubs.push(hub)
      await hub.settled()
      return hub
    },
    async leave(hub: ScriptedHub): Promise<void> {
      const { promise: gone, resolve: leave } = Promise.withResolvers<void>()
      const ignore = pipeline.notices.subscribe((notice) => {
        if (notice.kind === 'relay.changed' && !notice.connected) leave()
      })
      hub.ws.terminate()
      await gone
      ignore()
    },
  }
}

test('a hub that comes without the route of an active endpoint is warned of', async (t) => {
  const { put, connect, leave, warned, warning } = await scene(t)
  const shop = aRelayEndpoint({ route: 'shop' })
  const others = [
    aRelayEndpoint(),
    aRelayEndpoint({ route: 'shop', status: 'paused' }),
    aRelayEndpoint({ route: 'shop', relay: 'office' }),
    aRelayEndpoint({ route: 'shop', tenant: 'acme' }),
    anEndpoint(),
  ]
  for (const endpoint of [shop, ...others]) await put(endpoint)
  assert.deepEqual(warned(), [], 'no hub is there')
  await connect(['github'], 'office')
  assert.equal(warned().length, 1, 'of the endpoint that goes there, once and for all')
  await leave(await connect(['github']))
  assert.deepEqual(warned(), [warning(shop, ['github'])])
  await connect(['github', 'shop'])
  assert.deepEqual(warned(), [])
})

test('an endpoint that is given a route which its hub does not have is warned of, while the hub is there', async (t) => {
  const { put, connect, leave, warned, warning } = await scene(t)
  const hub = await connect(['github'])
  const shop = aRelayEndpoint({ route: 'shop' })
  await put({ ...shop, route: 'github' })
  await put({ ...shop, status: 'paused' })
  assert.deepEqual(warned(), [])
  await put(shop)
  assert.deepEqual(warned(), [warning(shop, ['github'])])
  await leave(hub)
  await put(shop)
  assert.deepEqual(warned(), [])
})

test('while Posthorn stops nobody is warned of a hub any more', async (t) => {
  const { pipeline, put, connect, warned } = await scene(t)
  await put(aRelayEndpoint({ route: 'shop' }))
  await pipeline.closeIntake()
  await connect(['github'])
  assert.deepEqual(warned(), [])
})
