import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Run } from '../../src/engines/engine.ts'
import { engineContract, processesContract } from '../contracts/engine.ts'
import { aTask, block, isThere, module, never, openReports, processEngine, textOf, untilGone } from './process-scene.ts'

const open = (t: TestContext) => processEngine(t, { workersMax: 3 }).engine
engineContract('the process engine', open)
processesContract('the process engine', open)

const returned: Run = { kind: 'returned' }
const hasty = { loadMs: 60_000, graceMs: 50 }

describe('the deadline of a run in a process', () => {
  for (const name of ['spins', 'trapsSignals']) {
    test(`ends a handler that does not obey, and its worker: ${name}`, async (t) => {
      const reports = await openReports(t)
      const { engine, told } = processEngine(t, { workersMax: 1, limits: hasty })
      const running = engine.run(aTask(name, { to: reports.to }, { timeoutMs: 500 }), never)
      const pid = Number(await reports.next())
      reports.release()
      const run = await running
      assert.ok(run.kind === 'overran', run.kind)
      const next = engine.run(aTask('returns'), never)
      await run.settled
      await untilGone(pid)
      assert.deepEqual(await next, returned)
      assert.deepEqual([told.of('worker.killed')[0]?.pid, told.of('worker.died')], [pid, []])
    })
  }

  test('leaves a handler that obeys its signal its worker', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 1 })
    const running = engine.run(aTask('obeys', { to: reports.to }, { timeoutMs: 300 }), never)
    await reports.next()
    reports.release()
    const run = await running
    assert.ok(run.kind === 'overran', run.kind)
    await run.settled
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    assert.equal(told.pids.length, 1)
  })

  test('does not count what ended in time while our own loop was blocked', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    const running = engine.run(aTask('endsSoon', {}, { timeoutMs: 1_000 }), never)
    await told.until('worker.output')
    block(1_500)
    assert.deepEqual(await running, returned)
  })
})

describe('an aborted run in a process', () => {
  test('takes no other run with it when it has ended unheard in the moment of the kill', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 1, limits: { loadMs: 60_000, graceMs: 1 } })
    const stopping = new AbortController()
    const running = engine.run(aTask('obeys', { to: reports.to }), stopping.signal)
    await reports.next()
    reports.release()
    const next = engine.run(aTask('returns'), never)
    stopping.abort()
    // Its answer comes meanwhile, and is read only after the kill.
    block(300)
    assert.deepEqual(await Promise.all([running, next]), [{ kind: 'interrupted' }, returned])
    assert.deepEqual(told.of('worker.died'), [])
  })

  test('leaves the queue when it waits for a worker', async (t) => {
    const reports = await openReports(t)
    const { engine } = processEngine(t, { workersMax: 1 })
    const running = engine.run(aTask('waits', { to: reports.to }), never)
    await reports.next()
    const stopping = new AbortController()
    const waiting = engine.run(aTask('waits', { to: reports.to }), stopping.signal)
    const behind = engine.run(aTask('returns'), never)
    stopping.abort()
    assert.deepEqual(await waiting, { kind: 'interrupted' })
    reports.release()
    assert.deepEqual(await Promise.all([running, behind]), [returned, returned])
    assert.equal(reports.count(), 1, 'it has not begun')
  })
})

describe('the signals that end a server', () => {
  test('do not end a worker: its parent lets it finish', async (t) => {
    const reports = await openReports(t)
    const { engine } = processEngine(t)
    const running = engine.run(aTask('waits', { to: reports.to }), never)
    const pid = Number(await reports.next())
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.kill(pid, signal)
    reports.release()
    assert.deepEqual(await running, returned)
    assert.ok(isThere(pid))
  })
})

describe('the end of a process engine', () => {
  test('is there when every process is gone, busy ones and idle ones', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t, { limits: hasty })
    const running = engine.run(aTask('spins', { to: reports.to }), never)
    await reports.next()
    reports.release()
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    const waiting = [engine.run(aTask('returns'), never), engine.load({ module, export: 'returns' })]
    await engine.stop()
    assert.deepEqual(await running, { kind: 'interrupted' })
    assert.equal(told.pids.length, 2)
    assert.deepEqual(told.pids.filter(isThere), [])
    await Promise.all(waiting)
    assert.deepEqual(await engine.run(aTask('returns'), never), { kind: 'interrupted' })
    assert.match((await engine.load({ module, export: 'returns' })).thrown?.message ?? '', /is stopped/)
    assert.equal(told.pids.length, 2)
  })

  test('waits for what is under way when it is retired', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t)
    const runs = [1, 2, 3].map(() => engine.run(aTask('waits', { to: reports.to }), never))
    const pids = [await reports.next(), await reports.next()].map(Number)
    engine.retire()
    assert.deepEqual(await engine.run(aTask('returns'), never), { kind: 'interrupted' })
    reports.release()
    assert.deepEqual(await Promise.all(runs), [returned, returned, returned])
    for (const pid of pids) await untilGone(pid)
    assert.equal(told.pids.length, 2)
  })

  test('comes at once when an idle one is retired', async (t) => {
    const { engine, told } = processEngine(t)
    await engine.load({ module, export: 'returns' })
    engine.retire()
    for (const pid of told.pids) await untilGone(pid)
    assert.equal(told.pids.length, 1)
  })
})

describe('what a worker prints', () => {
  test('goes into the log line by line, with the name of the handler', async (t) => {
    const { engine, told } = processEngine(t)
    await engine.run(aTask('prints'), never)
    await engine.stop()
    const lines = told.of('worker.output').map(({ handler, stream, line }) => [handler, stream, line])
    assert.deepEqual(lines.sort(), [
      ['orders', 'stderr', 'three'],
      ['orders', 'stdout', 'four'],
      ['orders', 'stdout', 'one'],
      ['orders', 'stdout', 'two'],
    ])
  })

  test('is kept up to a limit when it has no line breaks', async (t) => {
    const { engine, told } = processEngine(t)
    assert.deepEqual(await engine.run(aTask('printsWithoutEnd', { bytes: 30_000_000 }), never), returned)
    await engine.stop()
    const lines = told.of('worker.output').map(({ line }) => String(line))
    assert.deepEqual(lines.map((line) => [line[0], line.length]).sort(), [
      ['x', 8_192],
      ['y', 8_192],
    ])
  })
})

describe('a worker gets', () => {
  test('our flags of Node, without those that would debug, test or watch it', async (t) => {
    const execArgv = ['--inspect=127.0.0.1:0', '--watch-path', 'src', '--conditions=posthorn-source', '-e', 'run()']
    const env = { ...process.env, NODE_OPTIONS: '--no-warnings --inspect-brk=0 --stack-trace-limit=20' }
    const { engine } = processEngine(t, { execArgv, env })
    const told = JSON.parse(textOf(await engine.run(aTask('tellsItsFlags'), never)))
    assert.deepEqual(told, [['--conditions=posthorn-source'], '--no-warnings  --stack-trace-limit=20'])
  })
})
