import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { widthOf } from '../../src/cli/table.ts'
import { hasScript, onTerminal } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

const looksMax = 100
const skip = hasScript ? false : 'the command `script` is not installed'
const wholeId = /\b(?:evt|dlv|ep|src|rly|key|rpl)_[0-9a-z]{23}(?![0-9a-z…])/
const cutId = /\b(?:evt|dlv|ep|src|rly|key|rpl)_[0-9a-z]*…/

/** What is on a terminal of 80 columns, line by line. */
async function shown(server: Server, args: readonly string[]): Promise<string[]> {
  const { code, stdout } = await onTerminal(args, { env: { POSTHORN_URL: server.url, NO_COLOR: '1' } })
  assert.equal(code, 0, stdout)
  return stripVTControlCharacters(stdout).trimEnd().split(/\r?\n/)
}

describe('on a terminal of 80 columns', { skip }, () => {
  test('no list cuts an id, and none is wider than the terminal', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t, '400')
    const url = `${sink.url}/a/rather/long/path/to/the/webhooks/of/a/customer`
    const types = 'order.created,order.paid,order.sent,invoice.paid'
    const endpoint = await server.json(['endpoints', 'create', url, '--types', types])
    await server.cli(['send', 'order.created', '{"id":1}', '--key', 'a-key-of-some-length', '--wait'])
    await server.json(['sources', 'create', 'a-source-with-a-name', '--provider', 'none'])
    await server.json(['relays', 'create', 'a-relay-with-a-name'])
    await server.json(['keys', 'create', '--role', 'read', '--name', 'a key with quite a long name to tell it by'])
    await server.json(['dlq', 'replay', '--type', 'order.created', '--yes'])
    const lists = ['endpoints', 'sources', 'relays', 'keys', 'events', 'deliveries', 'replays', 'breakers']
    for (const args of [...lists.map((name) => [name, 'list']), ['dlq', 'list', '--group', 'error']]) {
      const lines = await shown(server, args)
      const table = lines.filter((line) => !line.startsWith('not shown') && !line.includes('there are more'))
      assert.match(table.slice(1).join('\n') || lines.join('\n'), wholeId, args.join(' '))
      assert.doesNotMatch(table.join('\n'), cutId, args.join(' '))
      assert.deepEqual(
        table.filter((line) => widthOf(line) > 80),
        [],
      )
    }
    const events = await shown(server, ['events', 'list'])
    assert.match(events[0] ?? '', /^ID +TYPE +KEY .*RECEIVED$/, 'the default tenant takes no room')
    const failed = await shown(server, ['dlq', 'list'])
    assert.match(failed[0] ?? '', /^ID +TARGET +REASON +LAST ERROR$/)
    assert.match(failed[1] ?? '', /^dlv_\w{23} +127\.0\.0\.1\S+ +permanent_status +HTTP 400$/)
    assert.match(failed.at(-1) ?? '', /^not shown: TYPE, ENDPOINT.* \(--wide shows all\)$/)
    assert.equal(textOf(endpoint.id).length, 26)
  })

  test('each list keeps what a person needs first, and cuts none of it', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const [down, refusing] = [await sinkFor(t, '503'), await sinkFor(t, '400')]
    const breaker = '{"threshold":2,"cooldown":"1h"}'
    const downFlags = ['--types', 'a', '--breaker', breaker, '--concurrency', '1']
    await server.json(['endpoints', 'create', `${down.url}/hooks`, ...downFlags])
    await server.json(['endpoints', 'create', `${refusing.url}/hooks`, '--types', 'b', '--breaker', 'off'])
    const off = await server.json(['endpoints', 'create', `${refusing.url}/off`, '--types', 'c'])
    await server.cli(['endpoints', 'pause', textOf(off.id)])
    const types = ['a', 'a', 'a', 'a', 'b', 'b', 'c']
    await server.cli(['send', '--batch'], { input: types.map((type) => JSON.stringify({ type, data: 1 })).join('\n') })
    await server.cli(['deliveries', 'cancel', '--type', 'c', '--yes'])
    await until(async () => {
      const [open] = await server.json<Record<string, unknown>[]>(['breakers', 'list', '--state', 'open'])
      const dead = await server.json<unknown[]>(['dlq', 'list'])
      return open?.waiting === 4 && dead.length === 3
    })
    const host = (url: string) => url.replace('http://', '')
    const list = async (...args: readonly string[]) => (await shown(server, args)).join('\n')

    const breakers = await list('breakers', 'list', '--state', 'open')
    assert.match(breakers, /^ENDPOINT +STATE .*WAITING +NEXT PROBE +LAST ERROR/)
    assert.match(breakers, /^ep_\w{23} +open .*\b4 +in (?:59m|1h) +HTTP 503/m)

    const pending = await list('deliveries', 'list', '--status', 'pending')
    assert.match(pending, /^ID .*WAITS FOR +LAST ERROR\n/)
    assert.match(pending, /^dlv_\w{23} .*breaker in (?:59m|1h) +endpoint: HTTP 503$/m)
    assert.doesNotMatch(pending, /…/)

    const dead = await list('dlq', 'list')
    assert.match(dead, /^dlv_\w{23} .*\bcancelled +-$/m)
    assert.match(dead, new RegExp(`^dlv_\\w{23} .*${host(refusing.url)}/hooks +permanent_status +HTTP 400$`, 'm'))
    assert.match(await list('dlq', 'list', '--group', 'error'), /^2 +HTTP 400 +permanent_status .*dlv_\w{23}$/m)

    const endpoints = await list('endpoints', 'list')
    for (const target of [`${down.url}/hooks`, `${refusing.url}/hooks`, `${refusing.url}/off`]) {
      assert.match(endpoints, new RegExp(`^ep_\\w{23} +\\w+ +${host(target)} `, 'm'))
    }
    assert.match(endpoints, /^ep_\w{23} +paused .* paused by a person$/m)

    const events = await list('events', 'list')
    assert.match(events, /^ID +TYPE .*RECEIVED$/m)
    assert.doesNotMatch(events, /…|not shown/)

    await server.json(['dlq', 'replay', '--type', 'b', '--rate', '5', '--note', 'after the fix', '--yes'])
    const replays = await list('replays', 'list')
    assert.match(replays, /^ID +STATUS +REQUEUED +DELIVERED /)
    assert.doesNotMatch(replays, /…|^ID.* RATE/)

    const config = await list('config', 'show', '--server')
    assert.match(config, /^metricsEndpointsMax +100 +default/m)
    assert.doesNotMatch(config, /…/)
  })

  test('the status wraps its figures, and begins those of dead letters with how many are kept', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t, '400')
    await server.json(['endpoints', 'create', sink.url, '--types', 'a', '--breaker', 'off'])
    const { id } = await server.json(['endpoints', 'create', sink.url, '--types', 'b'])
    await server.cli(['endpoints', 'pause', textOf(id)])
    await server.cli(['send', 'a', '1', '--wait'])
    await server.cli(['send', 'b', '1'])
    await server.cli(['deliveries', 'cancel', '--type', 'b', '--yes'])
    await server.cli(['send', 'b', '1'])
    await server.cli(['endpoints', 'delete', textOf(id), '--yes'])
    await until(async () => {
      const { deadLetters } = await server.json<{ deadLetters: { kept: number } }>(['status'])
      return deadLetters.kept === 3
    })
    const lines = await shown(server, ['status'])
    const at = lines.findIndex((line) => line.startsWith('dead letters'))
    assert.match(lines[at] ?? '', /^dead letters {2}3 kept; 3 in the last 24 h: /)
    assert.match(lines[at + 1] ?? '', /^ {14}\S/)
    const figures = `${lines[at]} ${lines[at + 1]?.trim()}`
    for (const fact of ['permanent_status 1', 'cancelled 1', 'endpoint_deleted 1']) assert.ok(figures.includes(fact))
    assert.deepEqual([figures.includes('…'), lines.some((line) => widthOf(line) > 80)], [false, false])
  })

  test('--wide leaves nothing out and cuts nothing', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t, '400')
    const { id } = await server.json(['endpoints', 'create', sink.url, '--description', 'the shop of a customer'])
    await server.cli(['send', 'order.created', '{"id":1}', '--wait'])
    const lines = await shown(server, ['deliveries', 'list', '--wide'])
    assert.match(lines[0] ?? '', /^ID +STATUS +TYPE +ENDPOINT +TARGET +ATTEMPTS .* LAST ERROR$/)
    assert.ok((lines[1] ?? '').includes(textOf(id)) && (lines[1] ?? '').includes('the shop of a customer'))
    assert.doesNotMatch(lines.join('\n'), /…|not shown/)
  })

  test('an id that was cut off somewhere is taken by the commands', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { id } = await server.json(['endpoints', 'create', 'http://127.0.0.1:9/'])
    const cut = textOf(id).slice(0, 13)
    assert.equal((await server.json(['endpoints', 'show', cut])).id, id)
    const gone = await server.cli(['endpoints', 'delete', cut, '--yes'])
    assert.equal(gone.code, 0, gone.stderr)
    assert.equal(gone.stderr, `${textOf(id)} is deleted\n`)
  })

  test('an endpoint that was deleted is said to be', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { id } = await server.json(['endpoints', 'create', 'http://127.0.0.1:9/'])
    await server.cli(['send', 'order.created', '{"id":1}'])
    await server.cli(['endpoints', 'delete', textOf(id), '--yes'])
    const { stdout } = await server.cli(['deliveries', 'list'])
    assert.match(stdout, new RegExp(`${textOf(id)} +deleted `))
  })
})

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let looks = 0; looks < looksMax; looks += 1) if (await isSo()) return
  assert.fail(`not so after ${looksMax} looks`)
}

function textOf(value: unknown): string {
  return String(value)
}
