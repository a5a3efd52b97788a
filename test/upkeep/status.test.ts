import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Stats } from '../../src/upkeep/stats.ts'
import { Status } from '../../src/upkeep/status.ts'
import { answered, type Bench, openBench } from '../support/dispatch-bench.ts'

/** The status of a bench. Counting takes a second there, so that the next count is twenty seconds later. */
function statusOf({ store, catalogue, dispatcher, time, notices }: Bench): Status {
  let countingMs = 0
  const counting = async () => {
    const counted = await store.stats()
    countingMs += 1_000
    return counted
  }
  const stats = new Stats({ stats: counting }, () => time.steady() + countingMs)
  return new Status({
    store,
    catalogue,
    dispatcher,
    stats,
    notices,
    clock: time,
    lacksRoute: () => false,
    agesKnown: () => true,
  })
}

const all = { tenant: null, limit: 10 }

test('a dead letter is trouble at once, though it was not there at the last count', async (t) => {
  const bench = await openBench(t, { script: () => answered(400) })
  const status = statusOf(bench)
  const endpoint = await bench.add()
  assert.equal((await status.read(all)).state, 'ok')
  await bench.send()
  await bench.quiet()
  const { state, attention, deadLetters } = await status.read(all)
  assert.equal(deadLetters.kept, 0, 'nobody has counted since')
  assert.deepEqual(
    [state, attention.map((each) => [each.endpoint.id, each.why])],
    ['trouble', [[endpoint.id, 'dead_letters']]],
  )
})

test('a try that failed by our own fault is not held against the endpoint', async (t) => {
  const ours = {
    kind: 'thrown',
    verdict: 'ours',
    message: 'no database',
    errorClass: null,
    dependency: null,
    stack: null,
    retryAfterMs: null,
  } as const
  const bench = await openBench(t, { code: (_, tries) => (tries === 1 ? ours : { kind: 'handled' }) })
  const status = statusOf(bench)
  const endpoint = await bench.addHandler()
  await bench.send()
  await bench.pass(60_000, 1_000)
  assert.equal(bench.code.tries.length, 2)
  const { attempts, delivered, failedAttempts } = (await status.of(endpoint)).recent
  assert.deepEqual([attempts, delivered, failedAttempts], [1, 1, 0])
})
