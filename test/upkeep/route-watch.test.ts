import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Endpoint, RelayEndpoint } from '../../src/core/endpoint.ts'
import { anEndpoint } from '../support/builders.ts'
import { aRelayEndpoint } from '../transports/relay-scene.ts'
import { openRelayApp } from './relay-app.ts'

async function scene(t: TestContext) {
  const app = await openRelayApp(t)
  const { pipeline, relays } = app
  const warned: Readonly<Record<string, unknown>>[] = []
  const warn = (fields: object, message: string) => warned.push({ message, ...fields })
  Object.assign(pipeline.log, { warn })
  return {
    ...app,
    put: (endpoint: Endpoint) => pipeline.catalogue.put(endpoint),
    /** What was warned of since the last time. */
    warned: () => warned.splice(0).filter(({ message }) => message === 'relay.route_missing'),
    warning: ({ id: endpointId, route }: RelayEndpoint, routes: readonly string[]) => ({
      ...{ message: 'relay.route_missing', relayId: relays.home.relay.id, relay: 'home', tenant: 'default' },
      ...{ route, routes, endpointId },
    }),
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
