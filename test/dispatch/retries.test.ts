import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { answered, type Bench, numberIn, openBench, unreachable } from '../support/dispatch-bench.ts'

describe('retries', () => {
  test('five attempts after 1, 2, 4 and 8 seconds, numbered on the wire, then failed as exhausted', async (t) => {
    const bench = await openBench(t, { script: () => answered(503) })
    await bench.add({ breaker: null })
    await bench.send()
    await bench.quiet()
    await bench.pass(60_000, 250)
    const [first] = bench.wire.tries
    assert.deepEqual(
      bench.wire.tries.map((one) => [one.parcel.attempt, one.at - first!.at]),
      [
        [1, 0],
        [2, 1_000],
        [3, 3_000],
        [4, 7_000],
        [5, 15_000],
      ],
    )
    const delivery = await only(bench)
    assert.deepEqual([delivery.status, delivery.status === 'failed' && delivery.reason], ['failed', 'exhausted'])
    const attempts = await bench.store.listAttempts(delivery.id)
    assert.deepEqual(attempts.map((attempt) => attempt.number).toSorted(), [1, 2, 3, 4, 5])
  })

  test('every try carries the same id and the same bytes', async (t) => {
    const bench = await openBench(t, { script: () => answered(503) })
    await bench.add({ breaker: null })
    const id = await bench.send({ n: 7 })
    await bench.quiet()
    const before = [...bench.wire.tries]
    await bench.pass(2_000, 500)
    const again = await bench.restart({ script: () => answered(503) })
    await again.pass(60_000, 500)
    const tries = [...before, ...again.wire.tries]
    assert.ok(tries.length >= 4)
    for (const { parcel } of tries) {
      assert.equal(parcel.event.id, id)
      assert.equal(Buffer.from(parcel.event.body).toString(), '{"n":7}')
    }
  })

  test('a permanent answer ends it at once', async (t) => {
    const bench = await openBench(t, { script: () => answered(404) })
    await bench.add()
    await bench.send()
    await bench.pass(60_000, 5_000)
    assert.equal(bench.wire.tries.length, 1)
    const delivery = await only(bench)
    assert.equal(delivery.status === 'failed' && delivery.reason, 'permanent_status')
  })

  test('backoff survives a restart', async (t) => {
    const before = await openBench(t, { script: () => answered(503) })
    await before.add({ breaker: null })
    await before.send()
    await before.quiet()
    await before.pass(7_000, 250)
    assert.equal(before.wire.tries.length, 4)
    const bench = await before.restart({ script: () => answered(200) })
    await bench.pass(7_000, 250)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(1_100, 100)
    assert.equal(bench.wire.tries.length, 1)
    assert.equal(bench.wire.tries[0]!.parcel.attempt, 5)
  })
})

describe("a person's retry", () => {
  test('of an exhausted one gives a fresh budget, and numbering goes on', async (t) => {
    const bench = await openBench(t, { script: () => answered(503) })
    await bench.add({ breaker: null })
    await bench.send()
    await bench.quiet()
    await bench.pass(16_000, 250)
    const { id } = await only(bench)
    assert.equal(await bench.dispatcher.retry(id), 'retried')
    await bench.quiet()
    await bench.pass(60_000, 250)
    assert.deepEqual(
      bench.wire.tries.map((one) => one.parcel.attempt),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    const delivery = await only(bench)
    assert.deepEqual([delivery.status, delivery.attempts, delivery.triesInBudget], ['failed', 10, 5])
  })

  test('of a delivered one sends it again', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    await bench.send()
    await bench.quiet()
    assert.equal(await bench.dispatcher.retry((await only(bench)).id), 'retried')
    await bench.quiet()
    assert.deepEqual(
      bench.wire.tries.map((one) => one.parcel.attempt),
      [1, 2],
    )
    assert.equal((await only(bench)).status, 'delivered')
  })

  test('of a waiting one cuts its backoff', async (t) => {
    const bench = await openBench(t, { script: () => answered(503) })
    await bench.add({ breaker: null })
    await bench.send()
    await bench.quiet()
    assert.equal(await bench.dispatcher.retry((await only(bench)).id), 'retried')
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
  })

  test('of one that is being tried, or that nobody knows, is refused', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add()
    await bench.send()
    await bench.quiet()
    const { id } = await only(bench)
    assert.equal(await bench.dispatcher.retry(id), 'in_progress')
    assert.equal(await bench.dispatcher.retry('dlv_00000000000000000000000'), 'not_found')
    assert.equal(bench.wire.tries.length, 1)
  })

  test('of an endpoint that is gone is refused', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    await bench.send()
    await bench.quiet()
    await bench.catalogue.remove(endpoint.id)
    assert.equal(await bench.dispatcher.retry((await only(bench)).id), 'endpoint_gone')
  })

  test('never overtakes in a lane: a dead letter goes to the tail, one behind another stays there', async (t) => {
    const bench = await openBench(t, { script: (parcel) => (numberIn(parcel) === 0 ? answered(400) : 'hold') })
    await bench.add({ ordering: 'endpoint' })
    for (let n = 0; n < 4; n++) await bench.send({ n })
    await bench.quiet()
    const records = await bench.deliveries()
    assert.equal(await bench.dispatcher.retry(records[0]!.delivery.id), 'retried')
    assert.equal(await bench.dispatcher.retry(records[3]!.delivery.id), 'retried')
    await bench.quiet()
    assert.equal(bench.wire.open.size, 1)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(
      bench.wire.tries.map((one) => numberIn(one.parcel)),
      [0, 1, 2, 3, 0],
    )
    assert.deepEqual(await bench.tally(), { delivered: 4 })
  })

  test('never overrides a pause, and goes out at once when the endpoint is resumed', async (t) => {
    const bench = await openBench(t, { script: () => answered(400) })
    const endpoint = await bench.add()
    await bench.send()
    await bench.quiet()
    await bench.catalogue.put({ ...endpoint, status: 'paused' })
    assert.equal(await bench.dispatcher.retry((await only(bench)).id), 'retried')
    await bench.pass(10_000, 1_000)
    assert.equal(bench.wire.tries.length, 1)
    bench.wire.script = () => answered(200)
    await bench.catalogue.put(endpoint)
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    assert.equal((await only(bench)).status, 'delivered')
  })

  test('goes out before the others that wait for a slot', async (t) => {
    const bench = await openBench(t, { script: () => answered(400) })
    await bench.add({ concurrency: 1 })
    await bench.send({ n: 99 })
    await bench.quiet()
    const { id } = await only(bench)
    bench.wire.script = () => 'hold'
    for (let n = 0; n < 5; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(await bench.dispatcher.retry(id), 'retried')
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(
      bench.wire.tries.map((one) => numberIn(one.parcel)),
      [99, 0, 99, 1, 2, 3, 4],
    )
  })

  test('is kept although the claim after it fails', async (t) => {
    const bench = await openBench(t, { script: () => unreachable('ECONNREFUSED') })
    await bench.add({ breaker: null })
    await bench.send()
    await bench.quiet()
    await bench.pass(16_000, 250)
    bench.wire.script = () => answered(200)
    bench.watched.refuse('claim')
    assert.equal(await bench.dispatcher.retry((await only(bench)).id), 'retried')
    await bench.quiet()
    bench.watched.mend()
    await bench.pass(2_000, 500)
    assert.equal((await only(bench)).status, 'delivered')
  })
})

async function only(bench: Bench) {
  const records = await bench.deliveries()
  assert.equal(records.length, 1)
  return records[0]!.delivery
}
