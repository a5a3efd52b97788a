import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { expired } from '../../src/core/lifecycle.ts'
import type { Change } from '../../src/store/pipeline-store.ts'
import type { HubMemory } from '../support/ahead-wire.ts'
import { anInput, answered, type Bench, numberIn, openBench } from '../support/dispatch-bench.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

/** Accepts events with the numbers `from` to `from + count - 1`, in one call. */
async function accept(bench: Bench, count: number, from = 0): Promise<void> {
  await bench.intake.accept(upTo(count).map((n) => anInput({ n: from + n })))
}

const ranBy = (bench: Bench) => bench.hub.runs.map(numberIn)

/** The deliveries, by the number of their event. */
async function idOf(bench: Bench, n: number): Promise<string> {
  return (await bench.deliveries())[n]!.delivery.id
}

/** How many changes every commit had. */
function commits(bench: Bench): readonly number[] {
  const sizes: number[] = []
  bench.watched.onCall = (name, [changes]) => {
    if (name === 'commit') sizes.push((changes as readonly Change[]).length)
  }
  return sizes
}

describe('ahead of its turn', () => {
  test('many deliveries end in one commit, in their order and each once', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    await bench.addRelay()
    const sizes = commits(bench)
    await accept(bench, 200)
    await bench.quiet()
    assert.deepEqual(ranBy(bench), [0], 'nothing begins before the head has ended')
    assert.equal(bench.hub.batches.flat().length, 64, 'all that there is room for is there already')
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(200))
    assert.deepEqual(await bench.tally(), { delivered: 200 })
    assert.ok(Math.max(...sizes) > 50, `the largest commit had ${Math.max(...sizes)}`)
    assert.ok(sizes.length < 20, `${sizes.length} commits`)
    assert.ok(bench.watched.calls('ahead') < 30, `${bench.watched.calls('ahead')} reads`)
  })

  test('each is a try of its own: attempt, notice and outcome', async (t) => {
    const bench = await openBench(t, { target: (parcel) => answered(numberIn(parcel) === 3 ? 400 : 200) })
    const endpoint = await bench.addRelay()
    await accept(bench, 8)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 7, failed: 1 })
    for (const { delivery } of await bench.deliveries(endpoint.id)) {
      const attempts = await bench.store.listAttempts(delivery.id)
      assert.deepEqual(
        attempts.map((attempt) => [attempt.number, attempt.statusCode]),
        [[1, delivery.status === 'failed' ? 400 : 200]],
      )
    }
    const notices = bench.heard.filter((notice) => notice.kind === 'attempt.settled')
    assert.deepEqual(
      notices.map((notice) => notice.status),
      ['delivered', 'delivered', 'delivered', 'failed', 'delivered', 'delivered', 'delivered', 'delivered'],
    )
  })

  test('one that has to be tried again holds what is behind it, which comes in its turn', async (t) => {
    const bench = await openBench(t, {
      target: (parcel) => answered(numberIn(parcel) === 4 && parcel.attempt === 1 ? 503 : 200),
    })
    await bench.addRelay()
    await accept(bench, 12)
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(5))
    assert.deepEqual(await bench.tally(), { delivered: 4, pending: 8 })
    await bench.pass(999)
    assert.equal(bench.hub.runs.length, 5)
    await bench.pass(1)
    assert.deepEqual(ranBy(bench), [...upTo(5), ...upTo(12).slice(4)])
    assert.deepEqual(await bench.tally(), { delivered: 12 })
    const failed = (await bench.deliveries())[4]!
    assert.equal(failed.delivery.attempts, 2)
  })

  test('one that a person cancels while it is ahead is called back, and the others come', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay()
    await accept(bench, 6)
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 5)
    assert.equal(await bench.dispatcher.cancel(await idOf(bench, 2)), 'cancelled')
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), [0, 1, 3, 4, 5])
    assert.deepEqual(await bench.tally(), { delivered: 5, failed: 1 })
  })

  test('a chain that something has changed meanwhile goes on from there, and nothing runs twice', async (t) => {
    const bench = await openBench(t)
    await bench.addRelay()
    const release = bench.hub.holdAcks()
    await accept(bench, 10)
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(10), 'the hub has done them all, and nobody knows')
    const { delivery } = (await bench.deliveries())[3]!
    assert.ok(delivery.status === 'pending')
    await bench.store.commit([{ to: expired(delivery, bench.time.nowMs), attempt: null, claimNext: null }])
    release()
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 9, dead_letter: 1 })
    assert.deepEqual(ranBy(bench), upTo(10), 'what comes again is answered from memory')
    assert.ok(bench.logged.includes('delivery.changed_meanwhile'))
  })

  test('a pause calls back what is ahead, and it comes when the pause is over', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay()
    await accept(bench, 20)
    await bench.quiet()
    const before = bench.dispatcher.load().bytes
    bench.dispatcher.paused = true
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    assert.ok(bench.dispatcher.load().bytes < before / 10, 'only the head is held')
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), [0])
    bench.dispatcher.paused = false
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(20))
    assert.deepEqual(await bench.tally(), { delivered: 20 })
  })

  test('with other settings, and without the endpoint, nothing of it stays ahead', async (t) => {
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay()
    await accept(bench, 5)
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 4)
    await bench.catalogue.put({ ...endpoint, rateLimit: { perSecond: 5 } })
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    for (const run of [...bench.hub.open]) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), [0, 1])
    assert.equal(bench.hub.aheadOf(endpoint), 0, 'a rate limit counts every try as it begins')
    await bench.catalogue.put(endpoint)
    for (const run of [...bench.hub.open]) run.answer(answered(200))
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 2)
    await bench.catalogue.remove(endpoint.id)
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    for (const run of [...bench.hub.open]) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 3, failed: 2 })
  })

  test('after a crash of the edge all goes on in order, and the hub runs nothing twice', async (t) => {
    const hubMemory: HubMemory = new Map()
    const first = await openBench(t, { hubMemory, target: (parcel) => (numberIn(parcel) < 9 ? answered(200) : 'hold') })
    await first.addRelay()
    await accept(first, 3)
    await first.quiet()
    first.hub.holdAcks()
    await accept(first, 17, 3)
    await first.quiet()
    assert.deepEqual(await first.tally(), { delivered: 3, processing: 1, pending: 16 })
    await first.abandon()
    const second = await openBench(t, { hubMemory, folder: first.folder })
    await second.quiet()
    assert.deepEqual(await second.tally(), { delivered: 20 })
    // The tenth was running when the edge was gone, and this hub has lost it.
    assert.deepEqual([...ranBy(first), ...ranBy(second)], [...upTo(10), ...upTo(20).slice(9)])
  })

  test('bodies ahead stay within the memory that there is', async (t) => {
    const memoryBytesMax = 2 * 1024 * 1024
    const bench = await openBench(t, { memoryBytesMax, target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    bench.hub.room = { count: 1_000, bytes: 100 * 1024 * 1024 }
    const endpoint = await bench.addRelay()
    let most = 0
    bench.hub.onSend = () => {
      most = Math.max(most, bench.dispatcher.load().bytes)
    }
    const body = (n: number) => Buffer.from(JSON.stringify({ n, fill: 'x'.repeat(20_000) }))
    for (const n of upTo(200)) {
      await bench.send({ content: { kind: 'raw', bytes: body(n), type: 'application/json' } })
    }
    await bench.quiet()
    const held = bench.hub.aheadOf(endpoint)
    assert.ok(held > 5 && held * 20_000 <= memoryBytesMax / 4, `${held} are ahead`)
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(200))
    assert.deepEqual(await bench.tally(), { delivered: 200 })
    assert.ok(most > 0 && most <= memoryBytesMax, `${most} bytes were held`)
  })

  test('what the other end does not take, for its size or its number, comes in its turn', async (t) => {
    const bench = await openBench(t)
    bench.hub.room = { count: 10, bytes: 1_000 }
    bench.hub.takesMax = 3
    await bench.addRelay()
    const body = (n: number) => Buffer.from(JSON.stringify({ n, fill: 'x'.repeat(n % 5 === 0 ? 2_000 : 10) }))
    const content = (n: number) => ({ kind: 'raw' as const, bytes: body(n), type: 'application/json' })
    await bench.intake.accept(upTo(40).map((n) => anInput({ content: content(n) })))
    await bench.quiet()
    assert.deepEqual(ranBy(bench), upTo(40))
    assert.deepEqual(await bench.tally(), { delivered: 40 })
    // How many depends on how quick a read is, on a busy machine too.
    assert.ok(bench.hub.batches.flat().length > 0)
  })

  test('nothing is read ahead where nothing waits, and nothing is sent ahead where every try counts', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.addRelay()
    for (const n of upTo(5)) {
      await bench.send({ n })
      await bench.quiet()
    }
    assert.equal(bench.watched.calls('ahead'), 0)
    await bench.catalogue.remove(endpoint.id)
    await bench.addRelay({ breaker: { threshold: 4, cooldownMs: 3_000, whenOpen: 'park' } })
    await bench.addRelay({ ordering: 'key' })
    await bench.addRelay({ rateLimit: { perSecond: 1_000 } })
    await bench.add({ ordering: 'endpoint', breaker: null })
    await bench.intake.accept(upTo(20).map((n) => anInput({ n, key: 'k' })))
    await bench.pass(1_000, 100)
    assert.deepEqual(await bench.tally(), { delivered: 85 })
    assert.deepEqual(bench.hub.batches, [])
    assert.equal(bench.watched.calls('ahead'), 0)
  })

  test('nothing is sent ahead while nobody of the lane is in hand', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.addRelay()
    await bench.send({ n: 0 })
    await bench.quiet()
    const release = bench.watched.hold('claim')
    bench.dispatcher.goOnAt([endpoint.id])
    await bench.send({ n: 1 })
    await bench.quiet()
    assert.deepEqual(ranBy(bench), [0])
    assert.equal(bench.watched.calls('ahead'), 0)
    release()
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })

  test('a read that fails delays what is behind, and loses nothing', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay()
    bench.watched.refuse('ahead')
    await accept(bench, 10)
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    assert.ok(bench.logged.includes('ahead.not_read'))
    bench.watched.mend()
    await bench.pass(500)
    assert.equal(bench.hub.aheadOf(endpoint), 9)
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 10 })
  })
})
