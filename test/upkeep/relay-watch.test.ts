import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Endpoint, RelayEndpoint } from '../../src/core/endpoint.ts'
import type { Notification } from '../../src/core/notification.ts'
import type { Relay, RelayLink } from '../../src/core/relay.ts'
import { openLog } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import type { Store } from '../../src/store/store.ts'
import { RelayWatch } from '../../src/upkeep/relay-watch.ts'
import { Stats } from '../../src/upkeep/stats.ts'
import { anArrival, anEndpoint, anId, delivered, t0 } from '../support/builders.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import { openRelayApp } from './relay-app.ts'

const minuteMs = 60_000
const awayMs = 5 * minuteMs

function aRelay(given: Partial<Relay> = {}): Relay {
  return { id: anId('rly'), name: 'home', tenant: 'default', hash: 'a'.repeat(64), createdAt: t0, ...given }
}

function endpointOf(relay: Relay, given: Partial<RelayEndpoint> = {}): RelayEndpoint {
  const { url: _, forwardHeaders: __, disableAfterMs: ___, ...rules } = anEndpoint({ tenant: relay.tenant })
  return { ...rules, kind: 'relay', relay: relay.name, route: 'github', breaker: null, ...given }
}

type Scene = Readonly<{
  store: Store
  watch: RelayWatch
  time: { now: number }
  told: Notification[]
  links: Map<string, RelayLink>
  leads: { value: boolean }
  endpoints: Endpoint[]
  turn: (relay: Relay, connected: boolean) => void
  /** Time passes, and the watch looks. */
  pass: (ms: number) => Promise<void>
  /** As after a restart of the edge. */
  again: () => RelayWatch
}>

async function scene(t: TestContext, relays: readonly Relay[] = [], endpoints: Endpoint[] = []): Promise<Scene> {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  for (const relay of relays) await store.putEntry('relay', relay, 0)
  for (const endpoint of endpoints) await store.putEntry('endpoint', endpoint, 0)
  const notices = new Notices((error) => assert.fail(String(error)))
  const time = { now: t0 }
  const told: Notification[] = []
  const links = new Map<string, RelayLink>()
  const leads = { value: true }
  const open = () =>
    new RelayWatch({
      ...{ store, notices, awayMs, endpoints: () => endpoints },
      stats: new Stats(store, () => time.now),
      dispatcher: {
        get leads() {
          return leads.value
        },
      },
      linkOf: (relayId) => links.get(relayId) ?? null,
      clock: { steady: () => time.now },
      log: openLog({ level: 'silent', format: 'json' }),
      tell: (notification) => told.push(notification),
    })
  let watch = open()
  t.after(async () => {
    await watch.stop()
    await watch.stop()
    await store.close()
    await folder.remove()
  })
  await watch.look()
  const turn = (relay: Relay, connected: boolean) =>
    notices.publish({ kind: 'relay.changed', ...named(relay), connected, ...(connected ? up : down) })
  const pass = async (ms: number) => {
    time.now += ms
    await watch.look()
  }
  const again = () => {
    watch = open()
    return watch
  }
  return { ...{ store, watch, time, told, links, leads, endpoints, turn, pass }, again }
}

async function waits(store: Store, endpoint: Endpoint): Promise<void> {
  await store.append([anArrival(endpoint)])
}

const named = ({ id: relayId, name, tenant }: Relay) => ({ relayId, name, tenant })

const told = (relay: Relay, type: string, ms: number) => ({
  ...{ type, tenant: relay.tenant, relayId: relay.id, name: relay.name, awayMs: ms },
})

const up = { ending: null, why: null }
const down = { ending: 'lost', why: 'the connection was lost' } as const

const link: RelayLink = {
  ...{ connectedAt: t0, software: 'posthorn/1', protocol: 1, routes: [] },
  ...{ roundTripMs: null, lastAckAt: null, outstanding: 0 },
}

test('a hub that is away for longer than the limit is told of once, and once when it is back', async (t) => {
  const relay = aRelay({ tenant: 'acme' })
  const s = await scene(t, [relay])
  s.turn(relay, true)
  await s.pass(60 * minuteMs)
  s.turn(relay, false)
  await s.pass(awayMs - 1)
  assert.deepEqual(s.told, [])
  await s.pass(1)
  await s.pass(minuteMs)
  assert.deepEqual(s.told, [told(relay, 'posthorn.relay.away', awayMs)])
  assert.equal(s.watch.awayCount, 1)
  s.time.now += minuteMs
  s.turn(relay, true)
  await s.pass(60 * minuteMs)
  assert.deepEqual(s.told.slice(1), [told(relay, 'posthorn.relay.back', awayMs + 2 * minuteMs)])
  assert.equal(s.watch.awayCount, 0)
})

test('a short break is not told, however often it comes', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  for (let n = 0; n < 10; n += 1) {
    s.turn(relay, true)
    await s.pass(minuteMs)
    s.turn(relay, false)
    await s.pass(awayMs - 1)
  }
  assert.deepEqual(s.told, [])
})

test('a relay that never had a hub is not told of before something waits for it', async (t) => {
  const relay = aRelay()
  const stranger = aRelay({ tenant: 'acme' })
  const endpoint = endpointOf(relay)
  const s = await scene(t, [relay, stranger], [endpoint])
  await s.pass(60 * minuteMs)
  assert.deepEqual(s.told, [])
  await waits(s.store, endpoint)
  await s.pass(minuteMs)
  assert.deepEqual(s.told, [told(relay, 'posthorn.relay.away', 61 * minuteMs)])
  s.turn(relay, true)
  assert.deepEqual(s.told.slice(1), [told(relay, 'posthorn.relay.back', 61 * minuteMs)])
})

