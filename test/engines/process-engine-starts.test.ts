import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Run } from '../../src/engines/engine.ts'
import { aTask, never, openReports, processEngine, textOf, untilGone } from './process-scene.ts'

const returned: Run = { kind: 'returned' }
const modules = new URL('../support/rough-modules/', import.meta.url)
const codeOf = (name: string) => ({ module: new URL(name, modules).href, export: 'default' })

/** Node itself is missing, as while it is being updated. */
function withoutNode(t: TestContext): () => void {
  const { execPath } = process
  const restore = () => {
    process.execPath = execPath
  }
  process.execPath = fileURLToPath(new URL('no-node', modules))
  t.after(restore)
  return restore
}

describe('a worker that dies while it starts', () => {
  test('is replaced for the one run that waits for it', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    told.onTold = ({ msg, pid }) => {
      if (msg === 'worker.started' && told.pids.length === 1) process.kill(Number(pid), 'SIGKILL')
    }
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    assert.equal(told.of('worker.start_failed')[0]?.error, 'the worker was killed by SIGKILL')
    assert.equal(told.pids.length, 2)
  })

  test('is forgotten when another one has started', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    told.onTold = ({ msg, pid }) => {
      if (msg === 'worker.started' && [1, 2, 4].includes(told.pids.length)) process.kill(Number(pid), 'SIGKILL')
    }
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    assert.equal((await engine.run(aTask('exits', { code: 3 }), never)).kind, 'died')
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    const failedStarts = told.of('worker.start_failed').map((line) => line.failedStarts)
    assert.deepEqual(failedStarts, [1, 2, 1])
  })

  test('again and again, tells those who wait, and spends none of their attempts', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 2 })
    told.onTold = ({ msg, pid }) => {
      if (msg === 'worker.started') process.kill(Number(pid), 'SIGKILL')
    }
    const runs = await Promise.all([1, 2, 3].map(() => engine.run(aTask('returns'), never)))
    for (const run of runs) {
      assert.ok(run.kind === 'threw', run.kind)
      assert.equal(run.thrown.verdict, 'ours')
      assert.match(run.thrown.message, /^no worker can be started: the worker was killed by SIGKILL$/)
    }
    told.onTold = () => {}
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
  })

  test('costs none of the runs that another worker can do', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 2 })
    const running = engine.run(aTask('waits', { to: reports.to }), never)
    await reports.next()
    told.onTold = ({ msg, pid }) => {
      if (msg === 'worker.started') process.kill(Number(pid), 'SIGKILL')
    }
    const waiting = engine.run(aTask('returns'), never)
    await told.until('worker.start_failed', 4)
    reports.release()
    assert.deepEqual(await Promise.all([running, waiting]), [returned, returned])
  })
})

describe('a process that cannot be made', () => {
  test('because Node is missing, is told as our side, and tried again', async (t) => {
    const restore = withoutNode(t)
    const { engine } = processEngine(t)
    const run = await engine.run(aTask('returns'), never)
    assert.equal(run.kind === 'threw' && run.thrown.verdict, 'ours')
    assert.match(textOf(run), /^no worker can be started: the worker died: spawn .*no-node ENOENT$/)
    const loaded = await engine.load(codeOf('handlers.ts'))
    assert.match(loaded.thrown?.message ?? '', /no worker can be started: .* ENOENT/)
    restore()
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
  })

  test('because there are too many open files, ends nothing, and is tried again', async (t) => {
    const script = fileURLToPath(new URL('without-files.ts', modules))
    const child = spawn('sh', ['-c', 'ulimit -n 100; exec "$0" "$1"', process.execPath, script])
    t.after(() => child.kill('SIGKILL'))
    let said = ''
    child.stdout.on('data', (text) => {
      said += text
    })
    child.stderr.on('data', (text) => {
      said += text
    })
    assert.deepEqual(await once(child, 'close'), [0, null], said)
    assert.match(said, /^no worker can be started: the worker died: spawn .* EMFILE\nreturned\n$/)
  })
})

describe('a module', () => {
  test('that ends its process when it is loaded costs the run after three tries', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    const run = await engine.run(aTask('', {}, { code: codeOf('exits-at-top.ts') }), never)
    assert.ok(run.kind === 'died', textOf(run))
    assert.deepEqual([run.death.code, told.pids.length], [9, 3])
    const loaded = await engine.load(codeOf('exits-at-top.ts'))
    assert.equal(loaded.thrown?.message, 'the worker exited with code 9')
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
  })

  test('that never ends to load has a limit of its own, and so has the look at it', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1, limits: { loadMs: 2_000, graceMs: 1 } })
    const task = aTask('', {}, { code: codeOf('spins-at-top.ts'), timeoutMs: 1 })
    assert.equal(textOf(await engine.run(task, never)), 'its module was not loaded within 2s')
    const { thrown } = await engine.load(codeOf('spins-at-top.ts'))
    assert.equal(thrown?.message, 'its module was not loaded within 2s')
    for (const pid of told.pids) await untilGone(pid)
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
  })

  test('that could not be loaded is loaded anew by another process', async (t) => {
    const { engine, told } = processEngine(t, { workersMax: 1 })
    const missing = aTask('returns', {}, { code: codeOf('missing.ts') })
    for (const _ of [1, 2]) assert.match(textOf(await engine.run(missing, never)), /Cannot find module/)
    assert.equal(told.pids.length, 2)
  })

  test('that could not be loaded three times in a row spends no attempt of those that wait', async (t) => {
    const { engine } = processEngine(t, { workersMax: 1 })
    const missing = aTask('returns', {}, { code: codeOf('missing.ts') })
    const runs = await Promise.all([1, 2, 3, 4].map(() => engine.run(missing, never)))
    assert.deepEqual(
      runs.map((run) => run.kind === 'threw' && run.thrown.verdict),
      ['retryable', 'retryable', 'retryable', 'ours'],
    )
    assert.match(runs.map(textOf)[3] ?? '', /^no worker can be started: .*Cannot find module/)
  })

  test('that is still being loaded when its run is aborted does not begin', async (t) => {
    const reports = await openReports(t)
    const { engine, told } = processEngine(t, { workersMax: 1 })
    const stopping = new AbortController()
    const code = codeOf('loads-slowly.ts')
    const running = engine.run(aTask('', { to: reports.to }, { code }), stopping.signal)
    await told.until('worker.output')
    stopping.abort()
    assert.deepEqual(await running, { kind: 'interrupted' })
    assert.deepEqual(await engine.run(aTask('returns'), never), returned)
    assert.deepEqual([reports.count(), told.pids.length], [0, 1])
  })
})
