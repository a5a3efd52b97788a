import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { describe, test } from 'node:test'
import { checkClock } from '../../src/cli/doctor-checks.ts'
import { posthorn } from './command.ts'
import { folderFor, serverFor } from './server.ts'

type Found = Readonly<{ check: string; status: string; found: string; advice: string | null }>

async function examine(
  cwd: string,
  env: Record<string, string> = {},
): Promise<{ code: number | null; found: Found[] }> {
  const { code, stdout } = await posthorn(['doctor', '-o', 'json'], { cwd, env: { POSTHORN_PORT: '0', ...env } })
  return { code, found: JSON.parse(stdout) }
}

const of = (found: readonly Found[], check: string) => found.find((each) => each.check === check)

describe('posthorn doctor', () => {
  test('finds nothing wrong with a server that runs, and changes nothing', async (t) => {
    const cwd = folderFor(t)
    const server = await serverFor(t, cwd)
    const before = readdirSync(path.join(cwd, 'data'))
    const { code, found } = await examine(cwd, { POSTHORN_URL: server.url })
    assert.deepEqual(
      found.filter(({ status, check }) => status === 'fail' || (status === 'warn' && !check.startsWith('disk'))),
      [],
    )
    assert.equal(code, 0)
    for (const check of ['versions', 'configuration', 'clock', 'server', 'readiness', 'API key', 'database']) {
      assert.equal(of(found, check)?.status, 'ok', check)
    }
    for (const check of ['disk', 'disk sync', 'write-ahead log', 'file rights', 'encryption key', 'database folder']) {
      assert.ok(of(found, check), check)
    }
    assert.match(of(found, 'clock')?.found ?? '', /the server agrees/)
    assert.deepEqual(readdirSync(path.join(cwd, 'data')), before)
  })

  test('tells which private addresses endpoints may use, and why', async (t) => {
    const cwd = folderFor(t)
    const nowhere = { POSTHORN_URL: 'http://127.0.0.1:9' }
    const ranges = async (env: Record<string, string>) =>
      of((await examine(cwd, { ...nowhere, ...env })).found, 'private ranges')?.found
    assert.equal(await ranges({}), 'endpoints may use 127.0.0.0/8, ::1 (the default without an API key)')
    const closed = 'endpoints may use no private addresses (the default with an API key)'
    assert.equal(await ranges({ POSTHORN_API_KEY: 'k'.repeat(20) }), closed)
    assert.equal(await ranges({ POSTHORN_ALLOW_PRIVATE: '10.0.0.0/8' }), 'endpoints may use 10.0.0.0/8 (by env)')
  })

  test('a server that does not run is a warning, and its port is looked at', async (t) => {
    const { code, found } = await examine(folderFor(t), { POSTHORN_URL: 'http://127.0.0.1:9' })
    assert.equal(code, 0)
    assert.equal(of(found, 'server')?.status, 'warn')
    assert.match(of(found, 'server')?.advice ?? '', /posthorn start/)
    assert.equal(of(found, 'port')?.status, 'ok')
  })

  test('another program on the port, or at the address, is a failure', async (t) => {
    const other = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1')
    t.after(() => other.close())
    await new Promise((resolve) => other.once('listening', resolve))
    const { port } = other.address() as AddressInfo
    const { code, found } = await examine(folderFor(t), {
      POSTHORN_PORT: String(port),
      POSTHORN_URL: `http://127.0.0.1:${port}`,
    })
    assert.equal(code, 1)
    assert.match(of(found, 'port')?.found ?? '', /EADDRINUSE/)
    assert.match(of(found, 'server')?.found ?? '', /no Posthorn/)
  })

  test('a lost key, a readable database and a wrong setting are found, with what to do', async (t) => {
    const cwd = folderFor(t)
    await (await serverFor(t, cwd)).running.stop()
    const file = path.join(cwd, 'data/posthorn.db')
    chmodSync(file, 0o644)
    rmSync(`${file}.key`)
    const { code, found } = await examine(cwd, { POSTHORN_URL: 'http://127.0.0.1:9' })
    assert.equal(code, 1)
    assert.equal(of(found, 'encryption key')?.status, 'fail')
    assert.equal(of(found, 'database')?.status, 'fail')
    assert.match(of(found, 'database')?.advice ?? '', /is whole: bring the key/)
    assert.equal(of(found, 'file rights')?.advice, `chmod 600 ${file}`)
    const wrong = await examine(cwd, { POSTHORN_CONCURRENCY: 'many' })
    assert.equal(wrong.code, 1)
    assert.match(of(wrong.found, 'configuration')?.advice ?? '', /POSTHORN_CONCURRENCY must be a whole number/)
  })

  test('a database with the key of another is found', async (t) => {
    const cwd = folderFor(t)
    await (await serverFor(t, cwd)).running.stop()
    writeFileSync(path.join(cwd, 'data/posthorn.db.key'), `${Buffer.alloc(32, 7).toString('base64')}\n`)
    const { found } = await examine(cwd, { POSTHORN_URL: 'http://127.0.0.1:9' })
    assert.match(of(found, 'database')?.found ?? '', /key does not fit/)
  })

  test('a folder that cannot be written is found', {
    skip: process.getuid?.() === 0 && 'root may write anywhere',
  }, async (t) => {
    const cwd = folderFor(t)
    mkdirSync(path.join(cwd, 'data'))
    chmodSync(path.join(cwd, 'data'), 0o500)
    const { code, found } = await examine(cwd, { POSTHORN_URL: 'http://127.0.0.1:9' })
    assert.equal(code, 1)
    assert.equal(of(found, 'database folder')?.status, 'fail')
  })

  test('for a person it prints a line for each check, and what to do below', async (t) => {
    const env = { POSTHORN_PORT: '0', POSTHORN_URL: 'http://127.0.0.1:9' }
    const { code, stdout, stderr } = await posthorn(['doctor'], { cwd: folderFor(t), env })
    assert.equal(code, 0)
    assert.match(stdout, /^ok {4}configuration/m)
    assert.match(stdout, /^warn {2}server .*\n {23}→ start it with/m)
    assert.match(stderr, /warning/)
  })
})

test('a clock in 1970, or far from the server, is a failure', () => {
  const now = Date.UTC(2026, 5, 1)
  assert.equal(checkClock(0, null).status, 'fail')
  assert.equal(checkClock(Date.UTC(2190, 0, 1), null).status, 'fail')
  assert.equal(checkClock(now, null).status, 'ok')
  assert.equal(checkClock(now, now - 1_500).status, 'ok')
  assert.equal(checkClock(now, now + 60_000).status, 'warn')
  assert.equal(checkClock(now, now - 301_000).status, 'fail')
})
