import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { hasScript, type Running, start, startOnTerminal } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

const noTerminal = hasScript ? false : 'the command `script` is not installed'

describe('posthorn listen', () => {
  test('forwards what comes, a line for each, and leaves nothing behind', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t, '200,404')
    const listen = listenFor(t, server, ['--forward', `${sink.url}/webhooks`, '--types', 'order.*'])
    await listen.line(/^connected to/)
    const id = await send(server, 'order.created')
    const line = await listen.line(/order\.created/)
    assert.match(
      line,
      new RegExp(`^\\d\\d:\\d\\d:\\d\\d\\.\\d{3}  order\\.created  ${id}  POST /webhooks  200  \\d+ ms$`),
    )
    await send(server, 'invoice.paid')
    await send(server, 'order.paid')
    assert.match(await listen.line(/order\.paid/), / 404 {2}\d+ ms$/)
    assert.deepEqual(
      sink.received.map(({ eventType }) => eventType),
      ['order.created', 'order.paid'],
    )
    const { code, stdout, stderr } = await listen.stop('SIGINT')
    assert.equal(code, 0, stderr)
    const lines = stdout.trimEnd().split('\n')
    assert.equal(lines.filter((line) => /^\d\d:/.test(line)).length, 2, 'a line for each')
    assert.ok(
      lines.every((line) => /^(?:\d\d:| {2}[<>] )/.test(line)),
      'data is on stdout, and nothing else is',
    )
    assert.deepEqual(await leftAt(server), [[], []])
  })

  test('tells of a failure once, with what was sent and what was answered', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const target = createServer((request, response) => {
      request.resume().on('end', () => response.writeHead(422).end('{"why":"no such \u001b[31mitem"}\nsecond line'))
    }).listen(0, '127.0.0.1')
    t.after(() => target.close())
    await once(target, 'listening')
    const { port } = target.address() as AddressInfo
    const listen = listenFor(t, server, ['--forward', `http://127.0.0.1:${port}/hooks`])
    await listen.line(/^connected to/)
    await server.cli(['send', 'order.created', '{"item":"horn"}'])
    await listen.line(/second line/)
    const { stdout, stderr } = await listen.stop('SIGINT')
    const [line, ...more] = stdout.trimEnd().split('\n')
    assert.match(line ?? '', /order\.created .* 422 /)
    assert.match(more[0] ?? '', /^ {2}> \{"type":"order\.created".*"data":\{"item":"horn"\}\}$/)
    assert.deepEqual(more.slice(1), ['  < {"why":"no such \\u001b[31mitem"}', '  < second line'])
    assert.doesNotMatch(stderr, /hub\.tried|\b422\b/, 'the log does not repeat what is printed')
  })

  test('tells the secret by which its requests are signed', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const listen = listenFor(t, server, ['--forward', sink.url])
    const secret = /whsec_\S+/.exec(await listen.line(/^signing secret: /))?.[0] ?? ''
    await listen.line(/^connected to/)
    await send(server, 'order.created')
    await listen.line(/order\.created/)
    const [request] = sink.received
    assert.ok(request !== undefined)
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
    assert.doesNotThrow(() => new Webhook(secret).verify(request.body.toString('utf8'), headers))
    assert.equal((await listen.stop('SIGTERM')).code, 0)
  })

  test('prints a JSON line for each request with -o json', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const listen = listenFor(t, server, ['--forward', `${sink.url}/a`, '-o', 'json'])
    await listen.line(/^connected to/)
    const id = await send(server, 'order.created')
    const row = JSON.parse(await listen.line(/^\{/))
    assert.deepEqual(
      [row.type, row.eventId, row.method, row.path, row.statusCode, row.outcome],
      ['order.created', id, 'POST', '/a', 200, 'delivered'],
    )
    const { stdout } = await listen.stop('SIGINT')
    assert.doesNotThrow(() =>
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    )
  })

  test('with a name goes on with what has waited', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const args = ['--forward', sink.url, '--name', 'dev']
    const first = listenFor(t, server, [...args, '--types', 'order.*'])
    await first.line(/^connected to/)
    const { code, stderr } = await first.stop('SIGINT')
    assert.equal(code, 0)
    assert.match(stderr, /what comes now waits for: posthorn listen .*--name dev/)
    await send(server, 'order.created')
    await send(server, 'invoice.paid')
    const second = listenFor(t, server, args)
    assert.match(await second.line(/order\.created/), / 200 /)
    const [endpoints, relays] = await leftAt(server)
    assert.deepEqual([endpoints.length, relays.length], [1, 1], 'the same endpoint, the same relay')
    assert.equal((await second.stop('SIGINT')).code, 0)
    assert.equal(sink.received.length, 1, 'the types are those of the first run')
  })

  test('cuts off an older one with the same name, which says so', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const args = ['--forward', 'http://127.0.0.1:9/', '--name', 'dev']
    const older = listenFor(t, server, args)
    await older.line(/^connected to/)
    const newer = listenFor(t, server, args)
    await newer.line(/^connected to/)
    const { code, stderr } = await older.ended
    assert.equal(code, 1)
    assert.match(stderr, /^posthorn: /m)
    const ended = await newer.stop('SIGINT')
    assert.equal(ended.code, 0)
    assert.match(ended.stderr, /another listen --name dev is cut off/)
  })

  test('does not take the place of a hub that it has not made', async (t) => {
    const server = await serverFor(t, folderFor(t))
    await post(server, '/v1/relays', { name: 'home' })
    const { code, stderr } = await listenFor(t, server, ['--forward', 'http://127.0.0.1:9/', '--name', 'home']).ended
    assert.equal(code, 1)
    assert.match(stderr, /home is a relay that listen has not made/)
  })

  test('says what a killed one has left behind, and how to remove it', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const killed = listenFor(t, server, ['--forward', 'http://127.0.0.1:9/'])
    await killed.line(/^connected to/)
    await killed.stop('SIGKILL')
    await gone(server)
    const next = listenFor(t, server, ['--forward', 'http://127.0.0.1:9/'])
    await next.line(/^connected to/)
    const { stderr } = await next.stop('SIGINT')
    assert.match(stderr, /^1 relay of an earlier listen/m)
    for (const [command = ''] of stderr.matchAll(/(?<=^ {2}posthorn ).*$/gm)) {
      assert.equal((await server.cli(command.split(' '))).code, 0, command)
    }
    assert.deepEqual(await leftAt(server), [[], []])
  })

  test('leaves nothing behind when its terminal is closed', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const listen = listenFor(t, server, ['--forward', 'http://127.0.0.1:9/'])
    await listen.line(/^connected to/)
    assert.equal((await listen.stop('SIGHUP')).code, 0)
    assert.deepEqual(await leftAt(server), [[], []])
  })

  test('leaves nothing behind when nobody reads its lines any more', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const listen = listenFor(t, server, ['--forward', sink.url])
    await listen.line(/^connected to/)
    listen.child.stdout.destroy()
    await send(server, 'order.created')
    assert.equal((await listen.ended).code, 0)
    assert.deepEqual(await leftAt(server), [[], []])
  })

  test('goes straight to a server on this machine, whatever the proxy', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const env = { POSTHORN_URL: server.url, TMPDIR: folderFor(t), ALL_PROXY: 'socks5://127.0.0.1:9' }
    const listen = start(['listen', '--forward', 'http://127.0.0.1:9/'], { env })
    t.after(() => listen.stop('SIGKILL'))
    await listen.line(/^connected to/)
    assert.equal((await listen.stop('SIGINT')).code, 0)
  })

  test('says so when it cannot remove what it has made', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const listen = listenFor(t, server, ['--forward', 'http://127.0.0.1:9/'])
    await listen.line(/^connected to/)
    await server.running.stop('SIGKILL')
    const { code, stderr } = await listen.stop('SIGINT')
    assert.equal(code, 1)
    assert.match(
      stderr,
      /remove it later: posthorn endpoints delete ep_\S+ --yes; posthorn relays revoke rly_\S+ --yes/,
    )
  })
})

