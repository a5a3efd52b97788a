import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { Notices } from '../../src/notices.ts'
import { anInput, answered, type Bench, openBench } from '../support/dispatch-bench.ts'

test('tells of an accepted event and of its first try, with its waits and its trace', async (t) => {
  const bench = await openBench(t, { script: () => 'hold' })
  const endpoint = await bench.add()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const eventId = await bench.send({ headers: { traceparent } })
  await bench.pass(40)
  bench.wire.answerAll(answered(200))
  await bench.quiet()
  assert.deepEqual(only(bench, 'event.accepted'), [
    { kind: 'event.accepted', tenant: 'default', eventId, type: 'order.created', deliveries: 1 },
  ])
  const [settled] = only(bench, 'attempt.settled')
  const [record] = await bench.deliveries()
  assert.deepEqual(settled, {
    kind: 'attempt.settled',
    tenant: 'default',
    deliveryId: record!.delivery.id,
    eventId,
    endpointId: endpoint.id,
    endpointKind: 'http',
    type: 'order.created',
    number: 1,
    outcome: 'delivered',
    statusCode: 200,
    error: null,
    startedAt: record!.delivery.receivedAt,
    tookMs: 40,
    status: 'delivered',
    reason: null,
    queuedMs: 0,
    endToEndMs: 40,
    traceparent,
  })
})

test('says of a later try neither that it queued nor that the delivery ended before it did', async (t) => {
  const bench = await openBench(t, { script: (_, tries) => answered(tries === 1 ? 503 : 422) })
  await bench.add()
  await bench.send()
  await bench.quiet()
  await bench.pass(1_000)
  const [first, second] = only(bench, 'attempt.settled')
  assert.deepEqual([first?.status, first?.endToEndMs, first?.queuedMs], ['pending', null, 0])
  assert.deepEqual([second?.status, second?.reason], ['failed', 'permanent_status'])
  assert.deepEqual([second?.queuedMs, second?.endToEndMs], [null, 1_000])
})

test('does not announce a duplicate a second time', async (t) => {
  const bench = await openBench(t)
  const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', keptMs: 60_000 }
  await bench.intake.accept([anInput({ idempotency })])
  await bench.intake.accept([anInput({ idempotency })])
  assert.equal(only(bench, 'event.accepted').length, 1)
})

test('tells of an endpoint that comes, is disabled by its own 410, and goes', async (t) => {
  const bench = await openBench(t, { script: () => answered(410) })
  const endpoint = await bench.add({ ordering: 'none' })
  await bench.send()
  await bench.quiet()
  await bench.catalogue.remove(endpoint.id)
  assert.deepEqual(
    only(bench, 'endpoint.changed').map(({ endpointId, status }) => [endpointId, status]),
    [
      [endpoint.id, 'active'],
      [endpoint.id, 'disabled'],
      [endpoint.id, null],
    ],
  )
})

test('tells of a breaker that opens, probes and closes', async (t) => {
  const breaker = { threshold: 1, cooldownMs: 1_000, whenOpen: 'park' } as const
  const bench = await openBench(t, { script: (_, tries) => answered(tries === 1 ? 503 : 200) })
  await bench.add({ breaker })
  await bench.send()
  await bench.quiet()
  await bench.pass(1_000)
  assert.deepEqual(
    only(bench, 'breaker.changed').map(({ from, to }) => `${from} > ${to}`),
    ['closed > open', 'open > half_open', 'half_open > closed'],
  )
})

test('tells of a delivery that ended without a try', async (t) => {
  const breaker = { threshold: 1, cooldownMs: 60_000, whenOpen: 'fail' } as const
  const bench = await openBench(t, { script: () => answered(503) })
  const endpoint = await bench.add({ breaker })
  await bench.send()
  await bench.quiet()
  const eventId = await bench.send()
  await bench.quiet()
  const [ended] = only(bench, 'delivery.ended')
  assert.deepEqual(
    [ended?.eventId, ended?.endpointId, ended?.type, ended?.status, ended?.reason],
    [eventId, endpoint.id, 'order.created', 'failed', 'breaker_open'],
  )
})

test('a listener that throws keeps nothing from the others', () => {
  const defects: unknown[] = []
  const heard: Notice[] = []
  const notices = new Notices((error) => defects.push(error))
  assert.equal(notices.heard, false)
  notices.subscribe(() => {
    throw new Error('mine')
  })
  const end = notices.subscribe((notice) => heard.push(notice))
  const notice: Notice = { kind: 'event.accepted', tenant: 't', eventId: 'evt_1', type: 'a', deliveries: 0 }
  notices.publish(notice)
  end()
  notices.publish(notice)
  assert.deepEqual([heard, defects.length], [[notice], 2])
})

function only<K extends Notice['kind']>({ heard }: Bench, kind: K): Extract<Notice, { kind: K }>[] {
  return heard.filter((notice): notice is Extract<Notice, { kind: K }> => notice.kind === kind)
}
