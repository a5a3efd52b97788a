import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { AttemptSettled, DeliveryEnded } from '../../src/core/notice.ts'
import { Notices } from '../../src/notices.ts'
import { openMetrics } from '../../src/upkeep/metrics.ts'
import { anEndpoint, t0 } from '../support/builders.ts'

function scene(endpoints: Endpoint[], endpointsMax: number) {
  const notices = new Notices((error) => assert.fail(String(error)))
  const metrics = openMetrics(notices, endpointsMax)
  metrics.watchOperating({
    stats: async () => ({ backlog: [], deadLetters: 0, deadLettersAt: [], sizes: null }),
    endpoints: () => endpoints,
    conditionOf: () => ({ breaker: { state: 'closed' }, heldUntil: null }),
    paused: () => false,
    membersAgree: () => true,
    headlessLanes: () => 0,
    listeningMembers: () => 0,
    upkeep: () => ({ running: false, last: null, nextAt: null }),
    wall: () => t0,
    steady: () => t0,
  })
  const linesOf = async (name: string) =>
    (await metrics.page())
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`))
      .map((line) => line.slice(name.length))
  return { notices, linesOf }
}

const several = (count: number) =>
  Array.from({ length: count }, (_, n) => anEndpoint({ id: `ep_${n}`, tenant: tenantOf(`ep_${n}`) }))

const tenantOf = (endpointId: string) => (Number(endpointId.slice(3)) % 2 === 0 ? 'acme' : 'bolt')

const tried = (endpointId: string, given: Partial<AttemptSettled> = {}): AttemptSettled => ({
  ...{ kind: 'attempt.settled', tenant: tenantOf(endpointId), deliveryId: 'dlv_1', eventId: 'evt_1', endpointId },
  ...{ endpointKind: 'http', type: 'order.created', number: 1, outcome: 'delivered', statusCode: 200, error: null },
  ...{ startedAt: t0, tookMs: 20, status: 'delivered', reason: null, queuedMs: 2, endToEndMs: 30, traceparent: null },
  ...given,
})
const failed = (endpointId: string) =>
  tried(endpointId, { outcome: 'permanent', status: 'failed', reason: 'permanent_status' })
const ended = (endpointId: string, reason: DeliveryEnded['reason']): DeliveryEnded => ({
  ...{
    kind: 'delivery.ended',
    tenant: tenantOf(endpointId),
    deliveryId: 'dlv_1',
    eventId: 'evt_1',
    endpointId,
    type: 'a',
  },
  ...{ status: 'dead_letter', reason },
})

const attempts = 'posthorn_endpoint_attempts_total'
const deadLetters = 'posthorn_endpoint_dead_letters_total'

test('every endpoint has its series before its first attempt', async () => {
  const { linesOf } = scene(several(2), 100)
  const outcomes = ['delivered', 'permanent', 'retryable', 'unavailable', 'ours']
  const places = ['tenant="acme",endpoint="ep_0"', 'tenant="bolt",endpoint="ep_1"', 'tenant="other",endpoint="other"']
  assert.deepEqual(
    await linesOf(attempts),
    places.flatMap((place) => outcomes.map((outcome) => `{${place},outcome="${outcome}"} 0`)),
  )
  assert.deepEqual(
    await linesOf(deadLetters),
    places.map((place) => `{${place}} 0`),
  )
})

test('attempts and dead letters are counted at the endpoint that had them', async () => {
  const { notices, linesOf } = scene(several(2), 100)
  for (const notice of [tried('ep_0'), tried('ep_0'), failed('ep_1'), ended('ep_1', 'expired')]) notices.publish(notice)
  const lines = await linesOf(attempts)
  assert.ok(lines.includes('{tenant="acme",endpoint="ep_0",outcome="delivered"} 2'))
  assert.ok(lines.includes('{tenant="bolt",endpoint="ep_1",outcome="permanent"} 1'))
  assert.ok((await linesOf(deadLetters)).includes('{tenant="bolt",endpoint="ep_1"} 2'))
})

test('what a person ended on purpose is no dead letter of the endpoint', async () => {
  const { notices, linesOf } = scene(several(1), 100)
  for (const reason of ['cancelled', 'endpoint_deleted'] as const) notices.publish(ended('ep_0', reason))
  assert.ok((await linesOf(deadLetters)).every((line) => line.endsWith(' 0')))
})

test('of more endpoints than have a place, the first that fail get one and the others are one', async () => {
  const { notices, linesOf } = scene(several(1_000), 2)
  for (let n = 0; n < 10; n++) notices.publish(tried(`ep_${n}`))
  for (const n of [500, 600, 700]) notices.publish(failed(`ep_${n}`))
  assert.deepEqual(await linesOf(deadLetters), [
    '{tenant="acme",endpoint="ep_500"} 1',
    '{tenant="acme",endpoint="ep_600"} 1',
    '{tenant="other",endpoint="other"} 1',
  ])
  assert.ok((await linesOf(attempts)).includes('{tenant="other",endpoint="other",outcome="delivered"} 10'))
})

test('a series keeps its place and never goes back, however many others fail', async () => {
  const { notices, linesOf } = scene(several(1_000), 2)
  notices.publish(failed('ep_500'))
  await linesOf(deadLetters)
  for (let n = 0; n < 100; n++) notices.publish(failed(`ep_${n}`))
  notices.publish(failed('ep_500'))
  const lines = await linesOf(deadLetters)
  assert.ok(lines.includes('{tenant="acme",endpoint="ep_500"} 2'))
  assert.equal(lines.length, 3)
})

test('the series over all endpoints add up to all attempts', async () => {
  const { notices, linesOf } = scene(several(50), 7)
  for (let n = 0; n < 500; n++) notices.publish(n % 3 === 0 ? failed(`ep_${n % 50}`) : tried(`ep_${n % 50}`))
  const sum = (lines: readonly string[]) => lines.reduce((total, line) => total + Number(line.split(' ').at(-1)), 0)
  assert.equal(sum(await linesOf(attempts)), 500)
  assert.equal(sum(await linesOf('posthorn_attempts_total')), 500)
})

test('a deleted endpoint gives its place away', async () => {
  const endpoints = several(3)
  const { notices, linesOf } = scene(endpoints, 1)
  notices.publish(failed('ep_0'))
  await linesOf(deadLetters)
  endpoints.shift()
  await linesOf(deadLetters)
  notices.publish(failed('ep_1'))
  assert.deepEqual(await linesOf(deadLetters), [
    '{tenant="bolt",endpoint="ep_1"} 1',
    '{tenant="other",endpoint="other"} 0',
  ])
})

test('0 places switch the series by endpoint off', async () => {
  const { notices, linesOf } = scene(several(2), 0)
  notices.publish(failed('ep_0'))
  assert.deepEqual(await linesOf(deadLetters), ['{tenant="other",endpoint="other"} 1'])
})
