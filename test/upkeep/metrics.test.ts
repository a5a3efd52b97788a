import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import type { RelayLink } from '../../src/core/relay.ts'
import { Notices } from '../../src/notices.ts'
import { openMetrics } from '../../src/upkeep/metrics.ts'
import { Stats, type StatsRead } from '../../src/upkeep/stats.ts'
import { anEndpoint, t0 } from '../support/builders.ts'

const noStats: StatsRead = {
  backlog: [],
  deadLetters: 3,
  deadLettersAt: [],
  sizes: { fileBytes: 4096, walBytes: 512, freeBytes: 0 },
}

function scene(stats: () => Promise<StatsRead> = async () => noStats, endpoints = [anEndpoint()], endpointsMax = 100) {
  const notices = new Notices((error) => assert.fail(String(error)))
  const metrics = openMetrics(notices, endpointsMax)
  metrics.watchOperating({
    stats,
    endpoints: () => endpoints,
    conditionOf: (id) => ({
      breaker: { state: id === endpoints[0]?.id ? 'open' : 'closed' },
      heldUntil: id === endpoints[0]?.id ? t0 + 1 : null,
    }),
    paused: () => false,
    membersAgree: () => true,
    headlessLanes: () => 0,
    listeningMembers: () => 2,
    upkeep: () => ({ running: false, last: null, nextAt: null }),
    wall: () => t0,
    steady: () => t0,
  })
  return { notices, metrics }
}

const link: RelayLink = {
  ...{ connectedAt: t0, software: 'posthorn/1.0.0', protocol: 1, routes: ['github'] },
  ...{ roundTripMs: 20, lastAckAt: null, outstanding: 3 },
}

