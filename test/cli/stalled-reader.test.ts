import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, type TestContext, test } from 'node:test'
import { freePort } from '../support/server-process.ts'
import { cleanEnv, main } from './command.ts'
import { folderFor, serverFor, sinkFor } from './server.ts'

/** Starts a command whose output goes to a terminal or a pipe that is open and that nobody reads. */
const holder = `
import os, pty, subprocess, sys
kind, *command = sys.argv[1:]
unread, out = pty.openpty() if kind == 'terminal' else os.pipe()
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
os.close(out)
print(child.pid, flush=True)
print(child.wait(), flush=True)`
const noPython =
  spawnSync('python3', ['-c', 'import pty']).status === 0 ? false : 'there is no Python with a pty module'

type Unread = Readonly<{ pid: number; exitCode: Promise<number> }>
type Where = 'terminal' | 'pipe'

async function startUnread(
  t: TestContext,
  where: Where,
  args: readonly string[],
  env: Record<string, string>,
): Promise<Unread> {
  const command = ['-c', holder, where, process.execPath, main, ...args]
  const child: ChildProcess = spawn('python3', command, { env: cleanEnv(env), stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  const pid = Number((await lines.next()).value)
  let isOver = false
  const exitCode = lines.next().then(({ value }) => {
    isOver = true
    return Number(value)
  })
  t.after(async () => {
    if (!isOver) process.kill(pid, 'SIGKILL')
    await exitCode
  })
  return { pid, exitCode }
}

const events = 600

async function sendMany(url: string): Promise<void> {
  const batch = Array.from({ length: events }, (_, n) => ({ type: 'order.created', data: { n } }))
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/v1/events/batch`, { method: 'POST', headers, body: JSON.stringify(batch) })
  assert.equal(response.status, 202, await response.text())
}

async function arrived(sink: Awaited<ReturnType<typeof sinkFor>>): Promise<void> {
  while (sink.received.length < events) await sink.next()
}

/** It says so on its output, which nobody reads. */
async function untilReady(url: string): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    const response = await fetch(`${url}/readyz`).catch(() => null)
    if (response?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.fail('it does not start')
}

describe('a reader of the output that has stopped reading', { skip: noPython, timeout: 120_000 }, () => {
  for (const where of ['terminal', 'pipe'] as const) {
    test(`a ${where}: the server takes in, delivers, answers, and ends with 0`, async (t) => {
      const port = await freePort()
      const url = `http://127.0.0.1:${port}`
      const env = { POSTHORN_LOG_LEVEL: 'trace', POSTHORN_ALLOW_PRIVATE: '127.0.0.1/32' }
      const database = `sqlite:${folderFor(t)}/posthorn.db`
      const server = await startUnread(t, where, ['start', '--port', String(port), '--database', database], env)
      await untilReady(url)
      const sink = await sinkFor(t)
      const headers = { 'content-type': 'application/json' }
      const endpoint = JSON.stringify({ kind: 'http', url: sink.url, types: ['*'] })
      const made = await fetch(`${url}/v1/endpoints`, { method: 'POST', headers, body: endpoint })
      assert.equal(made.status, 201, await made.text())
      await sendMany(url)
      await arrived(sink)
      assert.equal((await fetch(`${url}/healthz`)).status, 200)
      process.kill(server.pid, 'SIGTERM')
      assert.equal(await server.exitCode, 0)
    })
  }

  test('a terminal: listen forwards on, and ends with 0', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const env = { POSTHORN_URL: server.url }
    const listen = await startUnread(t, 'terminal', ['listen', '--forward', sink.url], env)
    while ((await server.json<unknown[]>(['endpoints', 'list'])).length === 0);
    await sendMany(server.url)
    await arrived(sink)
    process.kill(listen.pid, 'SIGTERM')
    assert.equal(await listen.exitCode, 0)
  })

  test('a pipe whose reader has left takes the log with it, and nothing else', async (t) => {
    const log = new URL('../../src/log.ts', import.meta.url).href
    const code = `
      import { once } from 'node:events'
      import { setImmediate } from 'node:timers/promises'
      import { openLog } from '${log}'
      const log = openLog({ level: 'info', format: 'json' })
      await once(process.stdin, 'data')
      for (let n = 0; n < 50; n++) {
        log.info({ n, text: 'x'.repeat(10_000) }, 'line')
        await setImmediate()
      }
      process.exitCode = 7
      process.stdin.destroy()`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { env: cleanEnv() })
    t.after(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    const left = once(child.stderr, 'close')
    child.stderr.destroy()
    await left
    child.stdin.write('go on')
    assert.deepEqual(await exited, [7, null])
  })

  test('a pipe: lines that do not fit are dropped, and their number is said when it is read again', async (t) => {
    const log = new URL('../../src/log.ts', import.meta.url).href
    const lines = 20_000
    const code = `
      import { openLog } from '${log}'
      const log = openLog({ level: 'info', format: 'json' })
      for (let n = 0; n < ${lines}; n++) log.info({ n, text: 'x'.repeat(200) }, 'line')
      process.stdout.write('written\\n')
      process.stdin.resume()`
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { env: cleanEnv() })
    t.after(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    let read = 0
    for await (const line of createInterface({ input: child.stderr })) {
      const { msg, lines: dropped } = JSON.parse(line)
      if (msg === 'line') read += 1
      if (msg !== 'log.lines_dropped') continue
      assert.ok(dropped > 0)
      assert.equal(read + dropped, lines)
      child.stdin.end()
    }
    assert.ok(read < lines)
  })
})
