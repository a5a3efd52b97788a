import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { folderFor, serverFor, sinkFor } from './server.ts'

describe('posthorn upkeep', () => {
  test('runs now and shows what it did, last and next', async (t) => {
    const server = await serverFor(t, folderFor(t), [], { POSTHORN_UPKEEP_AFTER: '0s' })
    const ran = await server.json<{ running: boolean; last: Record<string, unknown>; nextAt: string }>([
      'upkeep',
      '--now',
    ])
    assert.equal(ran.running, false)
    assert.equal(ran.last.skipped, null)
    const shown = await server.json<typeof ran>(['upkeep'])
    assert.equal(typeof shown.last.startedAt, 'string')
    const { stdout } = await server.cli(['upkeep'])
    assert.match(stdout, /^deliveries +0$/m)
    assert.match(stdout, /^next +\d{4}-/m)
  })

  test('says why it deleted nothing right after a start', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { code, stdout, stderr } = await server.cli(['upkeep', '--now'])
    assert.equal(code, 0)
    assert.match(stdout, /^skipped +just_started$/m)
    assert.match(stderr, /POSTHORN_UPKEEP_AFTER/)
  })
})

describe('posthorn dispatch', () => {
  test('a start that is paused warns when there was no database to go on with', async (t) => {
    const cwd = folderFor(t)
    const first = await serverFor(t, cwd, ['--paused'])
    const warned = (await first.running.stop()).stderr
    assert.match(warned, /"database\.new"/)
    assert.match(warned, /name its file with --database/)
    const second = await serverFor(t, cwd, ['--paused'])
    assert.doesNotMatch((await second.running.stop()).stderr, /database\.new/)
    const other = await serverFor(t, folderFor(t))
    assert.doesNotMatch((await other.running.stop()).stderr, /database\.new/)
  })

  test('a server that starts paused delivers when it is resumed, and what came before as well', async (t) => {
    const server = await serverFor(t, folderFor(t), [], { POSTHORN_PAUSED: 'yes' })
    assert.match(await server.running.line(/all delivery is paused/), /posthorn dispatch resume/)
    const sink = await sinkFor(t)
    await server.json(['endpoints', 'create', sink.url])
    await server.json(['send', 'a.b'])
    const ready = await fetch(`${server.url}/readyz`)
    assert.deepEqual([ready.status, ((await ready.json()) as { paused: boolean }).paused], [200, true])
    assert.equal(sink.received.length, 0)
    const arrived = sink.next()
    assert.equal((await server.cli(['dispatch', 'resume'])).code, 0)
    await arrived
    assert.equal((await server.cli(['dispatch', 'pause'])).code, 0)
    assert.equal(((await (await fetch(`${server.url}/readyz`)).json()) as { paused: boolean }).paused, true)
  })

  test('a pause survives a restart, which says so, and ends when somebody resumes', async (t) => {
    const cwd = folderFor(t)
    const first = await serverFor(t, cwd)
    assert.equal((await first.cli(['dispatch', 'pause'])).code, 0)
    await first.running.stop()
    const second = await serverFor(t, cwd)
    assert.match(await second.running.line(/all delivery is paused/), /posthorn dispatch resume/)
    assert.equal((await second.cli(['dispatch', 'resume'])).code, 0)
    assert.equal(((await (await fetch(`${second.url}/readyz`)).json()) as { paused: boolean }).paused, false)
    await second.running.stop()
    const third = await serverFor(t, cwd)
    assert.doesNotMatch((await third.running.stop()).stderr, /all delivery is paused/)
  })
})