const attempt: Notice = {
  ...{ kind: 'attempt.settled', tenant: 'acme', deliveryId: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1' },
  ...{ endpointKind: 'http', type: 'order.created', number: 1, outcome: 'permanent', statusCode: 404, error: '404' },
  ...{ startedAt: t0, tookMs: 20, status: 'failed', reason: 'permanent_status', queuedMs: 2, endToEndMs: 30 },
  traceparent: null,
}

test('tries, deliveries and their times are counted by outcome, kind, status and reason', async () => {
  const { notices, metrics } = scene()
  notices.publish({ kind: 'event.accepted', tenant: 'acme', eventId: 'evt_1', type: 'a', deliveries: 1 })
  notices.publish(attempt)
  notices.publish({ ...attempt, endpointKind: 'handler', number: 2, queuedMs: null })
  metrics.accepted(1.5)
  metrics.batchWritten({ calls: 12, commitMs: 0.7 })
  metrics.notified('posthorn.dead_letters')
  const page = await metrics.page()
  for (const line of [
    'posthorn_events_accepted_total 1',
    'posthorn_attempts_total{outcome="permanent",kind="http"} 1',
    'posthorn_attempts_total{outcome="permanent",kind="handler"} 1',
    'posthorn_deliveries_settled_total{status="failed"} 2',
    'posthorn_dead_letters_total{reason="permanent_status"} 2',
    'posthorn_attempt_seconds_count 2',
    'posthorn_queue_wait_seconds_count 1',
    'posthorn_end_to_end_seconds_bucket{le="0.05"} 2',
    'posthorn_accept_seconds_bucket{le="0.0025"} 1',
    'posthorn_accept_seconds_bucket{le="0.001"} 0',
    'posthorn_commit_calls_bucket{le="25"} 1',
    'posthorn_commit_seconds_bucket{le="0.001"} 1',
    'posthorn_notifications_total{type="posthorn.dead_letters"} 1',
    'posthorn_dead_letters 3',
    'posthorn_wal_bytes 512',
    'posthorn_endpoints{status="active"} 1',
    'posthorn_breakers{state="open"} 1',
    'posthorn_endpoints_held 1',
    'posthorn_lanes_stuck_total 0',
  ]) {
    assert.ok(page.split('\n').includes(line), `${line} is missing`)
  }
})

test('a thousand endpoints with a backlog make a hundred series and one for the others', async () => {
  const backlog = Array.from({ length: 1_000 }, (_, n) => ({ endpointId: `ep_${n}`, pending: n + 1, oldestAt: t0 - n }))
  const endpoints = backlog.map(({ endpointId }) => anEndpoint({ id: endpointId, tenant: 'acme' }))
  const { metrics } = scene(async () => ({ ...noStats, backlog }), endpoints)
  const lines = (await metrics.page()).split('\n').filter((line) => line.startsWith('posthorn_backlog_deliveries{'))
  assert.equal(lines.length, 101)
  // The first is behind a breaker, which is what a person looks for.
  assert.equal(lines[0], 'posthorn_backlog_deliveries{tenant="acme",endpoint="ep_0"} 1')
  assert.equal(lines[1], 'posthorn_backlog_deliveries{tenant="acme",endpoint="ep_999"} 1000')
  const rest = (901 * 902) / 2 - 1
  assert.equal(lines.at(-1), `posthorn_backlog_deliveries{tenant="other",endpoint="other"} ${rest}`)
  assert.match(await metrics.page(), /^posthorn_backlog_oldest_seconds\{tenant="other",endpoint="other"\} 0\.9$/m)
})

test('what waits for a deleted endpoint is counted with the others', async () => {
  const backlog = [{ endpointId: 'ep_gone', pending: 7, oldestAt: t0 }]
  const page = await scene(async () => ({ ...noStats, backlog })).metrics.page()
  assert.match(page, /^posthorn_backlog_deliveries\{tenant="other",endpoint="other"\} 7$/m)
})

test('without series by endpoint, what waits is one sum', async () => {
  const endpoint = anEndpoint()
  const backlog = [{ endpointId: endpoint.id, pending: 7, oldestAt: t0 }]
  const page = await scene(async () => ({ ...noStats, backlog }), [endpoint], 0).metrics.page()
  assert.doesNotMatch(page, new RegExp(endpoint.id))
  assert.match(page, /^posthorn_backlog_deliveries\{tenant="other",endpoint="other"\} 7$/m)
  assert.match(page, /^posthorn_breakers\{state="open"\} 1$/m)
})

test('a paused endpoint is not one that is down', async () => {
  const endpoint = anEndpoint({ status: 'paused' })
  assert.doesNotMatch(await scene(undefined, [endpoint]).metrics.page(), /^posthorn_breaker_open/m)
})

test('only breakers that are not closed have a series, and a series ends with its reason', async () => {
  const [broken, whole] = [anEndpoint(), anEndpoint()]
  const endpoints = [broken, whole]
  const { metrics } = scene(undefined, endpoints)
  assert.match(
    await metrics.page(),
    new RegExp(`posthorn_breaker_open{tenant="${broken.tenant}",endpoint="${broken.id}",state="open"} 1`),
  )
  assert.doesNotMatch(await metrics.page(), new RegExp(`posthorn_breaker_open.*${whole.id}`))
  endpoints.shift()
  endpoints.unshift(anEndpoint())
  assert.doesNotMatch(await metrics.page(), new RegExp(broken.id))
})

test('hubs that are connected and away are counted, and those that are not have no series', async () => {
  const { metrics } = scene()
  const links = new Map([['rly_1', link]])
  const known = ['1', '2'].map((n) => ({ id: `rly_${n}`, name: `home-${n}`, tenant: 'acme' }))
  metrics.watchRelays({ known: () => known, linkOf: (id) => links.get(id) ?? null, awayCount: () => 1 })
  const page = await metrics.page()
  for (const line of [
    'posthorn_relays 2',
    'posthorn_relays_connected 1',
    'posthorn_relays_away 1',
    'posthorn_relay_outstanding{tenant="acme",relay="home-1"} 3',
    'posthorn_relay_round_trip_seconds{tenant="acme",relay="home-1"} 0.02',
  ]) {
    assert.ok(page.split('\n').includes(line), `${line} is missing`)
  }
  assert.doesNotMatch(page, /home-2/)
  links.set('rly_1', { ...link, roundTripMs: null })
  assert.doesNotMatch(await metrics.page(), /posthorn_relay_round_trip_seconds\{/)
  links.clear()
  assert.match(await metrics.page(), /^posthorn_relays_connected 0$/m)
})

test('a thousand hubs make a hundred series and one for the others', async () => {
  const { metrics } = scene()
  const known = Array.from({ length: 1_000 }, (_, n) => ({ id: `${n}`, name: `hub-${n}`, tenant: 'acme' }))
  const linkOf = (id: string) => ({ ...link, roundTripMs: Number(id), outstanding: Number(id) })
  metrics.watchRelays({ known: () => known, linkOf, awayCount: () => 0 })
  const lines = (await metrics.page()).split('\n')
  const of = (name: string) => lines.filter((line) => line.startsWith(`${name}{`))
  const [outstanding, roundTrip] = [of('posthorn_relay_outstanding'), of('posthorn_relay_round_trip_seconds')]
  assert.deepEqual([outstanding.length, roundTrip.length], [101, 101])
  assert.equal(outstanding.at(-1), `posthorn_relay_outstanding{tenant="other",relay="other"} ${(899 * 900) / 2}`)
  assert.equal(roundTrip.at(-1), 'posthorn_relay_round_trip_seconds{tenant="other",relay="other"} 0.899')
})

test('links of hubs are counted by how they ended', async () => {
  const { notices, metrics } = scene()
  const endings = ['left', 'lost', 'refused', 'replaced', 'revoked', 'silent'] as const
  for (const ending of [null, ...endings]) {
    const change = { connected: ending === null, ending, why: ending }
    notices.publish({ kind: 'relay.changed', tenant: 'acme', relayId: 'rly_1', name: 'home', ...change })
  }
  const lines = (await metrics.page()).split('\n').filter((line) => line.startsWith('posthorn_relay_links_total{'))
  assert.deepEqual(
    lines.toSorted(),
    ['connected', ...endings].map((event) => `posthorn_relay_links_total{event="${event}"} 1`),
  )
})

test('a store that cannot be read costs its own metrics and no others', async () => {
  const { metrics } = scene(() => Promise.reject(new Error('closed')))
  const page = await metrics.page()
  assert.doesNotMatch(page, /^posthorn_wal_bytes /m)
  assert.match(page, /^posthorn_events_accepted_total 0$/m)
})

test('the store is asked no more than every ten seconds, and again after a failure', async () => {
  let now = t0
  let asked = 0
  let works = true
  const stats = new Stats(
    {
      stats: async () => {
        asked += 1
        if (!works) throw new Error('busy')
        return noStats
      },
    },
    () => now,
  )
  await Promise.all([stats.read(), stats.read()])
  now += 9_999
  await stats.read()
  assert.equal(asked, 1)
  now += 1
  works = false
  await assert.rejects(stats.read())
  works = true
  await stats.read()
  assert.equal(asked, 3)
})
