import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Run, Task } from '../../src/engines/engine.ts'
import { aTask, isThere, never, openReports, processEngine, textOf, untilGone } from './process-scene.ts'

const returned: Run = { kind: 'returned' }

/** One neighbour runs while the task does, others wait behind it: none of them may notice. */
async function amongInnocents(t: TestContext, task: Task, execArgv: readonly string[] = process.execArgv) {
  const reports = await openReports(t)
  const { engine, told } = processEngine(t, { execArgv })
  const neighbour = engine.run(aTask('waits', { to: reports.to }), never)
  await reports.next()
  const running = engine.run(task, never)
  const behind = Array.from({ length: 5 }, () => engine.run(aTask('returns'), never))
  const run = await running
  assert.deepEqual(await Promise.all(behind), Array(5).fill(returned))
  reports.release()
  assert.deepEqual(await neighbour, returned)
  return { run, told, engine }
}

describe('a worker that dies costs only the run that it had', () => {
  const deaths: readonly (readonly [string, Task, Partial<Extract<Run, { kind: 'died' }>['death']>])[] = [
    ['exit code 0', aTask('exits', { code: 0 }), { code: 0 }],
    ['exit code 3', aTask('exits', { code: 3 }), { code: 3 }],
    ['SIGKILL', aTask('isKilled', { signal: 'SIGKILL' }), { signal: 'SIGKILL' }],
    ['SIGSEGV', aTask('isKilled', { signal: 'SIGSEGV' }), { signal: 'SIGSEGV' }],
    ['abort', aTask('aborts'), { signal: 'SIGABRT' }],
  ]
  for (const [how, task, death] of deaths) {
    test(`by ${how}`, async (t) => {
      const { run } = await amongInnocents(t, task)
      const expected = { signal: null, code: null, lastWords: null, uncaught: null, ...death }
      assert.deepEqual(run, { kind: 'died', death: expected })
    })
  }

  test('by the limit of its heap, and the reason is known', async (t) => {
    const { run } = await amongInnocents(t, aTask('fillsTheHeap'), ['--max-old-space-size=32'])
    assert.ok(run.kind === 'died', run.kind)
    assert.equal(run.death.signal, 'SIGABRT')
    assert.match(run.death.lastWords ?? '', /^FATAL ERROR: .*JavaScript heap out of memory$/)
  })

  for (const [name, message] of [
    ['throwsInATimer', 'from a timer'],
    ['rejectsUnheard', 'from a promise'],
    ['emitsAnError', 'from an emitter'],
  ] as const) {
    test(`by an error that nothing catches, ${message}`, async (t) => {
      const { run } = await amongInnocents(t, aTask(name))
      assert.ok(run.kind === 'died', run.kind)
      const { uncaught } = run.death
      assert.deepEqual([uncaught?.message, uncaught?.errorClass], [`TypeError: ${message}`, 'TypeError'])
      assert.match(uncaught?.stack ?? '', /rough-modules/)
    })
  }

  test('by leaving us', async (t) => {
    const { run } = await amongInnocents(t, aTask('disconnects'))
    assert.equal(run.kind === 'died' && run.death.signal, 'SIGKILL')
  })

  test('by us, when it has closed its channel', async (t) => {
    const { run } = await amongInnocents(t, aTask('closesItsChannel'))
    assert.equal(run.kind === 'died' && run.death.signal, 'SIGKILL')
  })

  test('and the reason is not what an earlier run has printed', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    await engine.run(aTask('printsAFatalLine'), never)
    await told.until('worker.output')
    const run = await engine.run(aTask('exits', { code: 3 }), never)
    assert.deepEqual(run.kind === 'died' && [run.death.code, run.death.lastWords], [3, null])
    assert.equal(told.pids.length, 1)
  })

  test('again and again, mixed with others', async (t) => {
    const { engine } = processEngine(t)
    const tasks = Array.from({ length: 30 }, (_, n) => aTask(n % 3 === 0 ? 'exits' : 'returns', { code: 3 }))
    const runs = await Promise.all(tasks.map((task) => engine.run(task, never)))
    assert.deepEqual(
      runs.map(({ kind }) => kind),
      tasks.map((_, n) => (n % 3 === 0 ? 'died' : 'returned')),
    )
  })
})

describe('what happens after a run', () => {
  test('has returned: an exit harms nobody', async (t) => {
    const { run } = await amongInnocents(t, aTask('exitsAfterReturning'))
    assert.deepEqual(run, returned)
  })

  test('an error that nothing catches lets the run in hand finish, and ends the worker after it', async (t) => {
    const late = await openReports(t)
    const current = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 1 })
    assert.deepEqual(await engine.run(aTask('throwsAfterReturning', { to: late.to }), never), returned)
    const [pid = 0] = told.pids
    const running = engine.run(aTask('waits', { to: current.to }), never)
    assert.equal(await current.next(), String(pid))
    late.release()
    await told.until('worker.uncaught_error')
    const next = engine.run(aTask('returns'), never)
    current.release()
    assert.deepEqual(await Promise.all([running, next]), [returned, returned])
    await untilGone(pid)
    assert.equal(told.pids.length, 2)
  })

  test('an error that nothing catches in an idle worker harms nobody', async (t) => {
    const late = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 1 })
    assert.deepEqual(await engine.run(aTask('throwsAfterReturning', { to: late.to }), never), returned)
    late.release()
    await told.until('worker.uncaught_error')
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    await untilGone(told.pids[0] ?? 0)
  })
})

describe('what a worker has started', () => {
  test('ends with it, and does not delay the news of its end when it does not', async (t) => {
    const reports = await openReports(t)
    const { engine } = processEngine(t)
    const running = engine.run(aTask('startsOthers', { to: reports.to }), never)
    const [own, detached] = JSON.parse(await reports.next()) as [number, number]
    t.after(() => process.kill(detached, 'SIGKILL'))
    reports.release()
    const death = { signal: null, code: 3, lastWords: null, uncaught: null }
    assert.deepEqual(await running, { kind: 'died', death })
    assert.ok(isThere(detached), 'it holds the output of the worker')
    await untilGone(own)
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
  })
})

describe('what a handler', () => {
  test('returns is not looked at, even if it cannot be sent', async (t) => {
    const { run } = await amongInnocents(t, aTask('returnsSomethingUncloneable'))
    assert.deepEqual(run, returned)
  })

  test('throws is told as text, even if it cannot be sent', async (t) => {
    const { run } = await amongInnocents(t, aTask('throwsSomethingUncloneable'))
    assert.equal(textOf(run), 'with a function')
  })

  test('sends is none of our messages', async (t) => {
    const { run } = await amongInnocents(t, aTask('sendsMessages'))
    assert.equal(textOf(run), 'it was sent all that')
  })
})
