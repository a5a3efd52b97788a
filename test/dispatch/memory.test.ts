import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { windowMax } from '../../src/core/window.ts'
import { anInput, answered, type Bench, openBench } from '../support/dispatch-bench.ts'

const mib = 1024 * 1024

describe('memory', () => {
  test('with 20,000 waiting for one endpoint, no more than its window is held', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused', concurrency: 10 })
    for (let n = 0; n < 20_000; n += 1_000) await send(bench, 1_000, 100)
    const most = watchLoad(bench)
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 20_000 })
    assert.equal(bench.wire.tries.length, 20_000)
    assert.ok(most.held <= windowMax, `${most.held} deliveries held`)
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })

  test('large bodies stay below the limit in bytes', async (t) => {
    const memoryBytesMax = 8 * mib
    const bench = await openBench(t, { memoryBytesMax, script: () => 'hold' })
    const endpoint = await bench.add({ status: 'paused', concurrency: 50 })
    for (let n = 0; n < 100; n += 10) await send(bench, 10, 120 * 1024)
    const most = watchLoad(bench)
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.quiet()
    assert.ok(bench.dispatcher.load().bytes > mib)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 100 })
    assert.ok(most.bytes <= memoryBytesMax / 4 + mib / 4, `${most.bytes} bytes held`)
  })

  test('many endpoints that start with a backlog share one limit', async (t) => {
    const memoryBytesMax = 8 * mib
    const bench = await openBench(t, { memoryBytesMax, script: () => 'hold' })
    for (let i = 0; i < 20; i++) await bench.add({ status: 'paused', types: [`t${i}`], concurrency: 10 })
    for (let i = 0; i < 20; i++) await send(bench, 20, 120 * 1024, `t${i}`)
    const most = watchLoad(bench)
    await Promise.all(bench.catalogue.list().map((each) => bench.catalogue.put({ ...each, status: 'active' })))
    await bench.quiet()
    for (const endpoint of bench.catalogue.list()) assert.ok(bench.wire.openOf(endpoint) >= 1)
    assert.ok(most.bytes <= memoryBytesMax, `${most.bytes} bytes held`)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 400 })
    assert.ok(most.bytes <= memoryBytesMax, `${most.bytes} bytes held`)
  })

  test('more endpoints than fit take turns: none goes beyond the limit, and none is left out', async (t) => {
    const memoryBytesMax = 2 * mib
    const bench = await openBench(t, { memoryBytesMax })
    // One whose body is larger than what a claim sets aside, and one that is larger than all there is.
    const sizes = Array.from({ length: 30 }, (_, i) => (i === 3 ? 3 * mib : i === 7 ? mib : 120 * 1024))
    for (const i of sizes.keys()) await bench.add({ status: 'paused', types: [`t${i}`] })
    for (const [i, size] of sizes.entries()) await send(bench, 4, size, `t${i}`)
    const most = watchLoad(bench)
    await Promise.all(bench.catalogue.list().map((each) => bench.catalogue.put({ ...each, status: 'active' })))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 120 })
    assert.ok(most.bytes <= 3 * mib + 1_024, `${most.bytes} bytes held`)
  })

  test('who holds nothing is served before one that holds something gets more', async (t) => {
    const bench = await openBench(t, { memoryBytesMax: mib, script: () => 'hold' })
    const hogs = await Promise.all([0, 1, 2, 3, 4].map((i) => bench.add({ status: 'paused', types: [`hog${i}`] })))
    const last = await bench.add({ status: 'paused', types: ['last'] })
    for (const i of hogs.keys()) await send(bench, 40, 60 * 1024, `hog${i}`)
    await send(bench, 1, 900 * 1024, 'last')
    for (const each of hogs) await bench.catalogue.put({ ...each, status: 'active' })
    await bench.quiet()
    await bench.catalogue.put({ ...last, status: 'active' })
    await bench.quiet()
    assert.equal(bench.wire.openOf(last), 0, 'there is no room for it yet')
    // Each ends what it has in hand and has more in the store, but the one that waits is first.
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.equal(bench.wire.openOf(last), 1)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 201 })
  })

  test('a large event counts once, however many endpoints have it in hand', async (t) => {
    const memoryBytesMax = 4 * mib
    const bench = await openBench(t, { memoryBytesMax, script: () => 'hold' })
    for (let i = 0; i < 50; i++) await bench.add({ status: 'paused' })
    await send(bench, 1, mib)
    const most = watchLoad(bench)
    await Promise.all(bench.catalogue.list().map((each) => bench.catalogue.put({ ...each, status: 'active' })))
    await bench.quiet()
    const bodies = new Set(bench.wire.tries.map(({ parcel }) => parcel.event.body))
    assert.deepEqual([bench.wire.tries.length, bodies.size], [50, 1])
    assert.equal(bench.dispatcher.load().bytes, mib + 50 * 1_024)
    assert.ok(most.bytes <= memoryBytesMax, `${most.bytes} bytes held`)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 50 })
  })

  test('a retry that a person asks for waits for room, not the person', async (t) => {
    const bench = await openBench(t, { memoryBytesMax: mib, script: () => 'hold' })
    const [slow, other] = [
      await bench.add({ types: ['slow'] }),
      await bench.add({ types: ['other'], status: 'paused' }),
    ]
    await send(bench, 1, 2 * mib, 'slow')
    await send(bench, 1, 500 * 1024, 'other')
    await bench.catalogue.put({ ...other, status: 'active' })
    const [waiting] = await bench.deliveries(other.id)
    assert.equal(await bench.dispatcher.retry(waiting!.delivery.id), 'retried')
    await bench.quiet()
    assert.deepEqual([bench.wire.openOf(slow), bench.wire.openOf(other)], [1, 0])
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.equal(bench.wire.openOf(other), 1)
  })

  test('a slow endpoint with large bodies leaves room for the fresh events of others', async (t) => {
    const bench = await openBench(t, { memoryBytesMax: 4 * mib, script: () => 'hold' })
    const slow = await bench.add({ types: ['slow'], concurrency: 2 })
    const quick = await bench.add({ types: ['quick'] })
    for (let n = 0; n < 10; n++) await send(bench, 10, 120 * 1024, 'slow')
    bench.wire.script = () => answered(200)
    const claims = bench.watched.calls('claim')
    await send(bench, 50, 1024, 'quick')
    assert.equal(bench.wire.triesOf(quick).length, 50)
    assert.equal(bench.watched.calls('claim'), claims, 'none of them was read back')
    assert.equal(bench.wire.openOf(slow), 2)
  })

  test('an event larger than the whole limit is delivered all the same', async (t) => {
    const bench = await openBench(t, { memoryBytesMax: 1_000 })
    await bench.add()
    await send(bench, 5, 200_000)
    assert.deepEqual(await bench.tally(), { delivered: 5 })
  })

  test('ordered lanes with large bodies stay below the limit too', async (t) => {
    const memoryBytesMax = 4 * mib
    const bench = await openBench(t, { memoryBytesMax })
    const endpoint = await bench.add({ status: 'paused', ordering: 'key', concurrency: 50 })
    for (let round = 0; round < 3; round++) {
      for (let key = 0; key < 40; key++) await bench.intake.accept([large(120 * 1024, 'order', `k${key}`)])
    }
    const most = watchLoad(bench)
    await bench.catalogue.put({ ...endpoint, status: 'active' })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 120 })
    assert.ok(most.bytes <= memoryBytesMax, `${most.bytes} bytes held`)
  })
})

function large(bytes: number, type = 'order.created', key: string | null = null) {
  const body = Buffer.alloc(bytes, 0x20)
  return anInput({ type, key, content: { kind: 'raw', bytes: body, type: 'text/plain' } })
}

async function send(bench: Bench, count: number, bytes: number, type?: string): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, () => large(bytes, type)))
  await bench.quiet()
}

/** The most that was held at any call of the store or of the wire. */
function watchLoad(bench: Bench): { held: number; bytes: number } {
  const most = { held: 0, bytes: 0 }
  const look = () => {
    const { inFlight, queued, bytes } = bench.dispatcher.load()
    most.held = Math.max(most.held, inFlight + queued)
    most.bytes = Math.max(most.bytes, bytes)
  }
  bench.watched.onCall = look
  const { script } = bench.wire
  bench.wire.script = (parcel, tries) => {
    look()
    return script(parcel, tries)
  }
  return most
}
