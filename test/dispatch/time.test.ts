import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { presets, type RetryPolicy } from '../../src/core/retry-policy.ts'
import { leaseMs } from '../../src/dispatch/lease-keeper.ts'
import type { LeaseRenewal } from '../../src/store/pipeline-store.ts'
import { anArrival, retryAt } from '../support/builders.ts'
import { anInput, answered, type Bench, exactWebhook, openBench } from '../support/dispatch-bench.ts'

const dayMs = 24 * 3_600_000

describe('clocks', () => {
  for (const [name, skewMs] of [
    ['forward', dayMs],
    ['back', -dayMs],
  ] as const) {
    test(`the wall clock set ${name} by a day neither delays nor hastens a retry`, async (t) => {
      const bench = await openBench(t, { script: () => answered(503) })
      await bench.add({ breaker: null })
      await bench.send()
      await bench.quiet()
      bench.time.skewMs = skewMs
      await bench.pass(1_000, 250)
      await bench.pass(30_000, 250)
      const [first] = bench.wire.tries
      assert.deepEqual(
        bench.wire.tries.map((one) => one.at - first!.at),
        [0, 1_000, 3_000, 7_000, 15_000],
      )
    })

    test(`the wall clock set ${name} by a day does not expire an event, nor keep a hold`, async (t) => {
      const bench = await openBench(t, { script: () => answered(429, { 'retry-after': '5' }) })
      await bench.add({ breaker: null, retry: { ...exactWebhook, maxAgeMs: 3_600_000 } })
      bench.time.skewMs = skewMs
      await bench.send()
      await bench.quiet()
      assert.deepEqual(await bench.tally(), { pending: 1 })
      bench.wire.script = () => answered(200)
      await bench.pass(5_000, 1_000)
      assert.deepEqual(await bench.tally(), { delivered: 1 })
    })
  }

  test('the wall clock set forward, once it has gone on for a while, lets an event expire at its attempt', async (t) => {
    const bench = await openBench(t, { script: () => answered(503) })
    const everyMinute: RetryPolicy = { ...presets.publish, preset: null, strategy: 'schedule', delaysMs: [60_000] }
    await bench.add({ breaker: null, retry: { ...everyMinute, maxAgeMs: 3_600_000 } })
    await bench.send()
    await bench.quiet()
    bench.time.skewMs = 3 * dayMs
    await bench.pass(55 * 60_000, 60_000)
    assert.deepEqual(await bench.tally(), { pending: 1 })
    await bench.pass(10 * 60_000, 60_000)
    assert.deepEqual(await bench.tally(), { dead_letter: 1 })
  })

  test('due times from a clock that ran far ahead are pulled back at the start', async (t) => {
    const before = await openBench(t)
    const endpoint = await before.add()
    const dueAt = before.time.steady() + 365 * dayMs
    const arrival = anArrival(endpoint, { delivery: { dueAt } })
    await before.store.append([arrival])
    const from = { deliveryIds: [arrival.deliveries[0]!.id] }
    const now = before.time.steady()
    const { claims } = await before.store.claim({ from, now, leaseEndsAt: now + 9, limit: 1, bytesMax: 1_000 })
    await before.store.commit([{ to: retryAt(claims[0]!.delivery, dueAt), attempt: null, claimNext: null }])
    const bench = await before.restart()
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(dayMs - 60_000, 3_600_000)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(60_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('what was never tried is not put off by a clock that ran ahead', async (t) => {
    const before = await openBench(t)
    const endpoint = await before.add()
    await before.store.append([anArrival(endpoint, { delivery: { dueAt: before.time.steady() + 365 * dayMs } })])
    const bench = await before.restart()
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })
})

describe('leases', () => {
  test('of everything in hand are renewed before they end', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 2, timeoutMs: 300_000 })
    await send(bench, 10)
    const renewed: LeaseRenewal[][] = []
    bench.watched.onCall = (name, [leases]) => {
      if (name === 'renew') renewed.push(leases as LeaseRenewal[])
    }
    for (let round = 1; round <= 4; round++) {
      await bench.pass(4 * 60_000, 60_000)
      bench.wire.answerAll(answered(200))
      await bench.quiet()
    }
    assert.deepEqual(
      renewed.map((leases) => leases.length),
      [10, 10, 8, 8, 6, 6, 4, 4],
    )
    for (const { delivery } of await bench.deliveries()) {
      if (delivery.status !== 'delivered')
        assert.ok(delivery.status === 'processing' && delivery.leaseEndsAt > bench.time.steady())
    }
    // A look at the backlog brings back nothing that is in hand.
    assert.equal(bench.wire.tries.length, 10)
  })

  test('no try starts whose lease could end before its timeout', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 1, timeoutMs: 300_000 })
    await send(bench, 5)
    bench.watched.refuse('renew')
    await bench.pass(200_000, 10_000)
    bench.wire.answerAll(answered(200))
    await bench.pass(leaseMs - 400_000, 10_000)
    let checked = 0
    bench.wire.script = () => 'hold'
    for (let n = 0; n < 4; n++) {
      const [one] = bench.wire.open
      const record = await bench.store.getDelivery(one!.parcel.deliveryId)
      const { delivery } = record!
      assert.ok(delivery.status === 'processing')
      if (n > 0) assert.ok(delivery.leaseEndsAt >= one!.at + 300_000, `only ${delivery.leaseEndsAt - one!.at} ms left`)
      checked += 1
      one!.answer(answered(200))
      await bench.quiet()
    }
    assert.equal(checked, 4)
    assert.deepEqual(await bench.tally(), { delivered: 5 })
    assert.ok((await bench.deliveries()).every(({ delivery }) => delivery.attempts === 1))
  })

  test('a renewal counts: what it renewed need not be claimed anew', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 1, timeoutMs: 300_000 })
    await send(bench, 5)
    for (let passedMs = 0; passedMs < leaseMs; passedMs += 240_000) {
      await bench.pass(240_000, 60_000)
      bench.wire.answerAll(answered(200))
    }
    const claims = bench.watched.calls('claim')
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 5 })
    assert.equal(bench.watched.calls('claim'), claims)
  })
})

describe('the look at the backlog', () => {
  test('finds rows that nobody hinted at', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    await bench.store.append([anArrival(endpoint), anArrival(endpoint)])
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(30_000)
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })

  test('finds deliveries whose lease has ended without an outcome', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    await bench.store.append([anArrival(endpoint, { delivery: { leaseEndsAt: bench.time.steady() + 60_000 } })])
    await bench.pass(59_000, 1_000)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(31_000, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('is made again although one failed', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    await bench.store.append([anArrival(endpoint)])
    bench.watched.refuse('backlog')
    await bench.pass(60_000, 30_000)
    bench.watched.mend()
    await bench.pass(30_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })
})

async function send(bench: Bench, count: number): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ n })))
  await bench.quiet()
}
