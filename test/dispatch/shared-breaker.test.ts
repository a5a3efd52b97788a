import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { BreakerPolicy } from '../../src/core/circuit-breaker.ts'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { anInput, answered, type Bench, openBench, unreachable } from '../support/dispatch-bench.ts'
import { FickleState } from '../support/fickle-state.ts'

const breaker: BreakerPolicy = { threshold: 5, cooldownMs: 60_000, whenOpen: 'park' }
const down = unreachable('ECONNREFUSED')

/** Two processes that share what they know of one endpoint. Each has a store of its own here, so that each has work. */
async function openTwo(t: TestContext, given: Partial<HttpEndpoint> = {}) {
  let steady = () => 0
  const state = new FickleState(() => steady())
  const a = await openBench(t, { state, script: () => 'hold' })
  steady = a.time.steady
  const b = await openBench(t, { state, script: () => 'hold' })
  const endpoint = await a.add({ breaker, concurrency: 10, timeoutMs: 10_000, ...given })
  await b.add(endpoint)
  const stateOf = (bench: Bench) => bench.dispatcher.conditionOf(endpoint.id).breaker.state
  return { state, a, b, endpoint, stateOf }
}

type Two = Awaited<ReturnType<typeof openTwo>>

async function send(bench: Bench, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await bench.send({ n })
  await bench.quiet()
}

/** Both have work, and the breaker is open at both. */
async function openBreaker({ a, b }: Two): Promise<void> {
  for (const bench of [a, b]) await send(bench, 10)
  for (const bench of [a, b]) {
    bench.wire.answerAll(down)
    await bench.quiet()
  }
}

async function pass({ a, b }: Two, ms: number, stepMs = 500): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    await a.pass(Math.min(stepMs, left))
    await b.quiet()
    await a.quiet()
  }
}

const changesIn = (bench: Bench) =>
  bench.heard.flatMap((notice) => (notice.kind === 'breaker.changed' ? [`${notice.from} ${notice.to}`] : []))

