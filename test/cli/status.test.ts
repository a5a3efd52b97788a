import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { hasScript, onTerminal, start, startOnTerminal } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

const once = '{"strategy":"schedule","delays":["1s"],"maxAttempts":1}'
type Created = { id: string }
type Status = {
  state: string
  hints: string[]
  attention: { endpointId: string; waiting: number; why: string }[]
  deadLetters: { kept: number; last24h: number }
}

async function statusWhen(server: Server, fits: (status: Status) => boolean): Promise<Status> {
  for (;;) {
    const status = await server.json<Status>(['status', '--limit', '500'])
    if (fits(status)) return status
  }
}

/** One endpoint that is down with events behind its breaker, and one that refuses everything. */
async function inTrouble(t: Parameters<typeof folderFor>[0], server: Server) {
  const [down, refusing] = [await sinkFor(t, '503'), await sinkFor(t, '400')]
  const breaker = '{"threshold":2,"cooldown":"1h"}'
  const create = (url: string, ...flags: readonly string[]) =>
    server.json<Created>(['endpoints', 'create', url, ...flags])
  const [{ id: downId }, { id: refusingId }] = [
    await create(down.url, '--types', 'a', '--breaker', breaker, '--concurrency', '1', '--description', 'Shop Berlin'),
    await create(refusing.url, '--types', 'b', '--retry', once, '--breaker', 'off'),
  ]
  const input = ['a', 'a', 'a', 'a', 'b', 'b'].map((type) => JSON.stringify({ type, data: 1 })).join('\n')
  await server.cli(['send', '--batch'], { input })
  await statusWhen(server, ({ attention, deadLetters }) => {
    return deadLetters.kept === 2 && attention.some(({ why, waiting }) => why === 'breaker_open' && waiting === 4)
  })
  return { down, refusing, downId, refusingId }
}

describe('posthorn status', () => {
  test('names who is in trouble, and every command that it says to type next works', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { down, downId, refusingId } = await inTrouble(t, server)
    const { code, stdout, stderr } = await server.cli(['status'])
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^TROUBLE {2}Posthorn at http/)
    assert.match(stdout, /^waiting {7}4, oldest \d+s/m)
    assert.match(stdout, /^dead letters {2}2 kept; 2 in the last 24 h: permanent_status 2$/m)
    assert.match(stdout, /^2 endpoints of 2 need attention$/m)
    assert.match(
      stdout,
      new RegExp(
        `^${downId} {2}Shop Berlin\n {2}${down.url}/?\n {2}breaker open, probe in (?:59m|1h); HTTP 503\n`,
        'm',
      ),
    )
    assert.match(stdout, /^ {2}4 waiting, oldest \d+s, 0 dead in 24 h, 0 % of 2 attempts delivered$/m)
    assert.ok(stdout.includes(refusingId))
    const { hints } = await server.json<Status>(['status'])
    assert.ok(hints.length >= 3)
    assert.ok(stdout.trimEnd().endsWith(hints.slice(0, 3).join('\n')))
    for (const hint of hints) {
      const [program, ...args] = hint.split(' ')
      const typed = await server.cli(args)
      assert.deepEqual([program, typed.code], ['posthorn', 0], `${hint}\n${typed.stderr}`)
    }
  })

  test('is right after a kill -9', async (t) => {
    const cwd = folderFor(t)
    const server = await serverFor(t, cwd)
    const { downId, refusingId } = await inTrouble(t, server)
    // On disk after it: whatever was written before.
    await server.cli(['send', 'a', '1'])
    await server.running.stop('SIGKILL')
    const again = await serverFor(t, cwd)
    const status = await statusWhen(again, ({ attention }) => attention.length === 2)
    assert.deepEqual([status.state, status.deadLetters.last24h], ['trouble', 2])
    const [breaker] = await again.json<Record<string, unknown>[]>(['breakers', 'list', '--state', 'open'])
    assert.deepEqual([breaker?.endpointId, breaker?.failures, breaker?.lastError], [downId, 2, 'HTTP 503'])
    assert.ok(status.attention.some(({ endpointId, why }) => endpointId === refusingId && why === 'dead_letters'))
  })

  test('in a pipe --watch prints a line for each look, and goes on when the server is away', async (t) => {
    const cwd = folderFor(t)
    const server = await serverFor(t, cwd)
    const watching = start(['status', '--watch'], { env: { POSTHORN_URL: server.url } })
    t.after(() => watching.stop('SIGKILL'))
    await watching.line(/^\d{4}-\S+ {2}ok {2}accepted 0\/s .* waiting 0 .* attention 0$/)
    await server.running.stop('SIGKILL')
    await watching.line(/^\d{4}-\S+ {2}no answer: no Posthorn answers at/)
    const { code, stdout } = await watching.stop('SIGINT')
    assert.equal(code, 0)
    assert.ok(!stdout.includes('\u001b'), 'no control sequence in a pipe')
  })

  test('a server that is not there is a failure', async () => {
    for (const flags of [[], ['--watch']]) {
      const { code, stderr } = await start(['status', ...flags], { env: { POSTHORN_URL: 'http://127.0.0.1:9' } }).ended
      assert.equal(code, 1)
      assert.match(stderr, /no Posthorn answers at/)
    }
  })

  test('fits a terminal of 80 columns and 24 rows with no id or command cut, and redraws in place', {
    skip: !hasScript && 'script(1) is not here',
  }, async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { downId } = await inTrouble(t, server)
    const description = 'A name that is as long as somebody in a hurry may make it, and longer than a line'
    await server.json(['endpoints', 'update', downId, '--description', description])
    const { stdout } = await onTerminal(['status'], { env: { POSTHORN_URL: server.url } })
    const lines = stripVTControlCharacters(stdout).trimEnd().split('\n')
    for (const line of lines) assert.ok(line.length <= 80, line)
    assert.ok(lines.length <= 24, `${lines.length} lines`)
    const { hints } = await server.json<Status>(['status'])
    for (const whole of [downId, ...hints.slice(0, 3)]) assert.ok(stdout.includes(whole), whole)
    const watching = startOnTerminal(['status', '--watch'], { env: { POSTHORN_URL: server.url } })
    t.after(() => watching.stop('SIGKILL'))
    await watching.line(/TROUBLE/)
    watching.child.stdin.write('\u0003')
    const { stdout: drawn } = await watching.ended
    assert.ok(drawn.includes('\u001b[H'), 'from the top')
  })
})

