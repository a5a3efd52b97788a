import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { anInput, type Bench, numberIn, openBench, type Script } from '../support/dispatch-bench.ts'

const handled = { kind: 'handled' } as const

/** The process ends without a word, and another takes the file. */
async function crashed(t: TestContext, bench: Bench, code: Script = () => handled): Promise<Bench> {
  await bench.abandon()
  return openBench(t, { folder: bench.folder, code })
}

/** Twice in a row, with the same in memory. */
async function crashedTwice(t: TestContext, bench: Bench, code: Script = () => handled): Promise<Bench> {
  const between = await crashed(t, bench, () => 'hold')
  await between.quiet()
  return crashed(t, between, code)
}

describe('what was in memory at one crash', () => {
  test('runs like all others: nobody waits for a slow one', async (t) => {
    const before = await openBench(t, { code: () => 'hold' })
    await before.addHandler({ types: ['slow'], concurrency: 1 })
    const quick = await before.addHandler({ types: ['quick'], handler: 'quick' })
    for (let n = 0; n < 20; n += 1) await before.send({ type: 'slow', n })
    await before.send({ type: 'quick', n: 0 })
    await before.quiet()
    const bench = await crashed(t, before, ({ event }) => (event.type === 'slow' ? 'hold' : handled))
    await bench.quiet()
    for (let n = 1; n <= 20; n += 1) await bench.send({ type: 'quick', n })
    await bench.quiet()
    assert.equal(bench.code.open.size, 1, 'the slow one is still under way')
    assert.deepEqual(await bench.tally(quick.id), { delivered: 21 })
  })
})