describe('posthorn listen on a terminal', { skip: noTerminal }, () => {
  test('sends the last one again with r, and ends with q', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    const args = ['listen', '--forward', sink.url]
    const listen = startOnTerminal(args, { env: { POSTHORN_URL: server.url, NO_COLOR: '1' } })
    t.after(() => listen.stop('SIGKILL'))
    await listen.line(/r sends the last one again, q ends it/)
    await listen.line(/connected to/)
    listen.child.stdin.write('r')
    await listen.line(/nothing has come yet/)
    await send(server, 'order.created')
    await listen.line(/order\.created .* 200 /)
    const again = sink.next()
    listen.child.stdin.write('r')
    assert.equal((await again).webhookId, sink.received[0]?.webhookId)
    await listen.line(/sending order\.created again/)
    listen.child.stdin.write('q')
    const { code, stdout } = await listen.ended
    assert.equal(code, 0, stripVTControlCharacters(stdout))
    assert.deepEqual(await leftAt(server), [[], []])
  })

  test('ends with Ctrl-C', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const listen = startOnTerminal(['listen', '--forward', 'http://127.0.0.1:9/'], {
      env: { POSTHORN_URL: server.url },
    })
    t.after(() => listen.stop('SIGKILL'))
    await listen.line(/connected to/)
    listen.child.stdin.write('\u0003')
    assert.equal((await listen.ended).code, 0)
    assert.deepEqual(await leftAt(server), [[], []])
  })
})

function listenFor(t: TestContext, server: Server, flags: readonly string[]): Running {
  // One that is killed leaves its memory where temporary files are.
  const listen = start(['listen', ...flags], { env: { POSTHORN_URL: server.url, TMPDIR: folderFor(t) } })
  t.after(() => listen.stop('SIGKILL'))
  return listen
}

type Rows = readonly Readonly<Record<string, unknown>>[]

/** The endpoints and the relays that the server has. */
async function leftAt(server: Server): Promise<readonly [Rows, Rows]> {
  return [await list(server, '/v1/endpoints'), await list(server, '/v1/relays')]
}

/** The edge notices that a hub is gone when its socket is closed. */
async function gone(server: Server): Promise<void> {
  while ((await list(server, '/v1/relays')).some(({ connected }) => connected === true));
}

async function list(server: Server, at: string): Promise<Rows> {
  const answer = (await (await fetch(`${server.url}${at}`)).json()) as { items: Rows }
  return answer.items
}

async function send(server: Server, type: string): Promise<unknown> {
  return (await post(server, '/v1/events', { type, data: { id: 1 } })).id
}

async function post(server: Server, at: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${server.url}${at}`, { method: 'POST', headers, body: JSON.stringify(body) })
  assert.ok(response.ok, `${at} answered ${response.status}`)
  return (await response.json()) as Record<string, unknown>
}
