import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { BreakerPolicy } from '../../src/core/circuit-breaker.ts'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { anInput, answered, type Bench, openBench, unreachable } from '../support/dispatch-bench.ts'

const park: BreakerPolicy = { threshold: 3, cooldownMs: 60_000, whenOpen: 'park' }
const down = unreachable('ECONNREFUSED')

describe('the breaker', () => {
  test('opens after the threshold, tries nothing more, and gives back what was in memory unspent', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ breaker: park, concurrency: 3 })
    await send(bench, 40)
    assert.deepEqual(bench.dispatcher.load().queued, 37)
    bench.wire.answerAll(down)
    await bench.quiet()
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'open')
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    const spent = (await bench.deliveries()).map(({ delivery }) => `${delivery.status} ${delivery.attempts}`)
    assert.deepEqual(tallied(spent), { 'pending 1': 3, 'pending 0': 37 })
    // What arrives now waits as well.
    await send(bench, 5)
    await bench.pass(59_000, 1_000)
    assert.equal(bench.wire.tries.length, 3)
    assert.deepEqual(await bench.tally(), { pending: 45 })
  })

  test('sends one probe after the cool-down, then ramps up by one per success', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await opened(bench, { breaker: park, concurrency: 10, timeoutMs: 30_000 })
    await send(bench, 40)
    await bench.pass(60_000, 1_000)
    assert.equal(bench.wire.open.size, 1, 'one probe')
    await bench.pass(20_000, 1_000)
    assert.equal(bench.wire.open.size, 1, 'still one probe')
    const open: number[] = []
    for (let turn = 0; turn < 5; turn++) {
      const [first] = bench.wire.open
      first!.answer(answered(200))
      await bench.quiet()
      open.push(bench.wire.open.size)
    }
    assert.deepEqual(open, [1, 2, 3, 4, 5])
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 43 })
  })

  test('a failed probe is logged as an attempt, spends no budget, and begins another cool-down', async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await opened(bench, { breaker: park })
    await bench.pass(60_000, 1_000)
    await bench.pass(59_000, 1_000)
    assert.equal(bench.wire.tries.length, 4)
    await bench.pass(1_000)
    assert.equal(bench.wire.tries.length, 5)
    const probed = (await bench.deliveries()).filter(({ delivery }) => delivery.attempts > 1)
    const tries = probed.reduce((sum, { delivery }) => sum + delivery.attempts - delivery.triesInBudget, 0)
    assert.equal(tries, 2, 'two probes are attempts outside of the budget')
    for (const { delivery } of probed) {
      assert.equal((await bench.store.listAttempts(delivery.id)).length, delivery.attempts)
    }
    // However long it lasts, nobody is exhausted by probes.
    await bench.pass(30 * 60_000, 5_000)
    assert.deepEqual(await bench.tally(endpoint.id), { pending: 3 })
  })

  test('results of tries that began before it opened change nothing', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    const endpoint = await bench.add({ breaker: park, concurrency: 10 })
    await send(bench, 10)
    const tries = [...bench.wire.open]
    await bench.pass(100)
    for (const one of tries.slice(0, 3)) one.answer(down)
    await bench.quiet()
    const opened = bench.dispatcher.conditionOf(endpoint.id).breaker
    assert.equal(opened.state, 'open')
    await bench.pass(1_000)
    tries[3]!.answer(answered(200))
    tries[4]!.answer(down)
    await bench.quiet()
    assert.deepEqual(bench.dispatcher.conditionOf(endpoint.id).breaker, opened)
    assert.equal(bench.wire.tries.length, 10)
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.pass(70_000, 1_000)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 10 })
  })

  test('whenOpen fail: what is due fails without a try, and a probe still goes out after the cool-down', async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await opened(bench, { breaker: { ...park, whenOpen: 'fail' }, concurrency: 10 })
    await send(bench, 300)
    await bench.pass(2_000)
    assert.equal(bench.wire.tries.length, 3)
    const records = await bench.deliveries()
    assert.deepEqual(tallied(records.map(({ delivery }) => `${delivery.status} ${delivery.attempts}`)), {
      'failed 1': 3,
      'failed 0': 300,
    })
    assert.ok(records.every(({ delivery }) => delivery.status === 'failed' && delivery.reason === 'breaker_open'))
    bench.wire.script = () => answered(200)
    await bench.pass(58_000, 1_000)
    await send(bench, 1)
    assert.equal(bench.wire.tries.length, 4)
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'closed')
    assert.equal((await bench.tally()).delivered, 1)
  })

  test('with whenOpen fail, what was claimed while the probe closed the breaker waits for a hold like any other', async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await opened(bench, { breaker: { ...park, whenOpen: 'fail' }, concurrency: 10 })
    await bench.pass(60_000, 1_000)
    bench.wire.script = () => 'hold'
    await send(bench, 1)
    assert.equal(bench.wire.open.size, 1, 'the probe')
    const goOn = bench.watched.hold('claim')
    await send(bench, 5)
    bench.wire.answerAll(answered(429, { 'retry-after': '30' }))
    await bench.quiet()
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'closed')
    goOn()
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { failed: 3, pending: 6 })
    bench.wire.script = () => answered(200)
    await bench.pass(30_000, 1_000)
    assert.deepEqual(await bench.tally(), { failed: 3, delivered: 6 })
  })

  test('an endpoint without a breaker is tried for as long as its policy says', async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await bench.add({ breaker: null })
    await send(bench, 20)
    await bench.pass(20_000, 500)
    assert.equal(bench.wire.tries.length, 100)
    assert.deepEqual(await bench.tally(endpoint.id), { failed: 20 })
  })

  test('stays open over a restart and probes when the rest of the cool-down is over', async (t) => {
    const before = await openBench(t, { script: () => down })
    const endpoint = await opened(before, { breaker: park })
    await before.pass(20_000)
    const bench = await before.restart({ script: () => answered(200) })
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'open')
    await bench.pass(39_000, 1_000)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(1_000)
    assert.ok(bench.wire.tries.length > 0)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 3 })
  })

  test('a probe that was under way when the process ended does not keep the endpoint shut', async (t) => {
    const before = await openBench(t, { script: () => down })
    const endpoint = await opened(before, { breaker: park })
    before.wire.script = () => 'hold'
    await before.pass(60_000)
    assert.equal(before.dispatcher.conditionOf(endpoint.id).breaker.state, 'half_open')
    const bench = await before.restart({ script: () => answered(200) })
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 3 })
  })

  test('a breaker that was switched off while its probe was under way is closed when it is switched on', async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await opened(bench, { breaker: park })
    bench.wire.script = () => 'hold'
    await bench.pass(60_000)
    await bench.catalogue.put({ ...endpoint, breaker: null })
    bench.wire.script = () => answered(200)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    await bench.catalogue.put(endpoint)
    await send(bench, 1)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 4 })
  })

  test("a person's retry is a probe before its time", async (t) => {
    const bench = await openBench(t, { script: () => down })
    const endpoint = await opened(bench, { breaker: park })
    const [first] = await bench.deliveries()
    await bench.pass(5_000)
    assert.equal(await bench.dispatcher.retry(first!.delivery.id), 'retried')
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 4)
    const failed = (await bench.store.getDelivery(first!.delivery.id))!.delivery
    assert.deepEqual([failed.status, failed.attempts, failed.triesInBudget], ['pending', 2, 1])
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'open')
    bench.wire.script = () => answered(200)
    assert.equal(await bench.dispatcher.retry(first!.delivery.id), 'retried')
    await bench.quiet()
    assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'closed')
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 3 })
  })
})

/** An endpoint whose breaker has been opened by three refused tries. */
async function opened(bench: Bench, given: Partial<HttpEndpoint>): Promise<HttpEndpoint> {
  const { script } = bench.wire
  bench.wire.script = () => down
  const endpoint = await bench.add(given)
  await send(bench, 3)
  assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'open')
  bench.wire.script = script
  return endpoint
}

async function send(bench: Bench, count: number): Promise<void> {
  await bench.intake.accept(Array.from({ length: count }, (_, n) => anInput({ n })))
  await bench.quiet()
}

function tallied(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}
