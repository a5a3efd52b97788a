import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { DeliveryEnded } from '../../src/core/notice.ts'
import { anInput, answered, type Bench, exactWebhook, numberIn, openBench } from '../support/dispatch-bench.ts'

describe('pausing and disabling', () => {
  test('a paused endpoint collects, tries nothing, and goes on at resume, also after a restart', async (t) => {
    let bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 2 })
    await send(bench, 30)
    await bench.catalogue.put({ ...endpoint, status: 'paused' })
    await bench.quiet()
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    await send(bench, 10)
    assert.equal(bench.wire.tries.length, 2)
    assert.deepEqual(await bench.tally(), { delivered: 2, pending: 38 })
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    bench = await bench.restart({ script: () => answered(200) })
    await bench.pass(60_000, 10_000)
    assert.equal(bench.wire.tries.length, 0)
    await bench.catalogue.put(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 40 })
    assert.equal(bench.wire.tries.length, 38)
  })

  test('410 of what is behind a relay is one failed delivery, like any 4xx', async (t) => {
    const bench = await openBench(t, { target: (parcel) => answered(numberIn(parcel) === 0 ? 410 : 200) })
    const endpoint = await bench.addRelay({ classify: { '4xx': 'permanent' } })
    for (const n of [0, 1]) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.catalogue.get(endpoint.id)!.status, 'active')
    assert.deepEqual(await bench.tally(), { failed: 1, delivered: 1 })
  })

  test('410 disables the endpoint; what waits is kept and goes on when it is active again', async (t) => {
    const bench = await openBench(t, { script: () => answered(410) })
    const endpoint = await bench.add({ concurrency: 1 })
    await send(bench, 20)
    assert.equal(bench.wire.tries.length, 1)
    assert.equal(bench.catalogue.get(endpoint.id)!.status, 'disabled')
    assert.deepEqual(await bench.tally(), { failed: 1, pending: 19 })
    const [gone] = await bench.deliveries()
    assert.equal(gone!.delivery.status === 'failed' && gone!.delivery.reason, 'gone')
    bench.wire.script = () => answered(200)
    await bench.catalogue.put(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { failed: 1, delivered: 19 })
  })

  test('pause and resume while a claim is under way lose nothing', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused' })
    await send(bench, 10)
    const goOn = bench.watched.hold('claim')
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.quiet()
    await bench.catalogue.put({ ...endpoint, status: 'paused' })
    goOn()
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 0)
    assert.deepEqual(await bench.tally(), { pending: 10 })
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 10 })
    assert.equal(bench.wire.tries.length, 10)
  })
})

