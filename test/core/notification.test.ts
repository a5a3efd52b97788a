import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AttemptSettled, DeliveryEnded, Notice } from '../../src/core/notice.ts'
import {
  type DeadLetters,
  endpointConcerned,
  gathered,
  isNews,
  needsAttention,
  notificationOf,
  subjectOf,
} from '../../src/core/notification.ts'
import type { Reason } from '../../src/core/outcome.ts'
import type { ReplayStatus } from '../../src/core/replay.ts'

const ended = (given: Partial<DeliveryEnded> = {}): DeliveryEnded => ({
  kind: 'delivery.ended',
  tenant: 'acme',
  deliveryId: 'dlv_1',
  eventId: 'evt_1',
  endpointId: 'ep_1',
  type: 'order.created',
  status: 'dead_letter',
  reason: 'expired',
  ...given,
})

const settled = (given: Partial<AttemptSettled> = {}): AttemptSettled => ({
  ...{ kind: 'attempt.settled', tenant: 'acme', deliveryId: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1' },
  ...{ endpointKind: 'http', type: 'order.created', number: 5, outcome: 'unavailable', statusCode: 503, error: '503' },
  ...{
    startedAt: 1,
    tookMs: 2,
    status: 'failed',
    reason: 'exhausted',
    queuedMs: null,
    endToEndMs: 3,
    traceparent: null,
  },
  ...given,
})

const told = (notice: Notice) => notificationOf(notice, 'default')

test('a delivery that ends undelivered is told, whether by a try or without one', () => {
  const dead = { type: 'posthorn.dead_letters', tenant: 'acme', endpointId: 'ep_1', count: 1, sample: 'dlv_1' }
  assert.deepEqual(told(settled()), { ...dead, reasons: { exhausted: 1 } })
  assert.deepEqual(told(ended()), { ...dead, reasons: { expired: 1 } })
  for (const status of ['pending', 'delivered'] as const) {
    assert.equal(told(settled({ status, reason: null, endToEndMs: null })), null)
  }
})

test('what a person did on purpose is not told', () => {
  for (const reason of ['cancelled', 'endpoint_deleted'] satisfies Reason[]) {
    assert.equal(told(ended({ status: 'failed', reason })), null)
  }
})

test('a notification that cannot be delivered is not told by another one', () => {
  assert.equal(told(ended({ type: 'posthorn.dead_letters' })), null)
  assert.equal(told(settled({ type: 'posthorn.breaker.opened' })), null)
})

test('a breaker that opens and one that closes are told, its probes are not', () => {
  const changed = (from: 'closed' | 'open' | 'half_open', to: 'closed' | 'open' | 'half_open') =>
    told({ kind: 'breaker.changed', tenant: 'acme', endpointId: 'ep_1', from, to })?.type ?? null
  assert.equal(changed('closed', 'open'), 'posthorn.breaker.opened')
  assert.equal(changed('open', 'half_open'), null)
  assert.equal(changed('half_open', 'open'), null)
  assert.equal(changed('half_open', 'closed'), 'posthorn.breaker.closed')
  assert.equal(changed('open', 'closed'), 'posthorn.breaker.closed')
})

test('an endpoint that is disabled is told with its reason, other changes are not', () => {
  const changed = (status: 'active' | 'paused' | 'disabled' | null) =>
    told({ kind: 'endpoint.changed', tenant: 'acme', endpointId: 'ep_1', status, statusReason: 'gone' })
  const expected = { type: 'posthorn.endpoint.disabled', tenant: 'acme', endpointId: 'ep_1', reason: 'gone' }
  assert.deepEqual(changed('disabled'), expected)
  for (const status of ['active', 'paused', null] as const) assert.equal(changed(status), null)
})

const replayCounts = { matched: 3, requeued: 2, delivered: 1, failedAgain: 1, waiting: 0, skipped: 1 }

test('a replay is told when it has finished and when it has settled, to its tenant or else to the default one', () => {
  const changed = (status: ReplayStatus, tenant: string | null) =>
    told({ kind: 'replay.changed', tenant, replayId: 'rpl_1', status, ...replayCounts })
  assert.equal(changed('running', 'acme'), null)
  assert.equal(changed('cancelled', 'acme'), null)
  assert.equal(changed('finished', 'acme')?.tenant, 'acme')
  assert.equal(changed('finished', null)?.tenant, 'default')
  const settled = { type: 'posthorn.replay.settled', tenant: 'acme', replayId: 'rpl_1', status: 'settled' } as const
  assert.deepEqual(changed('settled', 'acme'), { ...settled, ...replayCounts })
  assert.notEqual(subjectOf(changed('finished', 'acme')!), subjectOf(changed('settled', 'acme')!))
})

test('a hub that comes or goes is no news by itself', () => {
  for (const connected of [true, false]) {
    const why = connected ? null : 'lost'
    assert.equal(
      told({
        kind: 'relay.changed',
        tenant: 'acme',
        relayId: 'rly_1',
        name: 'home',
        connected,
        ending: connected ? null : 'lost',
        why,
      }),
      null,
    )
  }
})

test('that a hub is away and that it is back are one subject, and only the change is news', () => {
  const away = { type: 'posthorn.relay.away', tenant: 'acme', relayId: 'rly_1', name: 'home', awayMs: 5 } as const
  const back = { ...away, type: 'posthorn.relay.back', awayMs: 9 } as const
  assert.equal(subjectOf(away), subjectOf(back))
  assert.notEqual(subjectOf(away), subjectOf({ ...away, relayId: 'rly_2' }))
  assert.deepEqual(gathered(away, back), back)
  assert.deepEqual([isNews(away, back), isNews(back, away)], [true, true])
  assert.deepEqual([isNews(away, { ...away, awayMs: 7 }), isNews(back, gathered(away, back))], [false, false])
  assert.equal(endpointConcerned(away), null)
})

test('an accepted event is no news', () => {
  const accepted: Notice = { kind: 'event.accepted', tenant: 'acme', eventId: 'evt_1', type: 'a', deliveries: 1 }
  assert.equal(told(accepted), null)
})

test('a replay that has delivered everything is good to know, everything else is to be looked after', () => {
  const changed = { kind: 'replay.changed', tenant: null, replayId: 'rpl_1', ...replayCounts } as const
  const finished = told({ ...changed, status: 'finished' })
  const bad = told({ ...changed, status: 'settled' })
  const skipping = told({ ...changed, status: 'settled', failedAgain: 0 })
  const good = told({ ...changed, status: 'settled', failedAgain: 0, skipped: 0 })
  const dead = told(ended())
  assert.ok(finished !== null && dead !== null)
  assert.deepEqual([needsAttention(finished), needsAttention(dead)], [false, true])
  assert.deepEqual(
    [bad, skipping, good].map((one) => needsAttention(one!)),
    [true, true, false],
  )
})

test('dead letters of one endpoint are one subject; counts and reasons add up, the sample is the newest', () => {
  const one = told(ended()) as DeadLetters
  const two = told(settled({ deliveryId: 'dlv_2' })) as DeadLetters
  const three = told(ended({ deliveryId: 'dlv_3' })) as DeadLetters
  assert.equal(subjectOf(one), subjectOf(two))
  assert.notEqual(subjectOf(one), subjectOf(told(ended({ endpointId: 'ep_2' })) as DeadLetters))
  assert.notEqual(subjectOf(one), subjectOf(told(ended({ tenant: 'other' })) as DeadLetters))
  const all = gathered(gathered(one, two), three)
  assert.deepEqual(all, { ...three, count: 3, reasons: { expired: 2, exhausted: 1 }, sample: 'dlv_3' })
  assert.equal(endpointConcerned(all), 'ep_1')
  assert.ok(isNews(one, all))
})

test('of stuck lanes the number adds up, and the last one stands for them', () => {
  const stuck = (lane: string) =>
    told({ kind: 'lane.stuck', tenant: 'acme', endpointId: 'ep_1', deliveryId: `dlv_${lane}`, lane, sinceMs: 5 })
  const [a, b] = [stuck('a'), stuck('b')]
  assert.ok(a !== null && b !== null)
  assert.equal(subjectOf(a), subjectOf(b))
  assert.deepEqual(gathered(a, b), { ...b, count: 2 })
})

test('a state that is as it was told is no news', () => {
  const opened = { type: 'posthorn.breaker.opened', tenant: 'acme', endpointId: 'ep_1' } as const
  const closed = { ...opened, type: 'posthorn.breaker.closed' } as const
  assert.equal(subjectOf(opened), subjectOf(closed))
  assert.deepEqual(gathered(closed, opened), opened)
  assert.equal(isNews(opened, gathered(closed, opened)), false)
  assert.equal(isNews(opened, closed), true)
  const high = { type: 'posthorn.backlog.high', tenant: 'default', pending: 9, max: 5, endpoints: [] } as const
  assert.equal(isNews(high, { ...high, pending: 10 }), false)
  assert.equal(isNews(high, { ...high, type: 'posthorn.backlog.normal' }), true)
  assert.equal(endpointConcerned(high), null)
})
