import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { freePort } from '../support/server-process.ts'
import { type Running, start } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

describe('posthorn relay', () => {
  test('delivers what the edge has for its routes, and ends with 0 when it is told to', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const sink = await sinkFor(t)
    await server.json(['endpoints', 'create', '--relay', 'home', '--route', 'shop', '--types', 'order.*'])
    const keyFile = path.join(folder, 'relay-key')
    writeFileSync(keyFile, `${key}\n`)
    const hub = hubFor(t, server, folder, ['--key-file', keyFile, '--route', `shop=${sink.url}/hooks`])
    await hub.line(/^connected to .* as home \(posthorn\//)
    const { code, stderr } = await server.cli(['send', 'order.created', '{"id":1}', '--wait'])
    assert.equal(code, 0, stderr)
    assert.deepEqual(
      sink.received.map(({ path: at, eventType }) => [at, eventType]),
      [['/hooks', 'order.created']],
    )
    const ended = await hub.stop('SIGHUP')
    assert.deepEqual([ended.code, ended.stdout], [0, ''])
    assert.match(ended.stderr, /SIGHUP: finishing what has begun/)
    assert.ok(!ended.stderr.includes(key), 'the key is in no line')
  })

  test('warns who makes an endpoint for a route that it does not have, and does it all the same', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const endpoint = (verb: string[], route: string) =>
      server.cli(['endpoints', ...verb, '--relay', 'home', '--route', route, '-o', 'json'])
    assert.equal((await endpoint(['create'], 'early')).stderr, '', 'nobody knows yet what the hub will have')
    const routes = ['--route', 'shop=http://127.0.0.1:9/', '--route', 'mail=http://127.0.0.1:9/']
    const hub = hubFor(t, server, folder, ['--key', key, ...routes])
    await hub.line(/^connected to/)
    const made = await endpoint(['create'], 'schop')
    assert.equal(made.code, 0)
    assert.match(
      made.stderr,
      /^warning: the hub of the relay home .* no route schop \(it has shop, mail\).*--route schop=/,
    )
    const { id } = JSON.parse(made.stdout)
    assert.match((await endpoint(['update', id], 'shoop')).stderr, /no route shoop/)
    assert.equal((await endpoint(['update', id], 'shop')).stderr, '')
    assert.equal((await hub.stop()).code, 0)
  })

  test('takes all of it from a file', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const sink = await sinkFor(t)
    await server.json(['endpoints', 'create', '--relay', 'home', '--route', 'shop'])
    const config = path.join(folder, 'hub.json')
    const memory = path.join(folder, 'hub-memory.db')
    writeFileSync(config, JSON.stringify({ edge: server.url, key, routes: { shop: sink.url }, memory, compress: true }))
    const hub = start(['relay', '--config', config], { cwd: folder })
    t.after(() => hub.stop('SIGKILL'))
    await hub.line(/^connected to/)
    const { code } = await server.cli(['send', 'order.created', '{"id":1}', '--wait'])
    assert.deepEqual([code, sink.received.length], [0, 1])
    assert.equal((await hub.stop('SIGINT')).code, 0)
  })

  test('says why and ends with 3 when its key is revoked', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const hub = hubFor(t, server, folder, ['--key', key, '--route', 'shop=http://127.0.0.1:9/'])
    await hub.line(/^connected to/)
    await server.cli(['relays', 'revoke', 'home', '--yes'])
    const { code, stdout, stderr } = await hub.ended
    assert.deepEqual([code, stdout], [3, ''])
    assert.match(stderr, /^posthorn: .*(?:revoked|key)/m)
    assert.doesNotMatch(stderr, /\n {4}at /, 'no stack')
  })

  test('ends with 3 when it comes with a key that the edge does not know', async (t) => {
    const { server, folder } = await edgeFor(t)
    const key = `phr_${'x'.repeat(43)}`
    const { code, stderr } = await hubFor(t, server, folder, ['--key', key, '--route', 'a=http://127.0.0.1:9/']).ended
    assert.equal(code, 3)
    assert.match(stderr, /^posthorn: .*key/m)
  })

  test('gives way to a newer hub with the same key, and says so', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const flags = ['--key', key, '--route', 'shop=http://127.0.0.1:9/']
    const older = hubFor(t, server, folder, flags)
    await older.line(/^connected to/)
    const newer = hubFor(t, server, folder, [...flags, '--memory', path.join(folder, 'newer.db')])
    await newer.line(/^connected to/)
    const { code, stderr } = await older.ended
    assert.equal(code, 3)
    assert.match(stderr, /^posthorn: Another hub came with the same key/m)
    assert.equal((await newer.stop()).code, 0)
  })

  test('waits for an edge that is not there yet, and says that once', async (t) => {
    const folder = folderFor(t)
    const port = String(await freePort())
    const first = await serverFor(t, folder, ['--port', port])
    const { key } = await first.json<{ key: string }>(['relays', 'create', 'home'])
    await first.running.stop()
    const hub = hubFor(t, first, folder, ['--key', key, '--route', 'shop=http://127.0.0.1:9/'])
    await hub.line(/Trying again in/)
    await serverFor(t, folder, ['--port', port])
    await hub.line(/^connected to/)
    const { code, stderr } = await hub.stop()
    assert.equal(code, 0)
    assert.equal(stderr.split('\n').filter((line) => line.includes('Trying again in')).length, 1)
  })

  test('reports a target that is down, and goes on', async (t) => {
    const { server, key, folder } = await edgeFor(t)
    const port = await freePort()
    await server.json(['endpoints', 'create', '--relay', 'home', '--route', 'shop'])
    const hub = hubFor(t, server, folder, ['--key', key, '--route', `shop=http://127.0.0.1:${port}/`])
    await hub.line(/^connected to/)
    await server.cli(['send', 'order.created', '{}'])
    let lastError: string | null = null
    while (lastError === null) {
      const [delivery] = await server.json<{ lastError: string | null }[]>(['deliveries', 'list'])
      lastError = delivery?.lastError ?? null
    }
    assert.match(lastError, /ECONNREFUSED/)
    assert.equal((await hub.stop()).code, 0)
  })
})

async function edgeFor(t: TestContext): Promise<Readonly<{ server: Server; key: string; folder: string }>> {
  const folder = folderFor(t)
  const server = await serverFor(t, folder)
  const { key } = await server.json<{ key: string }>(['relays', 'create', 'home'])
  return { server, key, folder }
}

function hubFor(t: TestContext, server: Server, cwd: string, flags: readonly string[]): Running {
  const hub = start(['relay', '--edge', server.url.replace(/^http/, 'ws'), ...flags], { cwd })
  t.after(() => hub.stop('SIGKILL'))
  return hub
}