describe('what was in memory at two crashes', () => {
  test('runs alone among the handlers, however many endpoints they have', async (t) => {
    const before = await openBench(t, { code: () => 'hold' })
    await before.addHandler({ types: ['a'], concurrency: 2 })
    await before.addHandler({ types: ['b'], handler: 'b' })
    for (let n = 0; n < 4; n += 1) await before.intake.accept([anInput({ type: 'a', n }), anInput({ type: 'b', n })])
    await before.quiet()
    const bench = await crashedTwice(t, before, () => 'hold')
    // Fresh ones come meanwhile, and wait.
    await bench.intake.accept([anInput({ type: 'a', n: 9 }), anInput({ type: 'b', n: 9 })])
    for (let n = 0; n < 8; n += 1) {
      await bench.quiet()
      assert.equal(bench.code.open.size, 1, `suspect ${n} is alone`)
      assert.notEqual(numberIn([...bench.code.open][0]!.parcel), 9)
      bench.code.answerAll(handled)
    }
    await bench.quiet()
    assert.equal(bench.code.open.size, 2, 'then all others go on together')
    bench.code.answerAll(handled)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 10 })
  })

  test('fails as crashed after three crashes, and takes no innocent with it', async (t) => {
    let bench = await openBench(t, { code: () => 'hold' })
    const endpoint = await bench.addHandler({ concurrency: 4 })
    const other = await bench.addHandler({ types: ['other'], handler: 'other' })
    await bench.intake.accept(Array.from({ length: 20 }, (_, n) => anInput({ n })))
    await bench.quiet()
    const poison = 2
    // A handler that ends the process: its try never ends, and the next crash is ours.
    const kills: Script = (parcel) => (numberIn(parcel) === poison ? 'hold' : handled)
    for (let crash = 1; crash <= 3; crash += 1) {
      bench = await crashed(t, bench, kills)
      await bench.intake.accept([anInput({ n: 100 + crash }), anInput({ n: 200 + crash, type: 'other' })])
      await bench.quiet()
      const open = [...bench.code.open].map(({ parcel }) => numberIn(parcel))
      assert.deepEqual(open, crash < 3 ? [poison] : [], `after crash ${crash}`)
    }
    const records = await bench.deliveries(endpoint.id)
    const failed = records.filter(({ delivery }) => delivery.status === 'failed')
    assert.equal(failed.length, 1)
    const { delivery } = failed[0]!
    assert.equal(delivery.status === 'failed' && delivery.reason, 'crashed')
    assert.equal(delivery.attempts, 0, 'no try of it ever had an outcome')
    assert.deepEqual(await bench.tally(), { delivered: 28, failed: 1 })
    assert.deepEqual(await bench.tally(other.id), { delivered: 3 })
  })

  test('that came back from a try is not suspected of the crashes before, whatever the try brought', async (t) => {
    const ours = {
      kind: 'thrown',
      verdict: 'ours',
      message: 'no database',
      errorClass: null,
      dependency: null,
      stack: null,
      retryAfterMs: null,
    } as const
    const oursThenHangs: Script = (_, tries) => (tries === 1 ? ours : 'hold')
    let bench = await openBench(t, { code: () => 'hold' })
    await bench.addHandler({ timeoutMs: 600_000 })
    await bench.send()
    await bench.quiet()
    for (let crash = 1; crash <= 4; crash += 1) {
      bench = await crashed(t, bench, oursThenHangs)
      await bench.pass(60_000, 1_000)
      assert.deepEqual([crash, bench.code.tries.length, bench.code.open.size], [crash, 2, 1])
    }
    assert.deepEqual(await bench.tally(), { processing: 1 })
  })

  test('of other kinds runs as ever, also beside a handler that has to run alone', async (t) => {
    const hold: { script: Script; code: Script } = { script: () => 'hold', code: () => 'hold' }
    let bench = await openBench(t, hold)
    const other = await bench.add({ types: ['other'], concurrency: 6 })
    await bench.addHandler({ types: ['code'], concurrency: 2 })
    await bench.intake.accept(Array.from({ length: 5 }, (_, n) => anInput({ type: 'other', n })))
    await bench.intake.accept(Array.from({ length: 2 }, (_, n) => anInput({ type: 'code', n })))
    await bench.quiet()
    for (let crash = 1; crash <= 2; crash += 1) {
      await bench.abandon()
      bench = await openBench(t, { folder: bench.folder, ...hold })
      await bench.quiet()
    }
    assert.deepEqual([bench.wire.open.size, bench.code.open.size], [5, 1])
    // Claimed from the store, not handed over fresh.
    await bench.catalogue.put({ ...other, status: 'paused' })
    await bench.send({ type: 'other', n: 5 })
    await bench.catalogue.put({ ...other, status: 'active' })
    await bench.quiet()
    assert.deepEqual([bench.wire.open.size, bench.code.open.size], [6, 1])
    bench.wire.answerAll({ kind: 'answered', statusCode: 200, headers: {}, body: '' })
    await bench.quiet()
    assert.deepEqual(await bench.tally(other.id), { delivered: 6 })
  })

  test('waits for handlers that run, and stays suspect while it waits', async (t) => {
    const before = await openBench(t, { code: () => 'hold' })
    const first = await before.addHandler({ types: ['a'] })
    const second = await before.addHandler({ types: ['b'], handler: 'b' })
    await before.send({ type: 'a', n: 1 })
    await before.quiet()
    const bench = await crashedTwice(t, before, () => 'hold')
    await bench.quiet()
    bench.code.answerAll({ kind: 'interrupted', message: 'given back, as at a stop' })
    bench.code.leave(first)
    await bench.quiet()
    await bench.send({ type: 'b', n: 2 })
    await bench.quiet()
    assert.deepEqual([bench.code.openOf(first), bench.code.openOf(second)], [0, 1])
    bench.code.come(first)
    await bench.pass(2_000)
    await bench.send({ type: 'b', n: 3 })
    await bench.quiet()
    assert.deepEqual([bench.code.openOf(first), bench.code.openOf(second)], [0, 1], 'none starts any more')
    bench.code.answerAll(handled)
    await bench.quiet()
    assert.deepEqual([bench.code.openOf(first), bench.code.openOf(second)], [1, 0], 'the suspect is alone')
    bench.code.answerAll(handled)
    await bench.quiet()
    assert.deepEqual([bench.code.openOf(first), bench.code.openOf(second)], [0, 1])
    bench.code.answerAll(handled)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('lets the others go on when it is paused, or its endpoint deleted', async (t) => {
    const before = await openBench(t, { code: () => 'hold' })
    const first = await before.addHandler({ types: ['a'] })
    await before.addHandler({ types: ['b'], handler: 'b' })
    await before.intake.accept([anInput({ type: 'a', n: 1 }), anInput({ type: 'a', n: 2 })])
    await before.quiet()
    const bench = await crashedTwice(t, before, () => 'hold')
    await bench.quiet()
    assert.equal(bench.code.openOf(first), 1)
    await bench.catalogue.update(first.id, (endpoint) => ({ ...endpoint, status: 'paused' }))
    bench.code.answerAll(handled)
    await bench.quiet()
    await bench.send({ type: 'b' })
    await bench.quiet()
    assert.equal(bench.code.open.size, 1)
    bench.code.answerAll(handled)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 1, delivered: 2 })
  })
})