test('what waits at an endpoint that is paused does not wait for the hub', async (t) => {
  const relay = aRelay()
  const endpoint = endpointOf(relay, { status: 'paused' })
  const s = await scene(t, [relay], [endpoint])
  await waits(s.store, endpoint)
  await s.pass(2 * awayMs)
  assert.deepEqual(s.told, [])
})

test('a relay that was created later is counted from then', async (t) => {
  const s = await scene(t)
  await s.pass(60 * minuteMs)
  const relay = aRelay()
  const endpoint = endpointOf(relay)
  s.endpoints.push(endpoint)
  await s.store.putEntry('relay', relay, 0)
  await s.store.putEntry('endpoint', endpoint, 0)
  await waits(s.store, endpoint)
  await s.pass(0)
  await s.pass(awayMs - 1)
  assert.deepEqual(s.told, [])
  await s.pass(1)
  assert.deepEqual(s.told, [told(relay, 'posthorn.relay.away', awayMs)])
})

test('after a restart a hub that had taken something and does not come back is told of, counted from the start', async (t) => {
  const [used, unused] = [aRelay(), aRelay({ name: 'office' })]
  const endpoint = endpointOf(used)
  const s = await scene(t, [used, unused], [endpoint, endpointOf(unused)])
  await waits(s.store, endpoint)
  const due = { from: { endpointId: endpoint.id }, now: t0, leaseEndsAt: t0 + 1_000, limit: 1, bytesMax: 1_000_000 }
  const { claims } = await s.store.claim(due)
  await s.store.commit(claims.map((claim) => delivered(claim)))
  await s.watch.stop()
  s.time.now += 60 * minuteMs
  const watch = s.again()
  await watch.look()
  s.time.now += awayMs
  await watch.look()
  assert.deepEqual(s.told, [told(used, 'posthorn.relay.away', awayMs)])
})

test('a relay that was deleted is forgotten, and nothing is told of it', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.turn(relay, true)
  await s.store.removeEntry('relay', relay.id)
  s.turn(relay, false)
  await s.pass(2 * awayMs)
  assert.deepEqual([s.told, s.watch.relays], [[], []])
})

test('a hub whose older link ends after the newer one has begun is not away', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.turn(relay, true)
  s.turn(relay, true)
  s.links.set(relay.id, link)
  s.turn(relay, false)
  await s.pass(2 * awayMs)
  assert.deepEqual(s.told, [])
})

test('a hub that has moved to another process is not away, and is when it goes from there', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.turn(relay, true)
  s.turn(relay, false)
  s.time.now += awayMs - 1
  s.links.set(relay.id, link)
  s.watch.moved(relay.id)
  await s.pass(2 * awayMs)
  assert.deepEqual(s.told, [])
  s.links.clear()
  s.watch.moved(relay.id)
  await s.pass(awayMs)
  assert.deepEqual(s.told, [told(relay, 'posthorn.relay.away', awayMs)])
  s.links.set(relay.id, link)
  s.watch.moved(relay.id)
  assert.deepEqual(s.told.slice(1), [told(relay, 'posthorn.relay.back', awayMs)])
})

test('of several processes the leader tells; who leads after it does not tell the same again', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.leads.value = false
  s.turn(relay, true)
  s.turn(relay, false)
  await s.pass(awayMs)
  assert.deepEqual([s.told, s.watch.awayCount], [[], 1])
  s.leads.value = true
  await s.pass(awayMs)
  assert.deepEqual(s.told, [])
  s.turn(relay, true)
  assert.deepEqual(s.told, [told(relay, 'posthorn.relay.back', 2 * awayMs)])
})

test('a hub that comes back while it is looked for is not told of', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.turn(relay, true)
  s.turn(relay, false)
  s.time.now += awayMs
  const looking = s.watch.look()
  s.turn(relay, true)
  await looking
  assert.deepEqual(s.told, [])
})

test('after its stop the watch tells nothing more', async (t) => {
  const relay = aRelay()
  const s = await scene(t, [relay])
  s.turn(relay, true)
  s.turn(relay, false)
  await s.watch.stop()
  await s.pass(2 * awayMs)
  assert.deepEqual(s.told, [])
})

test('it comes as an operational webhook, to callbacks and into the metrics like every other', async (t) => {
  const ops = await openScriptedEndpoint()
  t.after(() => ops.close())
  const { pipeline, relays, connect, leave } = await openRelayApp(t, { relayAwayMs: 20 })
  const { id } = relays.home.relay
  const heard: Notification[] = []
  pipeline.notifications.subscribe((notification) => heard.push(notification))
  await pipeline.catalogue.put(anEndpoint({ url: ops.url, types: ['posthorn.relay.*'] }))
  await leave(await connect())
  const { type, data } = JSON.parse((await ops.next()).body.toString())
  assert.deepEqual([type, data.relayId, data.name], ['posthorn.relay.away', id, 'home'])
  assert.ok(data.awayMs >= 20)
  await connect()
  // What is still to be said is said before the end.
  await pipeline.closeIntake()
  assert.deepEqual(
    heard.map((notification) => notification.type),
    ['posthorn.relay.away', 'posthorn.relay.back'],
  )
  const back = JSON.parse((await ops.next()).body.toString())
  assert.ok(back.data.awayMs >= data.awayMs)
  assert.match(await pipeline.metrics.page(), /^posthorn_relay_links_total\{event="connected"\} 2$/m)
})
