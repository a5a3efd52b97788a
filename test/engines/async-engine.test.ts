import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, type TestContext, test } from 'node:test'
import { AsyncEngine } from '../../src/engines/async-engine.ts'
import type { Code, Handler, Task } from '../../src/engines/engine.ts'
import { LateRuns } from '../../src/engines/late-runs.ts'
import { Watchdog } from '../../src/engines/watchdog.ts'
import type { Logger } from '../../src/log.ts'
import { taskOf } from '../../src/transports/handler/task.ts'
import { engineContract } from '../contracts/engine.ts'
import { aHandler, anEvent, t0 } from '../support/builders.ts'

const silent = { level: 'silent' } as unknown as Logger
const exported = new URL('../support/exported-handlers.ts', import.meta.url).href
const never = new AbortController().signal

function engineFor(t: TestContext, now?: () => number, log = silent): AsyncEngine {
  const parts = { watchdog: new Watchdog({ log: silent }), lateRuns: new LateRuns(log) }
  const engine = new AsyncEngine({ ...parts, ...(now && { now }) })
  t.after(() => engine.stop())
  return engine
}

function task(code: Code, timeoutMs = 30_000): Task {
  const endpoint = aHandler({ timeoutMs })
  const event = anEvent({ id: 'evt_1' })
  return taskOf('orders', code, {
    event,
    endpoint,
    deliveryId: 'dlv_1',
    lane: null,
    attempt: 2,
    sentAt: t0,
    bornAt: t0,
  })
}

/** What would have ended the process. */
function uncaught(t: TestContext): unknown[] {
  const seen: unknown[] = []
  const note = (error: unknown) => seen.push(error)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  return seen
}

engineContract('the async engine', (t) => engineFor(t))

