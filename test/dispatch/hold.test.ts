import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { retryAfterMsMax } from '../../src/core/failure-classifier.ts'
import { anInput, answered, openBench, unreachable } from '../support/dispatch-bench.ts'

const held = (seconds: number) => answered(429, { 'retry-after': String(seconds) })

describe('a Retry-After', () => {
  test('holds the whole endpoint, and no other', async (t) => {
    const bench = await openBench(t)
    const busy = await bench.add({ types: ['busy'] })
    const other = await bench.add({ types: ['other'] })
    bench.wire.script = () => held(30)
    await bench.send({ type: 'busy' })
    await bench.quiet()
    bench.wire.script = () => answered(200)
    await bench.intake.accept(Array.from({ length: 20 }, (_, n) => anInput({ type: 'busy', n })))
    await bench.send({ type: 'other' })
    await bench.pass(29_000, 1_000)
    assert.deepEqual([bench.wire.triesOf(busy).length, bench.wire.triesOf(other).length], [1, 1])
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 22 })
  })

  test('gives back what was in memory', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    await bench.intake.accept(Array.from({ length: 50 }, (_, n) => anInput({ n })))
    await bench.quiet()
    bench.wire.answerAll(held(30))
    await bench.quiet()
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    assert.deepEqual(await bench.tally(), { pending: 50 })
  })

  test('never shortens a hold that is there, and is capped', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ concurrency: 2 })
    await bench.intake.accept([anInput({ n: 0 }), anInput({ n: 1 })])
    await bench.quiet()
    const [first, second] = [...bench.wire.open]
    first!.answer(held(30))
    await bench.quiet()
    second!.answer(held(10))
    await bench.quiet()
    bench.wire.script = () => held(1_000_000)
    await bench.pass(29_000, 1_000)
    assert.equal(bench.wire.tries.length, 2)
    await bench.pass(1_000)
    // One of the two went out and was told to wait far too long.
    const { heldUntil } = bench.dispatcher.conditionOf(endpoint.id)
    assert.equal(heldUntil, bench.time.steady() + retryAfterMsMax)
  })

  test('survives a restart', async (t) => {
    const before = await openBench(t, { script: () => held(100) })
    const endpoint = await before.add()
    await before.send()
    await before.quiet()
    await before.pass(20_000)
    const bench = await before.restart({ script: () => answered(200) })
    await bench.send()
    await bench.quiet()
    await bench.pass(79_000, 1_000)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 2 })
  })

  test('keeps an open breaker from probing before it ends', async (t) => {
    const bench = await openBench(t, { script: () => answered(503, { 'retry-after': '100' }) })
    await bench.add({ breaker: { threshold: 1, cooldownMs: 10_000, whenOpen: 'park' } })
    await bench.send()
    await bench.quiet()
    await bench.pass(99_000, 1_000)
    assert.equal(bench.wire.tries.length, 1)
    await bench.pass(1_000)
    assert.equal(bench.wire.tries.length, 2)
  })

  test('gives way to a person', async (t) => {
    const bench = await openBench(t, { script: () => held(100) })
    await bench.add()
    await bench.send()
    await bench.quiet()
    bench.wire.script = () => answered(200)
    const [record] = await bench.deliveries()
    assert.equal(await bench.dispatcher.retry(record!.delivery.id), 'retried')
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })
})

describe('a fault of our own', () => {
  test('spends nothing, is no attempt, and leaves the breaker alone', async (t) => {
    const bench = await openBench(t, { script: () => unreachable('EMFILE') })
    const endpoint = await bench.add({ breaker: { threshold: 1, cooldownMs: 60_000, whenOpen: 'park' } })
    await bench.send()
    await bench.quiet()
    await bench.pass(20_000, 1_000)
    assert.equal(bench.wire.tries.length, 21, 'once a second')
    const [record] = await bench.deliveries()
    const { attempts, triesInBudget, lastError } = record!.delivery
    assert.deepEqual({ attempts, triesInBudget, lastError }, { attempts: 0, triesInBudget: 0, lastError: null })
    assert.deepEqual(await bench.store.listAttempts(record!.delivery.id), [])
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'closed')
    bench.wire.script = () => answered(200)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
    assert.equal(bench.wire.tries.at(-1)!.parcel.attempt, 1)
  })

  test('a transport that throws fails the try and nothing else', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    bench.wire.deliver = () => {
      throw new Error('a defect')
    }
    await bench.send()
    await bench.quiet()
    const [record] = await bench.deliveries()
    assert.equal(record!.delivery.status, 'pending')
    assert.match(record!.delivery.lastError ?? '', /a defect/)
  })
})
