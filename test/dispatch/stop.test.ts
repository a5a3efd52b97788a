import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { anInput, answered, type Bench, openBench } from '../support/dispatch-bench.ts'

describe('a stop', () => {
  test('takes nothing new, gives back what waits, and lets what is in flight finish', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 5 })
    await send(bench, 100)
    const stopped = bench.dispatcher.stop(10_000)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { processing: 5, pending: 95 })
    bench.wire.answerAll(answered(200))
    await stopped
    assert.deepEqual(await bench.tally(), { delivered: 5, pending: 95 })
    assert.equal(bench.wire.tries.length, 5)
  })

  test('after the grace time interrupts and hands back untried; the next one goes on at once', async (t) => {
    const before = await openBench(t, { script: () => 'hold' })
    await before.add({ concurrency: 5, ordering: 'key' })
    await send(before, 20)
    await before.stop(1_000)
    assert.deepEqual(
      before.wire.tries.map((one) => one.signal.aborted),
      Array(5).fill(true),
    )
    const bench = await openBench(t, { folder: before.folder })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 20 })
    assert.ok(
      bench.wire.tries.every((one) => one.parcel.attempt === 1),
      'no attempt was spent',
    )
    assert.equal(bench.wire.tries.length, 20)
  })

  test('leaves no lease behind: nothing reads processing', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 3 })
    await bench.add({ ordering: 'endpoint' })
    await send(bench, 50)
    const stopped = bench.dispatcher.stop(0)
    bench.time.tick(1)
    await stopped
    assert.deepEqual(await bench.tally(), { pending: 100 })
  })

  test('the next of a lane that was claimed with the last outcome is given back', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ ordering: 'endpoint' })
    await send(bench, 3)
    const goOn = bench.watched.hold('commit')
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    const stopped = bench.dispatcher.stop(1_000)
    goOn()
    await stopped
    assert.deepEqual(await bench.tally(), { delivered: 1, pending: 2 })
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })

  test('waits for a claim that is under way and gives its answer back', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused' })
    await send(bench, 10)
    const goOn = bench.watched.hold('claim')
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    let isOver = false
    const stopped = bench.dispatcher.stop(1_000).then(() => {
      isOver = true
    })
    await bench.quiet()
    assert.equal(isOver, false)
    goOn()
    await stopped
    assert.deepEqual(await bench.tally(), { pending: 10 })
    assert.equal(bench.wire.tries.length, 0)
  })

  test('waits for an event that is being written and was promised a slot', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    const goOn = bench.watched.hold('append')
    const accepted = bench.send()
    const stopped = bench.dispatcher.stop(1_000)
    await bench.quiet()
    goOn()
    await accepted
    await stopped
    assert.deepEqual(await bench.tally(), { pending: 1 })
    assert.equal(bench.wire.tries.length, 0)
  })

  test("a person's retry that comes with it starts nothing", async (t) => {
    const bench = await openBench(t)
    await bench.add()
    await send(bench, 1)
    const [record] = await bench.deliveries()
    const goOn = bench.watched.hold('claim')
    const retried = bench.dispatcher.retry(record!.delivery.id)
    await bench.quiet()
    const stopped = bench.dispatcher.stop(1_000)
    goOn()
    assert.equal(await retried, 'retried')
    await stopped
    assert.equal(bench.wire.tries.length, 1)
    assert.deepEqual(await bench.tally(), { pending: 1 })
  })

  test('may be asked for twice; both wait for the same end', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add()
    await send(bench, 1)
    const ends: string[] = []
    const first = bench.dispatcher.stop(1_000).then(() => ends.push('first'))
    const second = bench.dispatcher.stop(0).then(() => ends.push('second'))
    await bench.quiet()
    assert.deepEqual(ends, [])
    bench.wire.answerAll(answered(200))
    await Promise.all([first, second])
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('ends although the store fails; the outcome is made again by the next owner', async (t) => {
    const before = await openBench(t, { script: () => 'hold' })
    await before.add()
    await send(before, 2)
    before.watched.refuse('commit', 'putConditions')
    before.wire.answerAll(answered(200))
    let isOver = false
    const stopped = before.dispatcher.stop(1_000).then(() => {
      isOver = true
    })
    for (let ms = 0; ms < 8_000 && !isOver; ms += 250) await before.pass(250)
    await stopped
    const commits = before.watched.calls('commit')
    await before.pass(5_000, 250)
    assert.ok(before.watched.calls('commit') <= commits + 1, 'nothing goes on trying after the stop')
    await before.abandon()
    const bench = await openBench(t, { folder: before.folder })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })
})

async function send(bench: Bench, count: number): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ n, key: `k${n}` })))
  await bench.quiet()
}
