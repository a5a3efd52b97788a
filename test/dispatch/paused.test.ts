import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openBench } from '../support/dispatch-bench.ts'

test('a dispatcher that begins paused keeps what comes and delivers it after resume', async (t) => {
  const bench = await openBench(t, { paused: true })
  const old = await bench.add()
  await bench.send()
  await bench.send({ key: 'a' })
  await bench.pass(60_000, 10_000)
  assert.deepEqual([bench.dispatcher.paused, bench.wire.tries.length], [true, 0])
  assert.deepEqual(await bench.tally(), { pending: 2 })
  // One that is created meanwhile waits as well.
  const late = await bench.add({ types: ['late.*'] })
  await bench.send({ type: 'late.x' })
  await bench.quiet()
  assert.equal(bench.wire.tries.length, 0)
  bench.dispatcher.paused = false
  await bench.quiet()
  assert.deepEqual([bench.wire.triesOf(old).length, bench.wire.triesOf(late).length], [3, 1])
  assert.deepEqual(await bench.tally(), { delivered: 4 })
  await bench.stop()
})

test('what is under way when a person pauses comes to its end, and nothing else begins', async (t) => {
  const bench = await openBench(t, { script: () => 'hold' })
  await bench.add({ concurrency: 1 })
  await bench.send()
  await bench.send()
  await bench.quiet()
  bench.dispatcher.paused = true
  bench.wire.answerAll({ kind: 'answered', statusCode: 200, headers: {}, body: '' })
  await bench.quiet()
  assert.equal(bench.wire.tries.length, 1)
  assert.deepEqual(await bench.tally(), { delivered: 1, pending: 1 })
  bench.dispatcher.paused = false
  await bench.quiet()
  assert.equal(bench.wire.tries.length, 2)
  await bench.stop()
})

test('a retry that a person asks for waits too while all is paused', async (t) => {
  const bench = await openBench(t, { paused: true })
  await bench.add()
  await bench.send()
  const [record] = await bench.deliveries()
  await bench.dispatcher.retry(record!.delivery.id)
  await bench.quiet()
  assert.equal(bench.wire.tries.length, 0)
  bench.dispatcher.paused = false
  await bench.quiet()
  assert.equal(bench.wire.tries.length, 1)
  await bench.stop()
})