describe('the async engine', () => {
  test('gives a handler the event, its attempt, its delivery and a signal', async (t) => {
    const engine = engineFor(t)
    let given: unknown[] = []
    const run = await engine.run(
      task((...args: Parameters<Handler>) => {
        given = args
        assert.equal(args[1].signal.aborted, false)
      }),
      never,
    )
    assert.deepEqual(run, { kind: 'returned' })
    const [first, context] = given as Parameters<Handler>
    assert.deepEqual([first.id, first.receivedAt], ['evt_1', new Date(t0)])
    assert.deepEqual([context.attempt, context.deliveryId], [2, 'dlv_1'])
  })

  test('imports the handler of a module', async (t) => {
    const engine = engineFor(t)
    assert.deepEqual(await engine.run(task({ module: exported, export: 'returns' }), never), { kind: 'returned' })
    const run = await engine.run(task({ module: exported, export: 'throws' }), never)
    assert.equal(run.kind === 'threw' ? run.thrown.message : run.kind, 'attempt 2 of dlv_1 for evt_1')
  })

  test('takes a module that has no such handler, or is not there, for a failed run', async (t) => {
    const messageOf = async (code: Code) => {
      const run = await engineFor(t).run(task(code), never)
      return run.kind === 'threw' ? run.thrown.message : run.kind
    }
    assert.match(await messageOf({ module: exported, export: 'nothing' }), /has no function as its export "nothing"/)
    assert.match(await messageOf({ module: `${exported}.missing`, export: 'returns' }), /Cannot find module/)
  })

  test('does not begin a handler whose run was ended during the import', async (t) => {
    const stopping = new AbortController()
    const calls = globalThis as { exportedHandlerCalls?: number }
    calls.exportedHandlerCalls = 0
    const running = engineFor(t).run(task({ module: `${exported}?late`, export: 'counts' }), stopping.signal)
    stopping.abort()
    assert.deepEqual(await running, { kind: 'interrupted' })
    await import(`${exported}?late`)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(calls.exportedHandlerCalls, 0)
  })

  const failures: readonly (readonly [string, Handler, RegExp])[] = [
    [
      'throws',
      () => {
        throw new Error('thrown')
      },
      /^thrown$/,
    ],
    ['rejects', async () => Promise.reject(new Error('rejected')), /^rejected$/],
    [
      'throws undefined',
      () => {
        throw undefined
      },
      /threw undefined/,
    ],
    ['rejects with undefined', () => Promise.reject(), /threw undefined/],
    [
      'answers with something that is no promise and says that it is one',
      () => ({
        // biome-ignore lint/suspicious/noThenProperty: that is the point
        get then() {
          throw new Error('a trap')
        },
      }),
      /^a trap$/,
    ],
  ]
  for (const [what, handler, message] of failures) {
    test(`takes a handler that ${what} for one failed run`, async (t) => {
      const run = await engineFor(t).run(task(handler), never)
      assert.equal(run.kind, 'threw')
      assert.match(run.kind === 'threw' ? run.thrown.message : '', message)
    })
  }

  test('ends a run at its deadline, tells the handler, and says when it has settled at last', async (t) => {
    const seen = uncaught(t)
    const { promise: held, reject } = Promise.withResolvers<void>()
    let signal = never
    const handler: Handler = (_, context) => {
      signal = context.signal
      return held
    }
    const run = await engineFor(t).run(task(handler, 20), never)
    assert.equal(run.kind, 'overran')
    assert.equal(signal.aborted, true)
    assert.equal(signal.reason.name, 'TimeoutError')
    reject(new Error('far too late'))
    await (run.kind === 'overran' ? run.settled : null)
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(seen, [])
  })

  test('aborts the signal of a handler that asks for it only after the deadline', async (t) => {
    const later = Promise.withResolvers<boolean>()
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const handler: Handler = async (_, context) => {
      await over
      later.resolve(context.signal.aborted)
    }
    await engineFor(t).run(task(handler, 10), never)
    resolve()
    assert.equal(await later.promise, true)
  })

  test('takes what blocked the loop past its deadline for late, once it returns', async (t) => {
    let now = 0
    const run = await engineFor(t, () => now).run(
      task(() => {
        now = 10_000
      }, 1_000),
      never,
    )
    assert.equal(run.kind, 'overran')
  })

  test('tells of runs that pile up past their deadline, at a hundred and at every doubling', async (t) => {
    const told: unknown[] = []
    const warn = ({ handler, lateRuns }: Record<string, unknown>) => told.push([handler, lateRuns])
    const engine = engineFor(t, undefined, { level: 'warn', warn } as unknown as Logger)
    const { promise: held, resolve } = Promise.withResolvers<void>()
    const runOne = (until: Promise<void>) => {
      const late = task(() => until, 1)
      return engine.run(late, never)
    }
    const pileUp = (count: number, until: Promise<void>) =>
      Promise.all(Array.from({ length: count }, () => runOne(until)))
    await pileUp(99, held)
    assert.deepEqual(told, [])
    const runs = await pileUp(101, held)
    assert.deepEqual(told, [
      ['orders', 100],
      ['orders', 200],
    ])
    resolve()
    await Promise.all(runs.map((run) => (run.kind === 'overran' ? run.settled : assert.fail(run.kind))))
    const { promise: heldAgain, resolve: end } = Promise.withResolvers<void>()
    await pileUp(100, heldAgain)
    assert.deepEqual(told.slice(2), [['orders', 100]])
    end()
  })

  test('ends every run when we stop, and starts none after that', async (t) => {
    const stopping = new AbortController()
    const engine = engineFor(t)
    const signals: AbortSignal[] = []
    const handler: Handler = (_, { signal }) => {
      signals.push(signal)
      return once(signal, 'abort')
    }
    const runs = [engine.run(task(handler), stopping.signal), engine.run(task(handler), stopping.signal)]
    stopping.abort()
    assert.deepEqual(await Promise.all(runs), [{ kind: 'interrupted' }, { kind: 'interrupted' }])
    assert.deepEqual(
      signals.map((signal) => signal.aborted),
      [true, true],
    )
    assert.deepEqual(
      await engine.run(
        task(() => assert.fail()),
        stopping.signal,
      ),
      { kind: 'interrupted' },
    )
  })
})
