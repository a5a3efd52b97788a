// Clocks that jump, and machines that begin in 1970 because nobody has told them the time yet.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  anInput,
  answered,
  type Bench,
  exactWebhook,
  numberIn,
  openBench,
  unreachable,
} from '../support/dispatch-bench.ts'

const secondMs = 1_000
const dayMs = 24 * 3_600 * secondMs
const in1970 = 60 * secondMs

const jumps = [
  ['a day ahead', dayMs],
  ['a day back', -dayMs],
  ['from 1970 to today', 56 * 365 * dayMs],
] as const

describe('a wall clock that is set while events are under way', () => {
  for (const [name, jumpMs] of jumps) {
    test(`${name}: all arrive, none expires, order holds`, async (t) => {
      const bench = await openBench(t, { script: () => answered(503) })
      const retry = { ...exactWebhook, maxAttempts: 20, maxDelayMs: 4 * secondMs, maxAgeMs: 3_600 * secondMs }
      await bench.add({ breaker: null, retry, ordering: 'endpoint' })
      const sent = [await bench.send(), await bench.send()]
      bench.time.skewMs = jumpMs
      sent.push(await bench.send())
      await bench.pass(10 * secondMs, 500)
      bench.time.skewMs = 0
      await bench.pass(10 * secondMs, 500)
      assert.deepEqual(await bench.tally(), { pending: 3 })
      bench.wire.script = () => answered(200)
      await bench.pass(5 * secondMs, 500)
      assert.deepEqual(await bench.tally(), { delivered: 3 })
      assert.deepEqual(arrivals(bench), sent)
    })

    test(`${name}: what was sent ahead to a hub arrives once, in order, and none expires`, async (t) => {
      const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
      await bench.addRelay({ retry: { ...exactWebhook, maxAttempts: null, maxAgeMs: 3_600 * secondMs } })
      for (let n = 0; n < 20; n++) await bench.intake.accept([anInput({ n })])
      await bench.quiet()
      bench.time.skewMs = jumpMs
      for (let n = 20; n < 40; n++) await bench.intake.accept([anInput({ n })])
      await bench.pass(2 * secondMs, 500)
      for (const run of bench.hub.open) run.answer(answered(200))
      await bench.pass(2 * secondMs, 500)
      bench.time.skewMs = 0
      for (let n = 40; n < 60; n++) await bench.intake.accept([anInput({ n })])
      await bench.pass(5 * secondMs, 500)
      assert.deepEqual(await bench.tally(), { delivered: 60 })
      assert.deepEqual(
        bench.hub.runs.map(numberIn),
        Array.from({ length: 60 }, (_, n) => n),
      )
    })

    test(`${name}: an open breaker neither opens early nor stays, and lets go at its ramp`, async (t) => {
      const bench = await openBench(t, { script: () => unreachable('ECONNREFUSED') })
      const breaker = { threshold: 3, cooldownMs: 60 * secondMs, whenOpen: 'park' } as const
      await bench.add({ breaker, concurrency: 10, retry: { ...exactWebhook, maxAttempts: 100 } })
      for (let i = 0; i < 30; i++) await bench.send()
      await bench.quiet()
      const tried = bench.wire.tries.length
      bench.time.skewMs = jumpMs
      bench.wire.script = () => 'hold'
      await bench.pass(59 * secondMs, secondMs)
      assert.equal(bench.wire.tries.length, tried, 'a try before the cool-down was over')
      await bench.pass(2 * secondMs, secondMs)
      assert.equal(bench.wire.tries.length, tried + 1, 'more than the probe')
      bench.wire.answerAll(answered(200))
      await bench.quiet()
      assert.ok(bench.wire.open.size <= 2, `${bench.wire.open.size} at once after the probe`)
      bench.wire.script = () => answered(200)
      bench.wire.answerAll(answered(200))
      await bench.pass(120 * secondMs, secondMs)
      assert.deepEqual(await bench.tally(), { delivered: 30 })
    })
  }
})

describe('a machine that begins in 1970', () => {
  test('delivers what waited since before, loses nothing and expires nothing', async (t) => {
    const before = await openBench(t, { script: () => answered(503) })
    const retry = { ...exactWebhook, maxAttempts: 20, maxAgeMs: 3_600 * secondMs }
    await before.add({ breaker: null, retry, ordering: 'endpoint' })
    const sent = [await before.send(), await before.send()]
    await before.quiet()
    const today = before.time.nowMs
    await before.stop()
    before.time.nowMs = in1970
    const bench = await before.restart({ script: () => answered(200) })
    sent.push(await bench.send())
    // What a clock that ran ahead put off is pulled back to what the policy and Retry-After could have asked for.
    await bench.pass(dayMs, 3_600 * secondMs)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
    assert.deepEqual(arrivals(bench), sent)
    await bench.stop()
    bench.time.nowMs = today + dayMs
    const after = await bench.restart()
    assert.deepEqual(await after.tally(), { delivered: 3 })
  })

  test('and is told the time then goes on, with order and ids that still grow', async (t) => {
    const before = await openBench(t)
    await before.add({ ordering: 'endpoint' })
    const sent = [await before.send()]
    await before.quiet()
    await before.stop()
    before.time.nowMs = in1970
    const bench = await before.restart()
    sent.push(await bench.send())
    bench.time.skewMs = 56 * 365 * dayMs
    sent.push(await bench.send())
    await bench.pass(secondMs)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
    assert.deepEqual(sent, [...sent].sort())
    assert.deepEqual(arrivals(bench), sent.slice(1))
  })
})

/** The events in the order in which they were answered with success. */
function arrivals(bench: Bench): string[] {
  const seen = new Map<string, number>()
  for (const [index, { parcel }] of bench.wire.tries.entries()) seen.set(parcel.event.id, index)
  return [...seen].sort(([, a], [, b]) => a - b).map(([id]) => id)
}
