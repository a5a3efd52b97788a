import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { hasScript, onTerminal, posthorn } from './command.ts'
import { folderFor, type Server, serverFor } from './server.ts'

type Relay = Readonly<{ id: string; name: string; key: string; tenant: string; connected: boolean; queued: number }>
type Endpoint = Readonly<{ id: string; kind: string; relay: string; route: string; types: string[]; ordering: string }>

const cleanups: (() => unknown)[] = []
let server: Server

before(async () => {
  const t = { after: (fn: () => unknown) => void cleanups.unshift(fn) }
  server = await serverFor(t, folderFor(t))
})
after(async () => {
  for (const cleanup of cleanups) await cleanup()
})

describe('posthorn relays', () => {
  test('makes a relay: the key alone on stdout, and the command for its hub beside it', async () => {
    const { code, stdout, stderr } = await server.cli(['relays', 'create', 'home'])
    assert.equal(code, 0, stderr)
    const key = stdout.trim()
    assert.match(key, /^phr_[\w-]{43}$/)
    assert.ok(stderr.includes("posthorn relay --edge 'wss://<address of this edge>' --key-file ./relay-key"), stderr)
    assert.ok(!stderr.includes(key), 'the key is on stdout alone')
    const again = await server.cli(['relays', 'create', 'home'])
    assert.equal(again.code, 1)
    assert.match(again.stderr, /Another relay is named home/)
  })

  test('lists and shows relays without their keys', async () => {
    const { id, key } = await server.json<Relay>(['relays', 'create', 'plant-7', '--tenant', 'acme'])
    const [listed, ...others] = await server.json<Relay[]>(['relays', 'list', '--tenant', 'acme'])
    assert.deepEqual([listed?.id, listed?.tenant, listed?.connected, others.length], [id, 'acme', false, 0])
    const table = await server.cli(['relays', 'list', '--tenant', 'acme'])
    assert.match(table.stdout, /^ID +NAME +HUB +MEMBER +SINCE +ROUTES +QUEUED +OLDEST +TENANT\n/)
    assert.match(table.stdout, /rly_\w+ +plant-7 +away +- +- +- +0 +- +acme/)
    const shown = await server.cli(['relays', 'show', 'plant-7'])
    assert.match(shown.stdout, /^connected +false$/m)
    for (const { stdout } of [table, shown]) assert.ok(!stdout.includes(key))
    assert.equal((await server.cli(['relays', 'show', 'nothing'])).code, 1)
  })

  test('renews a key, and revokes a relay, only when somebody is sure', async () => {
    const { id, key } = await server.json<Relay>(['relays', 'create', 'leaving'])
    for (const verb of ['rotate-key', 'revoke']) {
      const { code, stderr } = await server.cli(['relays', verb, 'leaving'])
      assert.equal(code, 2, stderr)
      assert.match(stderr, /add --yes/)
    }
    const renewed = await server.cli(['relays', 'rotate-key', 'leaving', '--yes'])
    assert.match(renewed.stdout, /^phr_[\w-]{43}\n$/)
    assert.notEqual(renewed.stdout.trim(), key)
    assert.equal((await server.json<Relay>(['relays', 'show', 'leaving'])).id, id)
    assert.equal((await server.cli(['relays', 'revoke', 'leaving', '--yes'])).code, 0)
    assert.equal((await server.cli(['relays', 'show', id])).code, 1)
  })

  test('does not call it nothing when the relay of an endpoint is gone', async () => {
    const ours = ['--tenant', 'orphaned']
    const list = async () => (await server.cli(['relays', 'list', ...ours])).stderr
    assert.match(await list(), /^no relay matches; make one with: posthorn relays create <name>$/m)
    const { id } = await server.json<Relay>(['relays', 'create', 'gone', ...ours])
    await server.json(['endpoints', 'create', '--relay', 'gone', '--route', 'github', ...ours])
    assert.doesNotMatch(await list(), /no relay/)
    assert.equal((await server.cli(['relays', 'revoke', id, '--yes'])).code, 0)
    assert.match(await list(), /but 1 endpoint of a relay that is gone.*posthorn relays create gone$/m)
  })

  test('asks on a terminal before it revokes', { skip: !hasScript }, async () => {
    await server.json(['relays', 'create', 'asked'])
    const revoke = (input: string) =>
      onTerminal(['relays', 'revoke', 'asked'], { env: { POSTHORN_URL: server.url }, input })
    const no = await revoke('n\n')
    assert.equal(no.code, 1)
    assert.match(no.stdout, /revoke rly_\w+ \(asked\)\? .*nothing was revoked/s)
    assert.equal((await server.cli(['relays', 'show', 'asked'])).code, 0)
    assert.equal((await revoke('y\n')).code, 0)
    assert.equal((await server.cli(['relays', 'show', 'asked'])).code, 1)
  })
})

describe('posthorn endpoints', () => {
  test('leads to a route of a relay, and from there to another', async () => {
    await server.json(['relays', 'create', 'cellar'])
    const flags = ['--relay', 'cellar', '--route', 'github', '--types', 'github.*']
    const made = await server.json<Endpoint>(['endpoints', 'create', ...flags])
    const { kind, relay, route, types, ordering } = made
    assert.deepEqual([kind, relay, route, types, ordering], ['relay', 'cellar', 'github', ['github.*'], 'endpoint'])
    const listed = await server.cli(['endpoints', 'list', '--kind', 'relay'])
    assert.match(listed.stdout, /relay +cellar\/github/)
    const moved = await server.json<Endpoint>(['endpoints', 'update', made.id, '--route', 'gitlab'])
    assert.deepEqual([moved.relay, moved.route], ['cellar', 'gitlab'])
    await server.cli(['send', 'github.push', '{}'])
    assert.equal((await server.json<Relay>(['relays', 'show', 'cellar'])).queued, 1)
    const tried = await server.cli(['endpoints', 'test', made.id])
    assert.equal(tried.code, 1)
    assert.match(tried.stderr, /The hub of the relay cellar is not connected/)
    const wrong = await server.cli(['endpoints', 'create', '--relay', 'celler', '--route', 'github'])
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /did you mean cellar\?$/m)
  })

  test('wants a URL or a relay with a route, and not both', async () => {
    const lines: readonly (readonly [args: string[], message: RegExp])[] = [
      [[], /a URL, or --relay and --route/],
      [['http://127.0.0.1:9/', '--relay', 'home', '--route', 'x'], /not both/],
      [['--relay', 'home'], /with --route/],
      [['--route', 'x'], /with --relay/],
    ]
    for (const [args, message] of lines) {
      const { code, stderr } = await posthorn(['endpoints', 'create', ...args])
      assert.equal(code, 2, args.join(' '))
      assert.match(stderr, message)
    }
  })
})
