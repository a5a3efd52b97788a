import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { anInput, answered, type Bench, openBench } from '../support/dispatch-bench.ts'

describe('fairness', () => {
  test('an endpoint with thousands queued has half of the slots at most: the single event of another goes at once', async (t) => {
    const bench = await openBench(t, { attemptsMax: 4, script: () => 'hold' })
    const busy = await bench.add({ types: ['busy'], concurrency: 100 })
    const small = await bench.add({ types: ['small'] })
    await fill(bench, 'busy', 2_000)
    assert.equal(bench.wire.openOf(busy), 2)
    await bench.send({ type: 'small' })
    await bench.quiet()
    assert.equal(bench.wire.openOf(small), 1)
  })

  test('when endpoints hang, the last slots are for those that have none', async (t) => {
    const bench = await openBench(t, { attemptsMax: 20, script: () => 'hold' })
    for (const type of ['a', 'b']) {
      await bench.add({ types: [type], concurrency: 10 })
      await fill(bench, type, 50)
    }
    const healthy = await bench.add({ types: ['healthy'] })
    assert.equal(bench.wire.open.size, 18)
    await bench.send({ type: 'healthy' })
    await bench.quiet()
    assert.equal(bench.wire.openOf(healthy), 1)
  })

  test('many endpoints with queues get turns one after another', async (t) => {
    const bench = await openBench(t, { attemptsMax: 1, script: () => 'hold' })
    const endpoints: Endpoint[] = []
    for (const type of ['a', 'b', 'c', 'd']) endpoints.push(await bench.add({ types: [type] }))
    for (const type of ['a', 'b', 'c', 'd']) await fill(bench, type, 20)
    for (let turn = 0; turn < 40; turn++) {
      bench.wire.answerAll(answered(200))
      await bench.quiet()
    }
    const tries = endpoints.map((endpoint) => bench.wire.triesOf(endpoint).length)
    assert.ok(Math.max(...tries) - Math.min(...tries) <= 1, `turns were not shared: ${tries}`)
    assert.equal(bench.wire.openMax, 1)
  })

  test('neither the cap over all endpoints nor that of one is ever passed', async (t) => {
    const bench = await openBench(t, { attemptsMax: 12, script: () => 'hold' })
    const endpoints: Endpoint[] = []
    for (const [type, concurrency] of [
      ['a', 1],
      ['b', 3],
      ['c', 50],
    ] as const) {
      endpoints.push(await bench.add({ types: [type], concurrency, breaker: null }))
      await fill(bench, type, 100)
    }
    let turn = 0
    while ((await bench.tally()).pending !== undefined || bench.wire.open.size > 0) {
      turn += 1
      const status = turn % 3 === 0 ? 503 : 200
      bench.wire.answerAll(answered(status), (one) => (one.parcel.deliveryId.charCodeAt(8) + turn) % 2 === 0)
      if (turn % 2 === 0) bench.wire.answerAll(answered(status))
      await bench.pass(500)
    }
    assert.ok(bench.wire.openMax <= 12 && bench.wire.openMax > 9, `${bench.wire.openMax} at once`)
    assert.deepEqual(endpoints.map((endpoint) => bench.wire.openMaxOf.get(endpoint.id)).slice(0, 2), [1, 3])
    assert.equal((await bench.deliveries()).length, 300)
  })

  test('an endpoint reaches the concurrency it was given, also the largest', async (t) => {
    const bench = await openBench(t, { attemptsMax: 2_000, script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 1_000 })
    for (let n = 0; n < 15; n++) await fill(bench, 'order.created', 100)
    assert.equal(bench.wire.openOf(endpoint), 1_000)
  })

  test('the rate limit holds in every second, and is used up', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ rateLimit: { perSecond: 10 } })
    await fill(bench, 'order.created', 150)
    await bench.pass(10_000, 20)
    const instants = bench.wire.triesOf(endpoint).map((one) => one.at)
    for (const at of instants) {
      const inSecond = instants.filter((other) => other >= at && other < at + 1_000).length
      assert.ok(inSecond <= 20, `${inSecond} tries in one second`)
    }
    // The bucket is full at first: ten at once, then ten a second.
    const total = instants.length
    assert.ok(total >= 105 && total <= 110, `${total} tries in 10 s`)
    await bench.pass(6_000, 20)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 150 })
  })

  test("a person's retry respects concurrency, rate limit and the cap over all", async (t) => {
    const bench = await openBench(t, { attemptsMax: 2, script: () => answered(400) })
    const endpoint = await bench.add({ concurrency: 1 })
    for (let n = 0; n < 5; n++) await bench.send({ n })
    await bench.quiet()
    const dead = await bench.deliveries(endpoint.id)
    bench.wire.script = () => 'hold'
    for (const { delivery } of dead) assert.equal(await bench.dispatcher.retry(delivery.id), 'retried')
    await bench.quiet()
    assert.equal(bench.wire.openOf(endpoint), 1)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 5 })
    assert.equal(bench.wire.openMaxOf.get(endpoint.id), 1)
  })
})

async function fill(bench: Bench, type: string, count: number): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ type, n })))
  await bench.quiet()
}
