import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { readinessOf } from '../../src/upkeep/health.ts'
import { anInput, answered, type Bench, numberIn, openBench } from '../support/dispatch-bench.ts'

const nothing = { inFlight: 0, queued: 0, bytes: 0 }

describe('outcomes first', () => {
  test('while outcomes cannot be written no new try starts; then all are written, none lost, none twice', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 10 })
    await send(bench, 200)
    assert.equal(bench.wire.open.size, 10)
    bench.watched.refuse('commit')
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    const tries = bench.wire.tries.length
    assert.ok(tries <= 20, 'as many again may set out before the first write has failed')
    await bench.pass(5_000, 100)
    assert.equal(bench.wire.tries.length, tries, 'and none after it')
    assert.equal(bench.dispatcher.load().inFlight, tries, 'what waits for the disk counts as in flight')
    assert.deepEqual(readiness(bench), { ready: false, reasons: 1 })
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    bench.watched.mend()
    await bench.pass(250)
    assert.deepEqual(readiness(bench), { ready: true, reasons: 0 })
    assert.deepEqual(await bench.tally(), { delivered: 200 })
    assert.equal(bench.wire.tries.length, 200)
    assert.deepEqual(bench.dispatcher.load(), nothing)
  })

  test('an outcome that cannot be written at all keeps no other from the disk', async (t) => {
    // A due time that is no whole number is what a column of whole numbers refuses.
    const odd = {
      kind: 'thrown',
      verdict: 'retryable',
      message: 'busy',
      errorClass: null,
      dependency: null,
      stack: null,
      retryAfterMs: 60_000.5,
    } as const
    const bench = await openBench(t, { script: (parcel) => (numberIn(parcel) === 3 ? odd : answered(200)) })
    await bench.add({ breaker: null })
    await send(bench, 8)
    await bench.pass(1_000, 100)
    assert.deepEqual(await bench.tally(), { delivered: 7, processing: 1 })
    assert.ok(bench.logged.includes('outcome.cannot_be_written'))
    assert.deepEqual(readiness(bench), { ready: true, reasons: 0 })
  })

  test('outcomes of tries that end during the outage are kept, too, for ordered lanes as well', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ ordering: 'key', breaker: null })
    for (let n = 0; n < 40; n++) await bench.send({ key: `k${n % 8}`, n })
    await bench.quiet()
    bench.watched.refuse('commit', 'claim', 'renew')
    for (const one of [...bench.wire.open]) {
      one.answer(answered(one.parcel.event.key === 'k0' ? 503 : 200))
      await bench.pass(300)
    }
    assert.equal(bench.wire.tries.length, 8)
    bench.wire.script = () => answered(200)
    bench.watched.mend()
    await bench.pass(5_000, 250)
    assert.deepEqual(await bench.tally(), { delivered: 40 })
    assert.equal(bench.wire.tries.length, 41)
    assert.deepEqual(
      bench.logged.filter((line) => line === 'delivery.changed_meanwhile'),
      [],
    )
  })

  test('an outage longer than the leases brings nothing back that was done, and nothing twice', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 4 })
    await send(bench, 60)
    bench.watched.refuse('commit', 'claim', 'renew')
    const open = [...bench.wire.open]
    open[0]!.answer(answered(200))
    await bench.pass(1_000)
    // These wait behind the first one's commit.
    bench.wire.answerAll(answered(200))
    await bench.pass(15 * 60_000, 60_000)
    bench.wire.script = () => answered(200)
    bench.watched.mend()
    await bench.pass(60_000, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 60 })
    assert.equal(bench.wire.tries.length, 60)
  })

  test('nothing is claimed before the last outcome of an outage is on disk', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 4 })
    await send(bench, 4)
    bench.watched.refuse('commit', 'renew')
    const [first, ...others] = [...bench.wire.open]
    first!.answer(answered(200))
    await bench.pass(1_000)
    for (const one of others) one.answer(answered(200))
    // By now the leases have ended, and a look at the backlog has told so.
    await bench.pass(15 * 60_000, 60_000)
    bench.watched.mend()
    await bench.pass(60_000, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 4 })
    assert.equal(bench.wire.tries.length, 4, 'what had been done was not done again')
  })

  for (const slow of ['endpoint', 'none'] as const) {
    const quick = slow === 'none' ? 'endpoint' : 'none'
    test(`a slow commit of ordering ${slow} holds up no outcome of ordering ${quick}`, async (t) => {
      const bench = await openBench(t, { script: () => 'hold' })
      const first = await bench.add({ ordering: slow })
      const second = await bench.add({ ordering: quick })
      await bench.send()
      await bench.quiet()
      const answer = ({ id }: HttpEndpoint) => {
        const one = [...bench.wire.open].find(({ parcel }) => parcel.endpoint.id === id)
        one?.answer(answered(200))
        return bench.quiet()
      }
      const release = bench.watched.hold('commit')
      await answer(first)
      // Only the commit that is under way is held.
      bench.watched.hold('commit')()
      await answer(second)
      assert.deepEqual(await bench.tally(second.id), { delivered: 1 })
      assert.deepEqual(await bench.tally(first.id), { processing: 1 })
      release()
      await bench.quiet()
      assert.deepEqual(await bench.tally(first.id), { delivered: 1 })
    })
  }

  test('appends that are refused give back what was reserved for them', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    bench.watched.refuse('append')
    for (let n = 0; n < 200; n++) await assert.rejects(bench.send({ n }), { code: 'store_full' })
    assert.deepEqual(bench.dispatcher.load(), nothing)
    assert.equal(bench.intake.waitingBytes, 0)
    bench.watched.mend()
    const claims = bench.watched.calls('claim')
    await bench.send()
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 1 })
    assert.equal(bench.watched.calls('claim'), claims, 'the window is free again')
  })

  test('claims that fail are made again', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused' })
    await send(bench, 10)
    bench.watched.refuse('claim')
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.pass(3_000, 500)
    assert.equal(bench.wire.tries.length, 0)
    assert.deepEqual(bench.dispatcher.load(), nothing)
    bench.watched.mend()
    await bench.pass(500)
    assert.deepEqual(await bench.tally(), { delivered: 10 })
  })

  test("a person's retry starts no try while outcomes cannot be written", async (t) => {
    const bench = await openBench(t, { script: () => answered(400) })
    await bench.add({ concurrency: 2 })
    await send(bench, 2)
    const [first, second] = await bench.deliveries()
    bench.wire.script = () => 'hold'
    await bench.dispatcher.retry(first!.delivery.id)
    await bench.quiet()
    bench.watched.refuse('commit')
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    // The disk has room for this one, and the outcome still waits for its next chance.
    bench.watched.mend()
    assert.equal(await bench.dispatcher.retry(second!.delivery.id), 'retried')
    await bench.quiet()
    assert.equal(bench.wire.open.size, 0)
    bench.wire.script = () => answered(200)
    await bench.pass(250)
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })
})

describe('breakers and holds', () => {
  test('are written when the store takes them again', async (t) => {
    const before = await openBench(t, { script: () => answered(429, { 'retry-after': '1000' }) })
    const endpoint = await before.add()
    before.watched.refuse('putConditions')
    await before.send()
    await before.quiet()
    await before.pass(3_000, 1_000)
    before.watched.mend()
    await before.pass(1_000)
    const bench = await before.restart()
    assert.ok((bench.dispatcher.conditionOf(endpoint.id).heldUntil ?? 0) > bench.time.steady())
  })
})

function readiness(bench: Bench): { ready: boolean; reasons: number } {
  const state = { store: bench.store.health(), outcomesWritable: bench.dispatcher.settling.writable, stopping: false }
  const { ready, reasons } = readinessOf(state)
  return { ready, reasons: reasons.length }
}

async function send(bench: Bench, count: number): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ n })))
  await bench.quiet()
}