describe('a breaker that several processes share', () => {
  test('opens when all of them together have seen enough failures, and one of them tells of it', async (t) => {
    const two = await openTwo(t)
    const { a, b, stateOf } = two
    await send(a, 3)
    a.wire.answerAll(down)
    await a.quiet()
    await send(b, 2)
    b.wire.answerAll(down)
    await b.quiet()
    assert.equal(stateOf(b), 'open')
    await pass(two, 2_000)
    assert.equal(stateOf(a), 'open')
    assert.deepEqual([changesIn(a), changesIn(b)], [[], ['closed open']])
    assert.deepEqual(a.dispatcher.conditionOf(two.endpoint.id), b.dispatcher.conditionOf(two.endpoint.id))
  })

  test('a success at one that has seen it fail counts for all', async (t) => {
    const two = await openTwo(t)
    const { a, b, stateOf } = two
    for (const [bench, answer] of [
      [a, down],
      [b, down],
      [b, answered(200)],
      [a, down],
    ] as const) {
      await send(bench, 2)
      bench.wire.answerAll(answer)
      await bench.quiet()
    }
    assert.deepEqual([stateOf(a), stateOf(b)], ['closed', 'closed'])
    await send(a, 3)
    a.wire.answerAll(down)
    await a.quiet()
    assert.equal(stateOf(a), 'open')
  })

  test('lets one of them probe, and all go on when the probe was good', async (t) => {
    const two = await openTwo(t)
    const { a, b, endpoint, stateOf } = two
    await openBreaker(two)
    assert.deepEqual([a.wire.open.size, b.wire.open.size], [0, 0])
    await pass(two, 59_000)
    assert.equal(a.wire.open.size + b.wire.open.size, 0)
    await pass(two, 9_000)
    const [prober, other] = a.wire.open.size > 0 ? [a, b] : [b, a]
    assert.deepEqual([prober.wire.open.size, other.wire.open.size], [1, 0])
    assert.deepEqual([stateOf(prober), stateOf(other)], ['half_open', 'half_open'])
    for (const bench of [a, b]) bench.wire.script = () => answered(200)
    prober.wire.answerAll(answered(200))
    await prober.quiet()
    await pass(two, 2_500)
    assert.deepEqual([await a.tally(endpoint.id), await b.tally(endpoint.id)], [{ delivered: 10 }, { delivered: 10 }])
    assert.deepEqual([stateOf(a), stateOf(b)], ['closed', 'closed'])
    const changes = [...changesIn(a), ...changesIn(b)]
    assert.deepEqual(changes.toSorted(), ['closed open', 'half_open closed', 'open half_open'])
  })

  test('is probed by another one when the one with the probe has gone', async (t) => {
    const two = await openTwo(t)
    const { a, b, stateOf } = two
    await openBreaker(two)
    await pass(two, 61_000)
    const [prober, other] = a.wire.open.size > 0 ? [a, b] : [b, a]
    assert.equal(stateOf(other), 'half_open')
    // It hangs: neither its answer nor its deadline is seen by anybody.
    const [probe] = prober.wire.open
    prober.wire.open.delete(probe!)
    await pass(two, 30_000 + 10_000 - 2_000)
    assert.equal(other.wire.open.size, 0)
    await pass(two, 4_000)
    assert.equal(other.wire.open.size, 1)
    other.wire.answerAll(answered(200))
    await other.quiet()
    assert.equal(stateOf(other), 'closed')
    probe!.answer(down)
    prober.wire.open.add(probe!)
    probe!.answer(down)
    await prober.quiet()
  })

  test('is closed for all when a person says so at one of them, and a hold is kept by all', async (t) => {
    const two = await openTwo(t)
    const { a, b, endpoint, stateOf } = two
    await openBreaker(two)
    assert.equal(stateOf(b), 'open')
    a.dispatcher.resetBreaker(endpoint.id)
    await pass(two, 2_500)
    assert.deepEqual([stateOf(a), stateOf(b)], ['closed', 'closed'])
    a.wire.answerAll(answered(503, { 'retry-after': '30' }))
    await a.quiet()
    await pass(two, 2_500)
    const held = [a, b].map((bench) => bench.dispatcher.conditionOf(endpoint.id).heldUntil)
    assert.ok(held[0] !== null && held[0] === held[1], String(held))
  })

  test('is known to a process that starts later', async (t) => {
    const two = await openTwo(t)
    const { a, b, state, endpoint } = two
    await a.stop()
    await send(b, 10)
    b.wire.answerAll(down)
    await b.quiet()
    const known = b.dispatcher.conditionOf(endpoint.id)
    assert.equal(known.breaker.state, 'open')
    const again = await openBench(t, { state, folder: a.folder })
    assert.deepEqual(again.dispatcher.conditionOf(endpoint.id), known)
  })

  test('costs nothing while an endpoint is well', async (t) => {
    const two = await openTwo(t)
    const { a, state } = two
    a.wire.script = () => answered(200)
    const before = state.swaps
    await send(a, 50)
    await pass(two, 10_000)
    assert.deepEqual(await a.tally(), { delivered: 50 })
    assert.equal(state.swaps, before)
  })
})