describe('removing an endpoint', () => {
  test('what waits ends as endpoint_deleted, what is in flight finishes', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 3 })
    await send(bench, 2_500)
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    const [first, second, third] = [...bench.wire.open]
    first!.answer(answered(200))
    second!.answer(answered(503))
    third!.answer(answered(400))
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 3)
    assert.deepEqual(await reasons(bench), { delivered: 1, permanent_status: 1, endpoint_deleted: 2_498 })
  })

  test('the end of each delivery that waited is told once, with its event', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ status: 'paused' })
    const eventIds = await send(bench, 2_500)
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    const told = endsTold(bench)
    assert.deepEqual(told.map(({ eventId }) => eventId).sort(), eventIds.toSorted())
    assert.equal(new Set(told.map(({ deliveryId }) => deliveryId)).size, 2_500)
    for (const { tenant, endpointId, type, status, reason } of told) {
      assert.deepEqual(
        { tenant, endpointId, type, status, reason },
        {
          tenant: endpoint.tenant,
          endpointId: endpoint.id,
          type: 'order.created',
          status: 'failed',
          reason: 'endpoint_deleted',
        },
      )
    }
  })

  test('what waits is ended by one loop, which rests after a step for as long as it took', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ status: 'paused' })
    await send(bench, 2_500)
    bench.watched.onCall = (name) => {
      if (name === 'endPending') setImmediate(() => bench.time.tick(20))
    }
    const goOn = bench.watched.hold('endPending')
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    // Who looks at the backlog meanwhile finds the endpoint too.
    await bench.pass(60_000, 5_000)
    assert.equal(bench.watched.calls('endPending'), 1)
    goOn()
    await bench.quiet()
    assert.deepEqual(await reasons(bench), { pending: 2_400, endpoint_deleted: 100 })
    for (let left = 10; left > 0; left -= 1) await bench.pass(60_000)
    assert.deepEqual(await reasons(bench), { endpoint_deleted: 2_500 })
  })

  test('an ordered lane ends as a whole', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ ordering: 'endpoint' })
    await send(bench, 20)
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    bench.wire.answerAll(answered(503))
    await bench.quiet()
    assert.deepEqual(await reasons(bench), { endpoint_deleted: 20 })
    assert.equal(bench.wire.tries.length, 1)
  })

  test('a retry that is decided before and written after the removal ends too, without waiting for a look', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add()
    await send(bench, 1)
    const goOn = bench.watched.hold('commit')
    bench.wire.answerAll(answered(503))
    await bench.quiet()
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    goOn()
    await bench.quiet()
    assert.deepEqual(await reasons(bench), { endpoint_deleted: 1 })
  })

  test('an event that is being written when its endpoint goes ends as endpoint_deleted', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    const goOn = bench.watched.hold('append')
    const accepted = bench.send()
    await bench.catalogue.remove(endpoint.id)
    goOn()
    await accepted
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 0)
    assert.deepEqual(await reasons(bench), { endpoint_deleted: 1 })
    assert.deepEqual(
      endsTold(bench).map(({ eventId, endpointId, reason }) => ({ eventId, endpointId, reason })),
      [{ eventId: await accepted, endpointId: endpoint.id, reason: 'endpoint_deleted' }],
    )
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })

  test('an event that was written and not yet handed over when its endpoint goes ends too', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    // Both are answered by the same turn of the store: the event is on disk and claimed before the endpoint is gone.
    await Promise.all([bench.send(), bench.catalogue.remove(endpoint.id)])
    await bench.quiet()
    const [record] = await bench.deliveries()
    assert.ok(['delivered', 'failed'].includes(record!.delivery.status), record!.delivery.status)
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })

  test('what a crash left behind of a removed endpoint is ended by the next start', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused' })
    await send(bench, 10)
    bench.watched.refuse('endPending')
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 10 })
    const next = await bench.restart()
    await next.quiet()
    assert.deepEqual(await reasons(next), { endpoint_deleted: 10 })
  })
})

describe('new settings', () => {
  test('more concurrency, another url and another retry policy take effect at once', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 1, breaker: null })
    await send(bench, 10)
    assert.equal(bench.wire.open.size, 1)
    await bench.catalogue.put({ ...endpoint, concurrency: 5, url: 'https://other.example/', retry: once })
    await bench.quiet()
    assert.equal(bench.wire.open.size, 5)
    assert.partialDeepStrictEqual(bench.wire.tries.at(-1)!.parcel.endpoint, { url: 'https://other.example/' })
    bench.wire.answerAll(answered(503))
    await bench.quiet()
    assert.equal((await bench.tally()).failed, 5, 'the new policy grants one try')
  })

  test('less concurrency holds for what starts from now on', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 5 })
    await send(bench, 20)
    await bench.catalogue.put({ ...endpoint, concurrency: 2 })
    for (const expected of [4, 3, 2, 2, 2]) {
      const [first] = bench.wire.open
      first!.answer(answered(200))
      await bench.quiet()
      assert.equal(bench.wire.open.size, expected)
    }
  })

  test('a rate limit that is lifted is lifted at once', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ rateLimit: { perSecond: 0.01 } })
    await send(bench, 10)
    assert.equal(bench.wire.tries.length, 1)
    await bench.catalogue.put({ ...endpoint, rateLimit: null })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 10)
  })
})

const once = { ...exactWebhook, maxAttempts: 1 } satisfies Endpoint['retry']

/** Answers the ids of the events. */
async function send(bench: Bench, count: number): Promise<readonly string[]> {
  const answer = await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ n })))
  await bench.quiet()
  assert.ok(answer.kind === 'accepted')
  return answer.items.map(({ id }) => id)
}

async function reasons(bench: Bench): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { delivery } of await bench.deliveries()) {
    const word = delivery.status === 'failed' ? delivery.reason : delivery.status
    counts[word] = (counts[word] ?? 0) + 1
  }
  return counts
}

function endsTold({ heard }: Bench): readonly DeliveryEnded[] {
  return heard.filter((notice) => notice.kind === 'delivery.ended')
}