describe('posthorn doctor', () => {
  test('does not say that all is well while deliveries are in trouble, with a server or without', async (t) => {
    const cwd = folderFor(t)
    const server = await serverFor(t, cwd)
    const look = (url: string) => server.cli(['doctor'], { cwd, env: { POSTHORN_URL: url, POSTHORN_PORT: '0' } })
    assert.match((await look(server.url)).stdout, /^ok {4}delivery {9}ok; no endpoint needs attention/m)
    await inTrouble(t, server)
    const up = await look(server.url)
    assert.equal(up.code, 1)
    assert.doesNotMatch(up.stderr, /all is well/)
    assert.match(
      up.stdout,
      /^fail {2}delivery .*need attention: 2; waiting: 4; dead letters in 24 h: 2\n.*posthorn status/m,
    )
    await server.cli(['send', 'a', '1'])
    await server.running.stop('SIGKILL')
    const away = await look('http://127.0.0.1:9')
    assert.equal(away.code, 1)
    assert.match(
      away.stdout,
      /^fail {2}delivery .*no server runs; when it stopped: open breakers: 1; waiting: 5; dead letters in 24 h: 2 \(permanent_status 2\)/m,
    )
  })
})

describe('posthorn breakers and deliveries', () => {
  test('show why and for what it waits, and no retry that is over', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { down, downId } = await inTrouble(t, server)
    const breakers = (await server.cli(['breakers', 'list', '--state', 'open'])).stdout.split('\n')
    assert.match(breakers[0] ?? '', /^ENDPOINT +STATE +FAILURES +WAITING +NEXT PROBE +LAST ERROR +TARGET/)
    assert.match(breakers[1] ?? '', new RegExp(`^${downId} +open +2 +4 +in (?:59m|1h) +HTTP 503 +${down.url}`))
    const listed = (await server.cli(['deliveries', 'list', '--endpoint', downId])).stdout.split('\n')
    assert.match(listed[0] ?? '', /WAITS FOR +REASON +LAST ERROR$/)
    const until = /breaker (\S+)/
    for (const line of listed.slice(1, 5)) {
      assert.ok(Date.parse(until.exec(line)?.[1] ?? '') > Date.now(), line)
      assert.match(line, /HTTP 503$/)
    }
    assert.equal(listed.filter((line) => line.endsWith('endpoint: HTTP 503')).length, 2)
    const [{ id }] = (await server.json<[Created]>(['deliveries', 'list', '--endpoint', downId])) as [Created]
    const shown = (await server.cli(['deliveries', 'show', id])).stdout
    assert.match(shown, /^waitsFor +its endpoint is down, next probe at \S+Z;/m)
    assert.doesNotMatch(shown, /^retryAfter/m)
  })
})
