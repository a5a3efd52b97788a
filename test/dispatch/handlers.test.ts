import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Report } from '../../src/core/outcome.ts'
import { anInput, openBench } from '../support/dispatch-bench.ts'

type Thrown = Extract<Report, { kind: 'thrown' }>
const thrown = (given: Partial<Thrown> = {}): Report => ({
  kind: 'thrown',
  verdict: 'retryable',
  message: 'boom',
  errorClass: 'Error',
  dependency: null,
  stack: 'Error: boom\n    at handler',
  retryAfterMs: null,
  ...given,
})

describe('an endpoint that nobody serves', () => {
  test('is held: not claimed, not tried, without an outcome, until somebody comes', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.addHandler()
    bench.code.leave(endpoint)
    for (let n = 0; n < 3; n += 1) await bench.send({ n })
    await bench.pass(60_000, 10_000)
    assert.equal(bench.code.tries.length, 0)
    assert.equal(bench.watched.calls('claim'), 0)
    assert.deepEqual(await bench.tally(), { pending: 3 }, 'nothing was reserved either')
    bench.code.come(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('gives back what waits in memory when the last one leaves; what runs goes on', async (t) => {
    const bench = await openBench(t, { code: () => 'hold' })
    const endpoint = await bench.addHandler({ concurrency: 1 })
    await bench.intake.accept(Array.from({ length: 10 }, (_, n) => anInput({ n })))
    await bench.quiet()
    bench.code.leave(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 9, processing: 1 })
    bench.code.answerAll({ kind: 'handled' })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 9, delivered: 1 })
    bench.code.script = () => ({ kind: 'handled' })
    bench.code.come(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 10 })
  })

  test('holds no other endpoint, and is held anew after a restart', async (t) => {
    const before = await openBench(t)
    const held = await before.addHandler({ types: ['held'] })
    const other = await before.add({ types: ['other'] })
    before.code.leave(held)
    await before.send({ type: 'held' })
    await before.send({ type: 'other' })
    await before.quiet()
    assert.deepEqual(await before.tally(other.id), { delivered: 1 })
    const bench = await before.restart()
    await bench.quiet()
    assert.deepEqual(await bench.tally(held.id), { delivered: 1 })
  })
})

describe('what a handler says', () => {
  test('retryAfter delays its own delivery and holds up no other', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.addHandler()
    bench.code.script = () => thrown({ retryAfterMs: 30_000 })
    await bench.send({ n: 0 })
    await bench.quiet()
    bench.code.script = () => ({ kind: 'handled' })
    await bench.send({ n: 1 })
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 1, delivered: 1 })
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).heldUntil, null)
    await bench.pass(29_000, 1_000)
    assert.equal(bench.code.tries.length, 2)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })

  test('unavailable with a wait holds the whole endpoint', async (t) => {
    const bench = await openBench(t)
    await bench.addHandler()
    bench.code.script = () => thrown({ verdict: 'unavailable', retryAfterMs: 30_000 })
    await bench.send({ n: 0 })
    await bench.quiet()
    bench.code.script = () => ({ kind: 'handled' })
    await bench.send({ n: 1 })
    await bench.pass(29_000, 1_000)
    assert.equal(bench.code.tries.length, 1)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })

  test('permanent ends the delivery as rejected by the handler, with its stack in the log', async (t) => {
    const bench = await openBench(t, { code: () => thrown({ verdict: 'permanent', message: 'no such order' }) })
    await bench.addHandler()
    await bench.send()
    await bench.quiet()
    const [record] = await bench.deliveries()
    const { delivery } = record!
    assert.equal(delivery.status === 'failed' && delivery.reason, 'rejected_by_handler')
    assert.equal(delivery.lastError, 'no such order')
    const [attempt] = await bench.store.listAttempts(delivery.id)
    assert.equal(attempt?.stack, 'Error: boom\n    at handler')
    assert.deepEqual([attempt?.errorClass, attempt?.dependency], ['Error', null])
  })

  test('infrastructure spends no attempt', async (t) => {
    const bench = await openBench(t, { code: () => thrown({ verdict: 'ours' }) })
    await bench.addHandler()
    await bench.send()
    await bench.pass(10_000, 1_000)
    assert.ok(bench.code.tries.length > 5)
    const [record] = await bench.deliveries()
    assert.deepEqual([record!.delivery.status, record!.delivery.attempts], ['pending', 0])
  })
})
