import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Beat } from '../../src/store/cluster-store.ts'
import { answered, type Bench, openBench } from '../support/dispatch-bench.ts'

const lease = { leaseMs: 10_000, beatEveryMs: 2_000 }

describe('a process that shares its store', () => {
  test('goes on for as long as its beats are answered', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ timeoutMs: 120_000 })
    await bench.send()
    await bench.pass(60_000, 1_000)
    assert.equal(bench.wire.tries.length, 1)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('ends every attempt and starts none when its lease has lapsed, and spends no budget', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 2 })
    for (let n = 0; n < 5; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    bench.watched.refuse('beat')
    await bench.pass(lease.leaseMs - 1_000, 1_000)
    assert.deepEqual(await bench.tally(), { processing: 5 })
    await bench.pass(3_000, 1_000)
    assert.deepEqual(await bench.tally(), { pending: 5 })
    assert.equal(bench.wire.tries.length, 2)
    assert.ok((await bench.deliveries()).every(({ delivery }) => delivery.attempts === 0))
    await bench.send({ n: 5 })
    await bench.pass(30_000, 1_000)
    assert.equal(bench.wire.tries.length, 2)
  })

  test('goes on with everything when a beat is answered again', async (t) => {
    const bench = await lapsed(t)
    bench.watched.mend()
    bench.wire.script = () => answered(200)
    await bench.pass(lease.beatEveryMs, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('drops what it holds when another has fenced it, even if its lease has not lapsed here, and joins again', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    for (let n = 0; n < 3; n++) await bench.send({ n })
    await bench.quiet()
    const joined = bench.watched.calls('join')
    const { onAnswer } = bench.watched
    bench.watched.onAnswer = (name, answer) => {
      if (name !== 'beat') return onAnswer(name, answer)
      bench.watched.onAnswer = onAnswer
      return { ...(answer as Beat), isLost: true }
    }
    bench.wire.script = () => answered(200)
    await bench.pass(lease.beatEveryMs)
    assert.equal(bench.watched.calls('join'), joined + 1)
    assert.ok(bench.logged.includes('member.fenced'))
    assert.equal(bench.wire.tries[0]?.signal.aborted, true)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('keeps events that come in while it is no member for later', async (t) => {
    const bench = await lapsed(t)
    const before = bench.wire.tries.length
    await bench.send({ n: 9 })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, before)
    assert.deepEqual(await bench.tally(), { pending: 4 })
  })
})

async function lapsed(t: Parameters<typeof openBench>[0]): Promise<Bench> {
  const bench = await openBench(t, { lease, script: () => 'hold' })
  await bench.add({ concurrency: 1 })
  for (let n = 0; n < 3; n++) await bench.send({ n })
  await bench.quiet()
  bench.watched.refuse('beat')
  await bench.pass(lease.leaseMs + 2_000, 1_000)
  assert.deepEqual(await bench.tally(), { pending: 3 })
  return bench
}
