import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { posthorn, start } from './command.ts'
import { folderFor, serverFor, sinkFor } from './server.ts'

describe('posthorn start', () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    test(`ends with 0 on ${signal}`, async (t) => {
      const server = await serverFor(t, folderFor(t))
      assert.equal((await fetch(`${server.url}/healthz`)).status, 200)
      const { code, stdout } = await server.running.stop(signal)
      assert.deepEqual([code, stdout], [0, ''])
    })
  }

  test('leaves at once on a second signal', async (t) => {
    const server = await serverFor(t, folderFor(t), ['--grace', '10m'])
    const sink = await sinkFor(t, 'hang')
    await server.json(['endpoints', 'create', sink.url, '--timeout', '5m'])
    const arrived = sink.next()
    await server.json(['send', 'a.b'])
    await arrived
    server.running.child.kill('SIGTERM')
    await server.running.line(/SIGTERM: stopping/)
    // One that comes with the first is the same one, passed on by who started us.
    const again = setInterval(() => server.running.child.kill('SIGTERM'), 100)
    t.after(() => clearInterval(again))
    assert.equal((await server.running.ended).code, 143)
  })

  test('takes a signal to its whole process group, which comes twice, for one', async (t) => {
    const server = await serverFor(t, folderFor(t))
    server.running.child.kill('SIGTERM')
    server.running.child.kill('SIGTERM')
    const { code, stderr } = await server.running.ended
    assert.equal(code, 0)
    assert.doesNotMatch(stderr, /again/)
  })

  test('says that private addresses are refused where all of them are, with a key', async (t) => {
    const env = { POSTHORN_API_KEY: 'k'.repeat(20) }
    const running = start(['start', '--port', '0'], { cwd: folderFor(t), env })
    t.after(() => running.stop('SIGKILL'))
    await running.line(/private addresses and on this machine are refused; --allow-private/)
    await running.stop()
    const open = start(['start', '--port', '0'], { cwd: folderFor(t) })
    t.after(() => open.stop('SIGKILL'))
    await open.line(/^Posthorn listens on/)
    assert.doesNotMatch((await open.stop()).stderr, /are refused/)
  })

  test('is not run without the word start: there is help instead', async (t) => {
    const cwd = folderFor(t)
    const bare = await posthorn([], { cwd })
    assert.equal(bare.code, 0)
    assert.match(bare.stdout, /^Usage: posthorn .*\n[\s\S]*posthorn start/)
    const flags = await posthorn(['--port', '0'], { cwd })
    assert.deepEqual([flags.code, flags.stdout], [2, ''])
    assert.match(flags.stderr, /^posthorn: Name a command before --port, such as posthorn start;/)
    assert.deepEqual(readdirSync(cwd), [], 'nothing was made')
  })

  test('says that its port is taken, with exit code 1', async (t) => {
    const { port } = new URL((await serverFor(t, folderFor(t))).url)
    const { code, stderr } = await posthorn(['start', '--port', port], { cwd: folderFor(t) })
    assert.equal(code, 1)
    assert.match(stderr, new RegExp(`^posthorn: .*${port}.* in use`, 'm'))
    assert.doesNotMatch(stderr, /\n {4}at /)
  })

  test('says that its file has an owner, with exit code 1', async (t) => {
    const cwd = folderFor(t)
    await serverFor(t, cwd)
    const { code, stderr } = await posthorn(['start', '--port', '0'], { cwd })
    assert.equal(code, 1)
    assert.match(stderr, /^posthorn: /m)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })

  test('says that its file cannot be one, with exit code 1', async (t) => {
    const cwd = folderFor(t)
    mkdirSync(path.join(cwd, 'folder.db'))
    const { code, stderr } = await posthorn(['start', '--port', '0', '--database', 'sqlite:folder.db'], { cwd })
    assert.equal(code, 1)
    assert.match(stderr, /^posthorn: .*folder\.db/m)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })
})

describe('posthorn migrate', () => {
  test('tells what it would do, does it, and then has nothing to do', async (t) => {
    const cwd = folderFor(t)
    const flags = ['--database', 'sqlite:./posthorn.db']
    const dry = await posthorn(['migrate', ...flags, '--dry-run', '-o', 'json'], { cwd })
    assert.equal(dry.code, 0, dry.stderr)
    const plan = JSON.parse(dry.stdout)
    assert.equal(plan.from, 0)
    assert.ok(plan.to >= 1 && plan.applied.length >= 1)
    assert.equal(existsSync(path.join(cwd, 'posthorn.db')), false, 'a dry run leaves no file')
    const done = await posthorn(['migrate', ...flags], { cwd })
    assert.equal(done.code, 0, done.stderr)
    assert.equal(done.stdout, `${plan.applied.join('\n')}\n`)
    const again = await posthorn(['migrate', ...flags], { cwd })
    assert.deepEqual([again.code, again.stdout], [0, ''])
    assert.match(again.stderr, /up to date/)
  })
})

test('a reader that leaves ends the command without a stack', async (t) => {
  const server = await serverFor(t, folderFor(t))
  const lines = Array.from({ length: 3000 }, (_, n) => `{"n":${n}}`).join('\n')
  await server.cli(['send', 'a.b', '--batch'], { input: lines })
  const list = start(['events', 'list', '--all', '--limit', '100', '-o', 'jsonl'], {
    env: { POSTHORN_URL: server.url },
  })
  await once(list.child.stdout, 'data')
  list.child.stdout.destroy()
  const { code, stderr } = await list.ended
  assert.deepEqual([code, stderr], [141, ''])
})