describe('while the shared state is away', () => {
  test('each counts and probes by itself, nothing is lost or held up, and it is said', async (t) => {
    const two = await openTwo(t)
    const { a, b, state, endpoint, stateOf } = two
    assert.equal(a.dispatcher.disagreement, null)
    state.isAway = true
    await openBreaker(two)
    assert.deepEqual([stateOf(a), stateOf(b)], ['open', 'open'])
    assert.match(a.dispatcher.disagreement ?? '', /^The state does not answer: each process/)
    await pass(two, 64_000)
    assert.deepEqual([a.wire.open.size, b.wire.open.size], [1, 1])
    for (const bench of [a, b]) {
      bench.wire.script = () => answered(200)
      bench.wire.answerAll(answered(200))
      await bench.quiet()
    }
    await pass(two, 5_000)
    assert.deepEqual([await a.tally(endpoint.id), await b.tally(endpoint.id)], [{ delivered: 10 }, { delivered: 10 }])
    state.isAway = false
    await pass(two, 4_000)
    assert.deepEqual([a.dispatcher.disagreement, b.dispatcher.disagreement], [null, null])
    assert.deepEqual([stateOf(a), stateOf(b)], ['closed', 'closed'])
    for (const line of ['shared_state.away', 'shared_state.back']) assert.ok(a.logged.join('\n').includes(line), line)
  })

  test('what happened is told to the others when it is back', async (t) => {
    const two = await openTwo(t)
    const { a, b, state, stateOf } = two
    state.isAway = true
    await send(a, 6)
    a.wire.answerAll(down)
    await a.quiet()
    assert.deepEqual([stateOf(a), stateOf(b)], ['open', 'closed'])
    state.isAway = false
    await pass(two, 3_000)
    await send(b, 1)
    b.wire.answerAll(down)
    await b.quiet()
    assert.equal(stateOf(b), 'open')
  })

  test('tries go on while it does not answer, and what it knew is taken up when it does', async (t) => {
    const two = await openTwo(t)
    const { a, state, stateOf } = two
    const release = state.hold()
    await send(a, 10)
    a.wire.answerAll(down)
    await a.quiet()
    assert.equal(stateOf(a), 'open')
    release()
    await a.quiet()
    assert.equal(stateOf(a), 'open')
    assert.deepEqual(await a.tally(), { pending: 10 })
  })

  test('a flushed one makes them probe, one at a time, and not forget that it was open', async (t) => {
    const two = await openTwo(t)
    const { a, b, state, stateOf } = two
    await openBreaker(two)
    await pass(two, 10_000)
    assert.equal(a.wire.open.size + b.wire.open.size, 0)
    state.flush()
    await pass(two, 8_000)
    assert.equal(a.wire.open.size + b.wire.open.size, 1)
    const [prober] = a.wire.open.size > 0 ? [a] : [b]
    prober!.wire.answerAll(down)
    await prober!.quiet()
    assert.deepEqual(stateOf(prober!), 'open')
    await pass(two, 10_000)
    assert.equal(a.wire.open.size + b.wire.open.size, 0)
  })
})

describe('what a process knows of an endpoint', () => {
  test('is forgotten with the endpoint, also when an attempt ends after that', async (t) => {
    const { a, state, endpoint } = await openTwo(t)
    await send(a, 1)
    await a.catalogue.remove(endpoint.id)
    await a.quiet()
    a.wire.answerAll(down)
    await a.quiet()
    state.asked.clear()
    await a.pass(5_000, 500)
    assert.deepEqual([...state.asked], ['any'])
  })

  test('is agreed on, whatever another endpoint has brought that nobody can be told', async (t) => {
    const state = new FickleState(() => 0)
    const bench = await openBench(t, { state, script: () => 'hold' })
    // Its time cannot be a number.
    const broken = { threshold: 1, cooldownMs: '5', whenOpen: 'park' } as unknown as BreakerPolicy
    await bench.add({ types: ['broken'], breaker: broken })
    const other = await bench.add({ types: ['other'], breaker: { ...breaker, threshold: 1 } })
    await bench.intake.accept([anInput({ type: 'broken' }), anInput({ type: 'other' })])
    await bench.quiet()
    bench.wire.answerAll(down)
    await bench.quiet()
    assert.equal(bench.dispatcher.disagreement, null)
    assert.equal(bench.dispatcher.conditionOf(other.id).breaker.state, 'open')
    assert.ok((await state.read([`condition:${other.id}`]))[0]?.includes('"open"'))
    assert.ok(bench.logged.includes('condition.cannot_be_proposed'))
  })

  test('does not keep a process that stops from stopping at once, while nobody answers', async (t) => {
    const { a, state } = await openTwo(t)
    await send(a, 1)
    state.isAway = true
    a.wire.answerAll(down)
    await a.quiet()
    assert.notEqual(a.dispatcher.disagreement, null)
    let isStopped = false
    const stopping = a.dispatcher.stop(0).then(() => {
      isStopped = true
    })
    await a.quiet()
    assert.ok(isStopped, 'it waits for no clock')
    await stopping
  })
})
