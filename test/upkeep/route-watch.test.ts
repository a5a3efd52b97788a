import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { RelayLink } from '../../src/core/relay.ts'
import type { Logger } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import { RouteWatch } from '../../src/upkeep/route-watch.ts'
import { anEndpoint, t0 } from '../support/builders.ts'
import { aRelayEndpoint } from '../transports/relay-scene.ts'

const facts = { connectedAt: t0, software: 'posthorn/1.2.0', protocol: 1, roundTripMs: null, lastAckAt: null }

function scene(endpoints: Endpoint[]) {
  const links = new Map<string, RelayLink>()
  const notices = new Notices((error) => assert.fail(String(error)))
  const warned: unknown[] = []
  const log = { warn: (fields: object, message: string) => warned.push({ message, ...fields }) } as unknown as Logger
  const endpointOf = (id: string) => endpoints.find((endpoint) => endpoint.id === id) ?? null
  const linkOf = (relayId: string) => links.get(relayId) ?? null
  const watch = new RouteWatch({ endpoints: () => endpoints, endpointOf, linkOf, notices, log })
  return {
    watch,
    /** What was warned of since the last time. */
    warned: () => warned.splice(0),
    connect(relayId: string, name: string, routes: readonly string[]) {
      links.set(relayId, { ...facts, routes, outstanding: 0 })
      notices.publish({
        kind: 'relay.changed',
        tenant: 'default',
        relayId,
        name,
        connected: true,
        ending: null,
        why: null,
      })
    },
    leave(relayId: string, name: string) {
      links.delete(relayId)
      notices.publish({
        kind: 'relay.changed',
        tenant: 'default',
        relayId,
        name,
        connected: false,
        ending: 'lost',
        why: 'gone',
      })
    },
    put(endpoint: Endpoint) {
      endpoints.splice(0, endpoints.length, ...endpoints.filter(({ id }) => id !== endpoint.id), endpoint)
      const { id: endpointId, tenant, status, statusReason } = endpoint
      notices.publish({ kind: 'endpoint.changed', tenant, endpointId, status, statusReason })
    },
  }
}

const warning = (endpoint: Endpoint & { kind: 'relay' }, routes: readonly string[]) => ({
  ...{ message: 'relay.route_missing', relayId: 'rly_1', relay: 'home', tenant: 'default' },
  ...{ route: endpoint.route, routes, endpointId: endpoint.id },
})

test('a hub that comes without the route of an active endpoint is warned of', () => {
  const github = aRelayEndpoint()
  const shop = aRelayEndpoint({ route: 'shop' })
  const others = [
    aRelayEndpoint({ route: 'shop', status: 'paused' }),
    aRelayEndpoint({ relay: 'office' }),
    anEndpoint(),
  ]
  const { connect, warned } = scene([github, shop, ...others, aRelayEndpoint({ tenant: 'acme', route: 'shop' })])
  connect('rly_1', 'home', ['github'])
  assert.deepEqual(warned(), [warning(shop, ['github'])])
  connect('rly_1', 'home', ['github', 'shop'])
  assert.deepEqual(warned(), [])
})

test('an endpoint that is given a route which its hub does not have is warned of, while the hub is there', () => {
  const { connect, leave, put, warned, watch } = scene([])
  const shop = aRelayEndpoint({ route: 'shop' })
  put(shop)
  connect('rly_1', 'home', ['github'])
  assert.deepEqual(warned(), [warning(shop, ['github'])])
  put({ ...shop, route: 'github' })
  put({ ...shop, status: 'paused' })
  assert.deepEqual(warned(), [])
  put(shop)
  assert.deepEqual(warned(), [warning(shop, ['github'])])
  leave('rly_1', 'home')
  put(shop)
  assert.deepEqual(warned(), [])
  watch.stop()
  watch.stop()
  connect('rly_1', 'home', ['github'])
  assert.deepEqual(warned(), [])
})
