import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import type { Ack } from '../../src/transports/relay/protocol.ts'
import { testSecret } from '../support/scripted-endpoint.ts'
import { HubScene, routeTo } from './hub-scene.ts'

test('hands a delivery to the target of its route, signed, byte for byte, and answers what came of it', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const slowMs = 20
  const target = await scene.target(async () => {
    const startedAt = performance.now()
    while (performance.now() - startedAt < slowMs) await setImmediate()
    return { status: 201, headers: { 'x-seen': 'yes' }, body: 'thanks' }
  })
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe({ headers: { 'x-team': 'own' } })
  const body = '{"text": "Grüße 🐎\\u0000"}'
  const request = { source: 'github', method: 'POST', query: 'a=1', headers: { 'x-github-event': 'push' } }
  link.deliver({ delivery: 'dlv_1', attempt: 3, body, event: { id: 'evt_7', headers: { 'x-own': '1' }, request } })
  const received = await target.next()
  assert.deepEqual([received.method, received.path, received.body.toString()], ['POST', '/hook?a=1', body])
  const { headers } = received
  assert.deepEqual(
    [headers['x-team'], headers['x-own'], headers['x-github-event'], headers['user-agent']],
    ['own', '1', 'push', 'posthorn/test'],
  )
  assert.deepEqual(
    [headers['posthorn-delivery'], headers['posthorn-attempt'], headers['webhook-id']],
    ['dlv_1', '3', 'evt_7'],
  )
  new Webhook(testSecret).verify(body, headers as Record<string, string>)
  const { report, tookMs, remembered, ...ack } = await link.ack()
  assert.deepEqual(ack, { kind: 'ack', delivery: 'dlv_1', bornAt: 1 })
  assert.ok(report.kind === 'answered')
  assert.deepEqual([report.statusCode, report.headers['x-seen'], report.body], [201, 'yes', 'thanks'])
  assert.ok(tookMs >= slowMs - 1, `${tookMs} ms`)
  assert.equal(remembered, undefined)
  const tried = await hub.event('tried')
  assert.deepEqual(
    [tried.delivery, tried.type, tried.route, tried.method, tried.path, tried.outcome.kind, tried.remembered],
    ['dlv_1', 'order.created', 'main', 'POST', '/hook', 'delivered', false],
  )
})

test('tells the edge its routes, its credit and its software, and the same session on every link', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  await scene.hub({
    edge: edge.url,
    routes: new Map([
      ['a', 'http://127.0.0.1:9/'],
      ['b.c', 'http://127.0.0.1:9/x'],
    ]),
  })
  const first = await edge.link()
  assert.deepEqual([first.hello.version, first.hello.software, first.hello.routes], [1, 'posthorn/test', ['a', 'b.c']])
  assert.ok(first.hello.credit.frames >= 100 && first.hello.credit.bytes >= 1 << 20)
  assert.ok(first.hello.frameBytesMax > first.hello.credit.bytes)
  first.ws.terminate()
  assert.equal((await edge.link()).hello.session, first.hello.session)
})

test('answers a repeat from memory, and a replay by a new try', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 404, body: 'no' }, { status: 200 }])
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'dlv_1' })
  const first = await link.ack()
  link.deliver({ delivery: 'dlv_1', attempt: 2 })
  const again = await link.ack()
  assert.ok(first.report.kind === 'answered' && again.report.kind === 'answered')
  assert.deepEqual([again.remembered, again.report.statusCode, again.report.body], [true, 404, 'no'])
  assert.equal(target.received.length, 1)
  link.deliver({ delivery: 'dlv_1', bornAt: 2, attempt: 3 })
  const replayed = await link.ack()
  assert.ok(replayed.report.kind === 'answered')
  assert.deepEqual([replayed.bornAt, replayed.remembered, replayed.report.statusCode], [2, undefined, 200])
})

test('tries again what was an end by rules that have changed since', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 404 }, { status: 200 }])
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe({ classify: { '4xx': 'permanent' } })
  link.deliver({ delivery: 'dlv_1' })
  await link.ack()
  link.describe({ classify: { '4xx': 'permanent', '404': 'retryable' } })
  const reports = []
  for (const attempt of [2, 3]) {
    link.deliver({ delivery: 'dlv_1', attempt })
    const { report, remembered } = await link.ack()
    reports.push([report.kind === 'answered' && report.statusCode, remembered])
  }
  assert.deepEqual(reports, [
    [200, undefined],
    [200, true],
  ])
  assert.equal(target.received.length, 2)
})

