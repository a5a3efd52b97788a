import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { Notices } from '../../src/notices.ts'
import type { StoreStats } from '../../src/store/upkeep-store.ts'
import { openMetrics } from '../../src/upkeep/metrics.ts'
import { Stats } from '../../src/upkeep/stats.ts'
import { anEndpoint, t0 } from '../support/builders.ts'

const noStats: StoreStats = { backlog: [], deadLetters: 3, fileBytes: 4096, walBytes: 512, freeBytes: 0 }

function scene(stats: () => Promise<StoreStats> = async () => noStats, endpoints = [anEndpoint()]) {
  const notices = new Notices((error) => assert.fail(String(error)))
  const metrics = openMetrics(notices)
  metrics.watchOperating({
    stats,
    endpoints: () => endpoints,
    conditionOf: (id) => ({
      breaker: { state: id === endpoints[0]?.id ? 'open' : 'closed' },
      heldUntil: id === endpoints[0]?.id ? t0 + 1 : null,
    }),
    paused: () => false,
    upkeep: () => ({ running: false, last: null, nextAt: null }),
    wall: () => t0,
    steady: () => t0,
  })
  return { notices, metrics }
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
  const { metrics } = scene(async () => ({ ...noStats, backlog }))
  const lines = (await metrics.page()).split('\n').filter((line) => line.startsWith('posthorn_backlog_deliveries{'))
  assert.equal(lines.length, 101)
  assert.equal(lines[0], 'posthorn_backlog_deliveries{endpoint="ep_999"} 1000')
  assert.equal(lines.at(-1), `posthorn_backlog_deliveries{endpoint="other"} ${(900 * 901) / 2}`)
  assert.match(await metrics.page(), /^posthorn_backlog_oldest_seconds\{endpoint="other"\} 0\.899$/m)
})

test('only breakers that are not closed have a series, and a series ends with its reason', async () => {
  const [broken, whole] = [anEndpoint(), anEndpoint()]
  const endpoints = [broken, whole]
  const { metrics } = scene(undefined, endpoints)
  assert.match(await metrics.page(), new RegExp(`posthorn_breaker_open{endpoint="${broken.id}",state="open"} 1`))
  assert.doesNotMatch(await metrics.page(), new RegExp(whole.id))
  endpoints.shift()
  endpoints.unshift(anEndpoint())
  assert.doesNotMatch(await metrics.page(), new RegExp(broken.id))
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
