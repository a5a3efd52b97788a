import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { hasScript, onTerminal } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

type Delivery = Readonly<{ id: string; eventId: string; status: string }>

const cleanups: (() => unknown)[] = []
let server: Server

before(async () => {
  const t = { after: (fn: () => unknown) => void cleanups.unshift(fn) }
  const cwd = folderFor(t)
  const module = `export default { 'thrown.*': () => { throw Object.assign(new Error('no \\u001b[2Jstock'), {}) } }`
  writeFileSync(path.join(cwd, 'handlers.ts'), module)
  server = await serverFor(t, cwd, ['--handlers', './handlers.ts'], { MAX_ATTEMPTS: '1' })
})
after(async () => {
  for (const cleanup of cleanups) await cleanup()
})

const ids = async (args: readonly string[]) =>
  (await server.json<Delivery[]>(['deliveries', 'list', ...args])).map(({ id }) => id)

test('deliveries are found by key, several statuses, a class of statuses, a pattern and an end in time', async (t) => {
  const sink = await sinkFor(t, '422,200')
  await server.cli(['endpoints', 'create', sink.url, '--types', 'found.*'])
  for (const key of ['order-42', 'order-4']) await server.cli(['send', 'found.one', '1', '--key', key, '--wait'])
  const [taken, refused] = await ids(['--type', 'found.*'])
  assert.deepEqual(await ids(['--key', 'order-42']), [refused])
  assert.deepEqual(await ids(['--type', 'found.*', '--status', 'failed,delivered']), [taken, refused])
  assert.deepEqual(await ids(['--type', 'found.*', '--status', 'failed', '--status', 'pending']), [refused])
  assert.deepEqual(await ids(['--type', 'found.*', '--status-class', '2xx']), [taken])
  assert.deepEqual(await ids(['--key', 'order-42', '--until', '1h']), [])
  const events = await server.json<{ id: string }[]>(['events', 'list', '--key', 'order-4'])
  assert.equal(events.length, 1)
  const wrong = await server.cli(['deliveries', 'list', '--status', 'failed,gone'])
  assert.deepEqual([wrong.code, /Allowed choices are pending/.test(wrong.stderr)], [2, true])
  const groups = await server.cli(['dlq', 'list', '--group', 'endpoint', '--type', 'found.*'])
  assert.match(groups.stdout, /^COUNT +ENDPOINT +NAME +REASONS/)
  assert.match(groups.stdout, /^1 +ep_\w+ +127\.0\.0\.1:\d+ +permanent_status/m)
})

test('show tells people what was sent and what came back, and lets no hostile byte through', {
  skip: !hasScript && 'needs script(1)',
}, async (t) => {
  const hostile = createServer((_, response) => {
    response.writeHead(422, { 'x-answer': 'because' }).end(`no \u001b]0;owned\u0007\u009b2J${'z'.repeat(300)}`)
  }).listen(0, '127.0.0.1')
  t.after(() => hostile.close())
  await new Promise((resolve) => hostile.once('listening', resolve))
  const url = `http://127.0.0.1:${(hostile.address() as AddressInfo).port}/hook`
  await server.cli(['endpoints', 'create', url, '--types', 'hostile.*'])
  const data = JSON.stringify({ text: `\u202e${'y'.repeat(3_000)}` })
  await server.cli(['send', 'hostile.one', data, '--wait'])
  const [id] = await ids(['--type', 'hostile.*'])
  const { code, stdout } = await onTerminal(['deliveries', 'show', id!], {
    env: { POSTHORN_URL: server.url, NO_COLOR: '1' },
  })
  assert.equal(code, 0, stdout)
  assert.match(stdout, /sent by attempt 1\r?\n {2}http:\/\/127\.0\.0\.1:\d+\/hook\r?\n/)
  assert.match(stdout, /^ {2}> content-type: application\/json\r?$/m)
  assert.match(stdout, /^ {2}> webhook-id: evt_\w+\r?$/m)
  assert.match(stdout, /^ {2}> webhook-signature: •••\r?$/m)
  assert.match(stdout, /^ {2}\| \{"type":"hostile\.one"/m)
  assert.match(stdout, /more characters: --full, or posthorn events body evt_/)
  assert.match(stdout, /attempt 1 .*permanent 422/)
  assert.match(stdout, /^ {2}< x-answer: because\r?$/m)
  assert.match(stdout, /^ {2}\| no \\u001b\]0;owned\\u0007\\u009b2J/m)
  for (const bad of ['\u001b', '\u009b', '\u0007', '\u202e']) assert.ok(!stdout.includes(bad), JSON.stringify(bad))
  for (const line of stdout.split(/\r?\n/).filter((line) => /^ {2}[|<>]/.test(line))) assert.ok(line.length <= 80, line)
  const full = await server.cli(['deliveries', 'show', id!, '--full'])
  assert.ok(full.stdout.includes('y'.repeat(3_000)))
})

