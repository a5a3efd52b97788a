import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Report } from '../../src/core/outcome.ts'
import { leaseMs } from '../../src/dispatch/lease-keeper.ts'
import type { ChangeResult } from '../../src/store/pipeline-store.ts'
import { anInput, answered, numberIn, openBench, type Script } from '../support/dispatch-bench.ts'

/** What no transport may report: it cannot be classified. */
const unreadable = { kind: 'answered', statusCode: 503, headers: null, body: '' } as unknown as Report

describe('an attempt whose way ends in a defect', () => {
  test('keeps neither a slot nor memory, and its delivery is tried again when its lease has ended', async (t) => {
    const bench = await openBench(t, { attemptsMax: 1, script: () => unreadable })
    const endpoint = await bench.add({ concurrency: 1 })
    await bench.send({ n: 0 })
    await bench.quiet()
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    assert.ok(bench.logged.includes('delivery.defect'))
    bench.wire.script = () => answered(200)
    await bench.send({ n: 1 })
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { processing: 1, delivered: 1 })
    await bench.pass(2 * leaseMs, 30_000)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 2 })
  })

  test('counts as no running handler: the next suspect has its turn', async (t) => {
    let bench = await openBench(t, { code: () => 'hold' })
    const endpoint = await bench.addHandler({ concurrency: 2 })
    await bench.intake.accept([anInput({ n: 0 }), anInput({ n: 1 })])
    await bench.quiet()
    const code: Script = (parcel) => (numberIn(parcel) === 0 ? unreadable : { kind: 'handled' })
    for (const script of [() => 'hold' as const, code]) {
      await bench.abandon()
      bench = await openBench(t, { folder: bench.folder, code: script })
      await bench.quiet()
    }
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    assert.deepEqual(await bench.tally(endpoint.id), { processing: 1, delivered: 1 })
  })

  test('voids what was sent ahead behind it', async (t) => {
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay({ ordering: 'endpoint', breaker: null })
    for (let n = 0; n < 5; n += 1) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 4)
    bench.hub.answersBehind = () => {
      throw new Error('a defect of the transport')
    }
    for (const run of [...bench.hub.open]) run.answer(answered(200))
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  })
})

describe('a delivery that ends without an attempt', () => {
  test('keeps nothing when a defect follows its write', async (t) => {
    const bench = await openBench(t, { code: () => 'hold' })
    const endpoint = await bench.addHandler({ concurrency: 1 })
    for (let n = 0; n < 3; n += 1) await bench.send({ n })
    await bench.quiet()
    bench.watched.onAnswer = (name, answer) => {
      if (name !== 'commit') return answer
      return (answer as ChangeResult[]).map((result) => ({ ...result, next: {} }))
    }
    bench.code.leave(endpoint)
    await bench.quiet()
    assert.equal(bench.logged.filter((line) => line === 'delivery.defect').length, 2)
    const { inFlight, queued } = bench.dispatcher.load()
    assert.deepEqual([inFlight, queued], [1, 0], 'only the attempt is under way')
    bench.watched.onAnswer = (_, answer) => answer
    bench.code.answerAll({ kind: 'handled' })
  })

  test('is waited for when the process stops, also if its endpoint is gone', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add({ status: 'paused' })
    for (let n = 0; n < 3; n += 1) await bench.send({ n })
    const release = bench.watched.hold('endPending')
    await bench.catalogue.remove(endpoint.id)
    await bench.quiet()
    let isStopped = false
    const stopping = bench.dispatcher.stop(0).then(() => {
      isStopped = true
    })
    await bench.quiet()
    assert.equal(isStopped, false)
    release()
    await bench.quiet()
    assert.ok(isStopped)
    await stopping
    assert.deepEqual(await bench.tally(endpoint.id), { failed: 3 })
  })
})
