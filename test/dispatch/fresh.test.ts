import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { anInput, answered, numberIn, openBench, unreachable } from '../support/dispatch-bench.ts'

describe('fresh events', () => {
  test('a fresh event is delivered without being read back from the store', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    await bench.quiet()
    const claimsBefore = bench.watched.calls('claim')
    for (let n = 0; n < 100; n++) await bench.send({ n })
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 100 })
    assert.equal(bench.wire.tries.length, 100)
    assert.equal(bench.watched.calls('claim'), claimsBefore)
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })

  test('what a full window leaves out waits in the store and is claimed later, once', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 2 })
    await bench.intake.accept(Array.from({ length: 300 }, (_, n) => anInput({ n })))
    await bench.quiet()
    assert.equal(bench.wire.open.size, 2)
    assert.deepEqual(await bench.tally(endpoint.id), { processing: 64, pending: 236 })
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 300 })
    assert.deepEqual(
      numbersOf(bench.wire.tries),
      Array.from({ length: 300 }, (_, n) => n),
    )
  })

  test('a ledger over thousands of events with every kind of outcome has no gap and no repeat', async (t) => {
    const failedHere = new Set<number>()
    const answers = [
      () => answered(200),
      (attempt: number) => answered(attempt < 3 ? 503 : 200),
      () => answered(400),
      () => answered(429),
      (_: number, n: number) => {
        if (failedHere.has(n)) return answered(204)
        failedHere.add(n)
        return unreachable('EMFILE')
      },
    ]
    const bench = await openBench(t, {
      attemptsMax: 50,
      script: (parcel) => {
        const n = numberIn(parcel)
        return answers[n % 7]?.(parcel.attempt, n) ?? answered(200)
      },
    })
    const endpoint = await bench.add({ concurrency: 20, breaker: null })
    const total = 3_000
    for (let n = 0; n < total; n += 50) {
      const batch = Array.from({ length: 50 }, (_, i) => anInput({ n: n + i }))
      await bench.intake.accept(batch)
    }
    await bench.quiet()
    await bench.pass(60_000, 500)
    const records = await bench.deliveries(endpoint.id)
    assert.equal(records.length, total)
    const triesBy = new Map<string, number[]>()
    for (const { parcel } of bench.wire.tries) {
      const numbers = triesBy.get(parcel.deliveryId) ?? []
      triesBy.set(parcel.deliveryId, [...numbers, parcel.attempt])
    }
    const expected = [
      { status: 'delivered', tries: [1] },
      { status: 'delivered', tries: [1, 2, 3] },
      { status: 'failed', tries: [1] },
      { status: 'failed', tries: [1, 2, 3, 4, 5] },
      // The first one failed here and was no attempt.
      { status: 'delivered', tries: [1, 1] },
      { status: 'delivered', tries: [1] },
      { status: 'delivered', tries: [1] },
    ]
    records.forEach(({ delivery }, n) => {
      assert.deepEqual({ status: delivery.status, tries: triesBy.get(delivery.id) }, expected[n % 7], `event ${n}`)
    })
    assert.deepEqual(bench.logged, [])
  })

  test('one event for several endpoints is delivered to each of them', async (t) => {
    const bench = await openBench(t)
    const all = await bench.add()
    const orders = await bench.add({ types: ['order.*'] })
    const others = await bench.add({ types: ['invoice.*'] })
    await bench.send({ type: 'order.created' })
    await bench.quiet()
    assert.deepEqual(
      [all, orders, others].map((endpoint) => bench.wire.triesOf(endpoint).length),
      [1, 1, 0],
    )
  })
})

function numbersOf(tries: readonly { parcel: Parameters<typeof numberIn>[0] }[]): number[] {
  return tries.map(({ parcel }) => numberIn(parcel)).sort((a, b) => a - b)
}