test("show tells a handler's stack", async () => {
  await server.cli(['send', 'thrown.one', '1', '--wait'])
  const [id] = await ids(['--type', 'thrown.*'])
  const { stdout, stderr } = await server.cli(['deliveries', 'show', id!])
  assert.match(stdout, /^ {2}handler thrown\.\*$/m)
  assert.match(stdout, /error {2}.*no \\u001b\[2Jstock/)
  assert.match(stdout, /^ +at .*handlers\.ts:1/m)
  assert.match(stderr, /the handler gets the data inside of this body/)
  assert.ok(!stdout.includes('\u001b'))
})

test('what waits is cancelled by flags: first dry, then with --yes, and everything only with --all', async (t) => {
  const sink = await sinkFor(t, '503')
  const flags = ['--types', 'waits.*', '--retry', '{"strategy":"schedule","delays":["1h"],"maxAttempts":9}']
  const { id } = await server.json<{ id: string }>(['endpoints', 'create', sink.url, ...flags])
  await server.cli(['endpoints', 'pause', id])
  for (const key of ['a', 'b', 'c']) await server.cli(['send', 'waits.one', '1', '--key', key])
  const cancel = (...args: string[]) => server.cli(['deliveries', 'cancel', ...args])
  assert.match((await cancel('--yes')).stderr, /Say which ones/)
  assert.equal((await cancel('--all', '--key', 'a', '--yes')).code, 2)
  assert.equal((await cancel('dlv_1', '--key', 'a', '--yes')).code, 2)
  const pipe = await cancel('--endpoint', id)
  assert.deepEqual([pipe.code, /cancel 3 deliveries\?.*--yes/.test(pipe.stderr)], [2, true])
  const dry = await cancel('--type', 'waits.*', '--dry-run')
  assert.match(dry.stderr, /3 deliveries would be cancelled/)
  assert.equal((await ids(['--endpoint', id, '--status', 'pending'])).length, 3)
  const one = await cancel('--key', 'b', '--yes')
  assert.deepEqual([one.code, one.stderr], [0, '1 delivery cancelled\n'])
  const rest = await cancel('--endpoint', id, '--yes')
  assert.deepEqual([rest.code, rest.stderr], [0, '2 deliveries cancelled\n'])
  const none = await cancel('--endpoint', id, '--yes')
  assert.deepEqual([none.code, none.stderr], [0, 'no delivery that waits matches\n'])
  assert.equal((await ids(['--endpoint', id, '--reason', 'cancelled'])).length, 3)
})

test('a retry that changes nothing does not claim that the delivery is due now', async (t) => {
  const sink = await sinkFor(t, '503')
  const retry = ['--retry', '{"strategy":"schedule","delays":["1h"],"maxAttempts":9}']
  const flags = ['--types', 'stuck.*', '--ordering', 'key', '--breaker', '{"threshold":1,"cooldown":"1h"}', ...retry]
  const { id: endpoint } = await server.json<{ id: string }>(['endpoints', 'create', sink.url, ...flags])
  for (const n of ['1', '2']) await server.cli(['send', 'stuck.one', n, '--key', 'a'])
  while ((await server.json<unknown[]>(['breakers', 'list', '--state', 'open'])).length === 0);
  const [behind, head] = await ids(['--type', 'stuck.*'])
  const retried = async (id: string) => (await server.cli(['deliveries', 'retry', id])).stderr
  assert.equal(await retried(behind!), `${behind} still waits: another delivery is ahead of it in its lane\n`)
  await server.cli(['endpoints', 'pause', endpoint])
  const paused = `its endpoint is paused; to resume: posthorn endpoints resume ${endpoint}`
  assert.equal(await retried(head!), `${head} still waits: ${paused}\n`)
  await server.cli(['dispatch', 'pause'])
  assert.match(await retried(head!), /still waits: all delivery is paused; to resume: posthorn dispatch resume/)
  await server.cli(['dispatch', 'resume'])
  await server.cli(['endpoints', 'resume', endpoint])
})

test('what a delivery waits for is told with when it ends and a command that can be copied', async (t) => {
  const sink = await sinkFor(t, '503')
  const retry = '{"strategy":"schedule","delays":["1h"],"maxAttempts":9}'
  const create = ['endpoints', 'create', sink.url, '--retry', retry]
  const openBreaker = '{"threshold":1,"cooldown":"2h"}'
  await server.cli([...create, '--types', 'later.one', '--breaker', 'off'])
  const { id: down } = await server.json<{ id: string }>([...create, '--types', 'later.two', '--breaker', openBreaker])
  for (const type of ['later.one', 'later.two']) await server.cli(['send', type, '1'])
  const shown = async (type: string) => {
    const [id] = await ids(['--type', type])
    for (;;) {
      const { stdout } = await server.cli(['deliveries', 'show', id!])
      const line = /^waitsFor +(.*)$/m.exec(stdout)?.[1]
      if (line !== undefined) return { id, line }
    }
  }
  const backoff = await shown('later.one')
  const instant = String.raw`20\d\d-[-\dT:.]+Z`
  const tryNow = `; to try now: posthorn deliveries retry ${backoff.id}`
  assert.match(backoff.line, new RegExp(String.raw`^next try at ${instant} \(retry policy\)${tryNow}$`))
  const probe = await shown('later.two')
  const reset = `; to try now: posthorn breakers reset ${down}`
  assert.match(probe.line, new RegExp(`^its endpoint is down, next probe at ${instant}${reset}$`))
})