test('tries again what did not end', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target(['drop', { status: 503 }, {}])
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  const kinds: unknown[] = []
  for (const attempt of [1, 2, 3]) {
    link.deliver({ delivery: 'dlv_1', attempt })
    const { report, remembered } = await link.ack()
    kinds.push([report.kind === 'answered' ? report.statusCode : report.kind, remembered])
  }
  assert.deepEqual(kinds, [
    ['unreachable', undefined],
    [503, undefined],
    [200, undefined],
  ])
})

test('runs what is in no lane side by side, and not more of it than it may', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const answers: (() => void)[] = []
  const target = await scene.target(() => new Promise((resolve) => answers.push(() => resolve({}))))
  await scene.hub({ edge: edge.url, routes: routeTo(target), concurrency: 3 })
  const link = await edge.link()
  link.describe()
  for (const n of [1, 2, 3, 4]) link.deliver({ delivery: `dlv_${n}` })
  for (const _ of [1, 2, 3]) await target.next()
  // A round trip on the link: all that would have begun has begun.
  link.ws.ping()
  await once(link.ws, 'pong')
  assert.equal(target.received.length, 3)
  answers[0]?.()
  await target.next()
  assert.equal((await link.ack()).kind, 'ack')
  for (const answer of answers) answer()
  for (const _ of [1, 2, 3]) await link.ack()
})

test('does not run twice what comes again while it is under way', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const gate = Promise.withResolvers<void>()
  const target = await scene.target(() => gate.promise.then(() => ({})))
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const first = await edge.link()
  first.describe()
  first.deliver({ delivery: 'dlv_1' })
  await target.next()
  first.deliver({ delivery: 'dlv_1', attempt: 2 })
  first.ws.terminate()
  const second = await edge.link()
  second.describe()
  second.deliver({ delivery: 'dlv_1', attempt: 3 })
  second.ws.ping()
  await once(second.ws, 'pong')
  gate.resolve()
  const ack = await second.ack()
  assert.deepEqual([ack.delivery, ack.remembered], ['dlv_1', true])
  assert.equal(target.received.length, 1)
})

test('returns what is for an endpoint that was not described, or for a route that it does not have', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe({ endpoint: 'ep_2', route: 'elsewhere' })
  link.deliver({ delivery: 'dlv_1', endpoint: 'ep_1' })
  link.deliver({ delivery: 'dlv_2', endpoint: 'ep_2' })
  assert.deepEqual((await link.next('returned')).deliveries, ['dlv_1'])
  assert.deepEqual((await link.next('returned')).deliveries, ['dlv_2'])
  assert.equal(target.connections(), 0)
})

test('goes by the rules that came last: what is an end, which secrets sign, how long a try may take', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 404 }, { status: 404 }, 'hang'])
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  const outcomes: string[] = []
  for (const classify of [{ '404': 'retryable' }, { '4xx': 'permanent' }] as const) {
    link.describe({ classify, secrets: [] })
    link.deliver({ delivery: 'dlv_1' })
    await link.ack()
    outcomes.push((await hub.event('tried')).outcome.kind)
    assert.equal((await target.next()).headers['webhook-signature'], undefined)
  }
  assert.deepEqual(outcomes, ['retryable', 'permanent'])
  link.describe({ timeoutMs: 50 })
  link.deliver({ delivery: 'dlv_2' })
  const { report } = await link.ack()
  assert.deepEqual(report.kind === 'unreachable' && report.code, 'DEADLINE')
})

test('tries again what was an end only by the rules that it had before', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 404 }, { status: 200 }])
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'dlv_1' })
  assert.equal(statusOf(await link.ack()), 404)
  link.describe({ classify: { '404': 'retryable' } })
  link.deliver({ delivery: 'dlv_1', attempt: 2 })
  assert.equal(statusOf(await link.ack()), 200)
  link.deliver({ delivery: 'dlv_1', attempt: 3 })
  assert.deepEqual([statusOf(await link.ack()), target.received.length], [200, 2])
})

test('reports a target that is not there, and stays', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  await target.close()
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  for (const attempt of [1, 2]) {
    link.deliver({ delivery: 'dlv_1', attempt })
    const { report } = await link.ack()
    assert.equal(report.kind === 'unreachable' && report.code, 'ECONNREFUSED')
  }
})

test('hands nothing to another host than the one of the route, whatever the target answers', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const other = await scene.target()
  const target = await scene.target([{ status: 307, headers: { location: other.url } }])
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'dlv_1' })
  const { report } = await link.ack()
  assert.equal(report.kind === 'answered' && report.statusCode, 307)
  assert.equal(other.connections(), 0)
})

function statusOf({ report }: Ack): number | string {
  return report.kind === 'answered' ? report.statusCode : report.kind
}
