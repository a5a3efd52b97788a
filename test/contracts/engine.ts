import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, type TestContext, test } from 'node:test'
import type { Engine, EventFacts, Run, TaskRules } from '../../src/engines/engine.ts'
import { t0 } from '../support/builders.ts'
import { type Answer, openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'

/** It runs three tasks at a time at least, and is stopped when the test ends. */
export type OpenEngine = (t: TestContext) => Engine

const module = new URL('../support/exported-handlers.ts', import.meta.url).href
const never = new AbortController().signal

/** A task whose code any process can import, and that reports to `to`. */
function aTask(name: string, to: string, given: Partial<TaskRules> = {}): TaskRules & Readonly<{ event: EventFacts }> {
  return {
    name: 'orders',
    code: { module, export: name },
    event: {
      id: 'evt_1',
      type: 'order.created',
      key: 'k',
      tenant: 'acme',
      contentType: 'application/json',
      headers: { to },
      receivedAt: t0,
    },
    bytes: Buffer.from('{"n":1}'),
    attempt: 3,
    ref: 'dlv_1',
    timeoutMs: 30_000,
    ...given,
  }
}

/** Where handlers report to: the test knows from it that one has begun, and lets it end. */
async function openReports(t: TestContext, script: readonly Answer[] = [{}]): Promise<ScriptedEndpoint> {
  const reports = await openScriptedEndpoint(script)
  t.after(() => reports.close())
  return reports
}

function thrownIn(run: Run) {
  assert.ok(run.kind === 'threw', run.kind)
  return run.thrown
}

/** The promises of the engine port: every adapter passes this suite unchanged. */
export function engineContract(name: string, open: OpenEngine): void {
  describe(`${name}: a run`, () => runContract(open))
  describe(`${name}: a run past its deadline`, () => deadlineContract(open))
  describe(`${name}: an aborted run`, () => abortContract(open))

  test(`${name}: loads code ahead, and says what is wrong with it`, async (t) => {
    const engine = open(t)
    const good = await engine.load({ module, export: 'returns' })
    assert.equal(good.thrown, null)
    assert.ok(good.files.includes(module))
    const wrong = await engine.load({ module, export: 'missing' })
    assert.match(wrong.thrown?.message ?? '', /no function as its export "missing"/)
    const missing = await engine.load({ module: `${module}.missing`, export: 'returns' })
    assert.match(missing.thrown?.message ?? '', /Cannot find module/)
    assert.deepEqual(missing.files, [`${module}.missing`])
    assert.deepEqual(await engine.run(aTask('returns', ''), never), { kind: 'returned' })
  })

  test(`${name}: can be stopped twice`, async (t) => {
    const engine = open(t)
    assert.equal((await engine.run(aTask('returns', ''), never)).kind, 'returned')
    await Promise.all([engine.stop(), engine.stop()])
    await engine.stop()
  })
}

/** What an engine with processes promises besides. */
export function processesContract(name: string, open: OpenEngine): void {
  describe(`${name}: a run whose process dies`, () => {
    test('has died of it, and no other run has', async (t) => {
      const reports = await openReports(t, ['hang'])
      const engine = open(t)
      const { promise: answer, resolve } = Promise.withResolvers<Answer>()
      reports.answer(() => answer)
      const neighbour = engine.run(aTask('calls', reports.url), never)
      await reports.next()
      const run = await engine.run(aTask('exits', ''), never)
      const death = { signal: null, code: 3, lastWords: null, uncaught: null }
      assert.deepEqual(run, { kind: 'died', death })
      assert.deepEqual(await engine.run(aTask('returns', ''), never), { kind: 'returned' })
      resolve({})
      assert.deepEqual(await neighbour, { kind: 'returned' })
    })
  })
}

function runContract(open: OpenEngine): void {
  test('has returned when the handler has, whatever that returns', async (t) => {
    assert.deepEqual(await open(t).run(aTask('returns', ''), never), { kind: 'returned' })
  })

  test('shows the handler the event, the number of the try and its delivery', async (t) => {
    const reports = await openReports(t)
    const task = aTask('calls', reports.url)
    assert.deepEqual(await open(t).run(task, never), { kind: 'returned' })
    const { body } = await reports.next()
    assert.deepEqual(JSON.parse(body.toString()), {
      ...task.event,
      receivedAt: new Date(t0).toISOString(),
      data: { n: 1 },
      text: '{"n":1}',
      attempt: 3,
      deliveryId: 'dlv_1',
    })
  })

  test("shows a consumer's handler the record, the number of the attempt and the consumer", async (t) => {
    const reports = await openReports(t)
    const { event: _, ...rules } = aTask('callsOfRecord', '')
    const record = {
      topic: 'orders',
      partition: 2,
      offset: 17,
      key: Buffer.from('k'),
      isTombstone: false,
      headers: [['to', Buffer.from(reports.url)] as const, ['twice', Buffer.from([0, 255])] as const],
      timestamp: t0,
    }
    assert.deepEqual(await open(t).run({ ...rules, record }, never), { kind: 'returned' })
    assert.deepEqual(JSON.parse((await reports.next()).body.toString()), {
      topic: 'orders',
      partition: 2,
      offset: 17,
      key: 'k',
      value: '{"n":1}',
      json: { n: 1 },
      headers: [
        ['to', Buffer.from(reports.url).toString('base64')],
        ['twice', Buffer.from([0, 255]).toString('base64')],
      ],
      timestamp: new Date(t0).toISOString(),
      attempt: 3,
      consumer: 'orders',
    })
    const tombstone = { ...record, isTombstone: true }
    const { message, verdict } = thrownIn(await open(t).run({ ...rules, record: tombstone }, never))
    assert.deepEqual([verdict, message], ['permanent', 'orders/2@17 is a tombstone: it has no value to read.'])
  })

  test('is one try: what fails is not run again', async (t) => {
    const reports = await openReports(t, [{ status: 500, body: 'no' }])
    const engine = open(t)
    assert.equal(thrownIn(await engine.run(aTask('calls', reports.url), never)).message, 'no')
    await engine.run(aTask('returns', ''), never)
    assert.equal(reports.received.length, 1)
  })

  test('carries what the handler said of its failure', async (t) => {
    const thrown = thrownIn(await open(t).run(aTask('isUnavailable', ''), never))
    assert.match(thrown.stack ?? '', /exported-handlers/)
    const { stack: _, ...said } = thrown
    assert.deepEqual(said, {
      verdict: 'unavailable',
      message: 'crm is unavailable: closed',
      errorClass: 'HandlerError',
      dependency: 'crm',
      retryAfterMs: 5_000,
    })
  })

  test('never rejects: not for a throw of nothing, a missing export or a missing module', async (t) => {
    const engine = open(t)
    assert.match(thrownIn(await engine.run(aTask('throwsUndefined', ''), never)).message, /threw undefined/)
    assert.match(thrownIn(await engine.run(aTask('missing', ''), never)).message, /no function as its export "missing"/)
    const code = { module: `${module}.missing`, export: 'returns' }
    assert.match(thrownIn(await engine.run(aTask('', '', { code }), never)).message, /Cannot find module/)
  })

  test('gives the handler a copy of the bytes', async (t) => {
    const task = aTask('overwrites', '')
    assert.deepEqual(await open(t).run(task, never), { kind: 'returned' })
    assert.equal(Buffer.from(task.bytes).toString(), '{"n":1}')
  })
}

function deadlineContract(open: OpenEngine): void {
  test('resolves although the handler goes on, and says when that has settled, even by a failure', async (t) => {
    const { promise: answer, resolve } = Promise.withResolvers<Answer>()
    const reports = await openReports(t)
    reports.answer(() => answer)
    const run = await open(t).run(aTask('calls', reports.url, { timeoutMs: 200 }), never)
    assert.ok(run.kind === 'overran', run.kind)
    const first = await Promise.race([run.settled.then(() => 'settled'), new Promise((next) => setImmediate(next))])
    assert.equal(first, undefined, 'the handler still waits for its answer')
    resolve({ status: 500, body: 'far too late' })
    await run.settled
  })

  test('aborts the signal of the handler', async (t) => {
    const reports = await openReports(t)
    const run = await open(t).run(aTask('hears', reports.url, { timeoutMs: 200 }), never)
    assert.equal(run.kind, 'overran')
    await reports.next()
    assert.equal((await reports.next()).body.toString(), 'TimeoutError')
  })
}

function abortContract(open: OpenEngine): void {
  test('resolves as interrupted although the handler goes on, and every run of the signal does', async (t) => {
    const stopping = new AbortController()
    const reports = await openReports(t, ['hang'])
    const engine = open(t)
    const runs = [1, 2, 3].map(() => engine.run(aTask('calls', reports.url), stopping.signal))
    for (const _ of runs) await reports.next()
    stopping.abort()
    assert.deepEqual(
      (await Promise.all(runs)).map(({ kind }) => kind),
      ['interrupted', 'interrupted', 'interrupted'],
    )
  })

  test('aborts the signal of the handler', async (t) => {
    const stopping = new AbortController()
    const reports = await openReports(t)
    const running = open(t).run(aTask('hears', reports.url), stopping.signal)
    await reports.next()
    stopping.abort()
    assert.deepEqual(await running, { kind: 'interrupted' })
    assert.equal((await reports.next()).body.toString(), 'AbortError')
  })

  test('does not begin when its signal was aborted before', async (t) => {
    const reports = await openReports(t)
    const engine = open(t)
    assert.deepEqual(await engine.run(aTask('calls', reports.url), AbortSignal.abort()), { kind: 'interrupted' })
    await engine.run(aTask('calls', reports.url, { ref: 'dlv_2' }), never)
    assert.equal(reports.received.length, 1)
  })

  test('has its outcome already when it ended before the abort', async (t) => {
    const stopping = new AbortController()
    const run = await open(t).run(aTask('returns', ''), stopping.signal)
    stopping.abort()
    assert.deepEqual(run, { kind: 'returned' })
  })
}
