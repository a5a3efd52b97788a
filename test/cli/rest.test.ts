import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { hasScript, onTerminal, posthorn, start } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

type Endpoint = Readonly<{
  id: string
  secret: string
  status: string
  url: string
  types: string[]
  concurrency: number
}>
type Delivery = Readonly<{ id: string; status: string; attempts: number; reason: string | null; eventId: string }>

const cleanups: (() => unknown)[] = []
let server: Server
let folder: string
let topics = 0

before(async () => {
  const t = { after: (fn: () => unknown) => void cleanups.unshift(fn) }
  folder = folderFor(t)
  server = await serverFor(t, folder)
})
after(async () => {
  for (const cleanup of cleanups) await cleanup()
})

/** A type that only this test uses, and an endpoint for it: tests share the server and nothing else. */
async function setUp(t: TestContext, script: string, flags: readonly string[] = []) {
  topics += 1
  const type = `topic${topics}.made`
  const sink = await sinkFor(t, script)
  const endpoint = await server.json<Endpoint>(['endpoints', 'create', `${sink.url}/hook`, '--types', type, ...flags])
  return { type, sink, endpoint }
}

describe('posthorn send', () => {
  test('prints the id and waits for the delivery', async (t) => {
    const { type, sink } = await setUp(t, '503,200', [
      '--retry',
      '{"strategy":"schedule","delays":["10ms"],"maxAttempts":5}',
    ])
    const { code, stdout, stderr } = await server.cli(['send', type, '{"id":1}', '--wait'])
    assert.equal(code, 0, stderr)
    const [id = '', delivery = ''] = stdout.split('\n')
    assert.match(id, /^evt_\w+$/)
    assert.match(delivery, /^dlv_\w+ {2}delivered {2}ep_\w+ {2}2 attempts/)
    assert.deepEqual(
      sink.received.map((request) => request.webhookId),
      [id, id],
    )
  })

  test('keeps the bytes of the data', async (t) => {
    const { type, sink } = await setUp(t, '200')
    const data = '{"big":12345678901234567890,"one":1.0,"z":1,"a":"é"}'
    const { code } = await server.cli(['send', type, '-', '--wait', '--key', 'k1', '--header', 'x-a=b=c'], {
      input: data,
    })
    assert.equal(code, 0)
    assert.ok(sink.received[0]?.body.toString().endsWith(`"data":${data}}`))
    assert.equal(sink.received[0]?.headers['x-a'], 'b=c')
  })

  test('fails with 1 and says why when the delivery is a dead letter', async (t) => {
    const { type } = await setUp(t, '400')
    const { code, stdout, stderr } = await server.cli(['send', type, '--wait'])
    assert.equal(code, 1)
    assert.match(stdout, /failed .*permanent_status/)
    assert.match(stderr, /1 dead letter; see posthorn deliveries show dlv_/)
  })

  test('ends with 4 when time runs out, and says what the delivery waits for', async (t) => {
    const { type, endpoint } = await setUp(t, '200')
    await server.cli(['endpoints', 'pause', endpoint.id])
    const { code, stdout, stderr } = await server.cli(['send', type, '{}', '--wait', '--timeout', '200ms'])
    assert.equal(code, 4)
    assert.match(stdout, new RegExp(`pending .* its endpoint is paused; .*posthorn endpoints resume ${endpoint.id}`))
    assert.match(stderr, /1 delivery not settled within 0.2 s; see posthorn deliveries show dlv_\w+/)
  })

  test('ends with 4 when time runs out while a try is under way', async (t) => {
    const { type } = await setUp(t, 'hang')
    const { code, stderr } = await server.cli(['send', type, '{}', '--wait', '--timeout', '200ms'])
    assert.deepEqual([code, /1 delivery not settled within 0.2 s/.test(stderr)], [4, true])
  })

  test('says when no endpoint wants the event', async () => {
    const { code, stderr } = await server.cli(['send', 'nobody.wants', '{}', '--wait'])
    assert.equal(code, 0)
    assert.match(stderr, /no endpoint wants its type/)
  })

  test('an idempotency key makes one event of two', async () => {
    const args = ['send', 'some.type', '{"a":1}', '--idempotency-key', 'key-1']
    const first = await server.json(args)
    const second = await server.json(args)
    assert.deepEqual([second.id, first.duplicate, second.duplicate], [first.id, false, true])
    const other = await server.cli(['send', 'some.type', '{"a":2}', '--idempotency-key', 'key-1'])
    assert.equal(other.code, 1)
  })

  test('sends raw bytes from a file', async (t) => {
    const { type, sink } = await setUp(t, '200')
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
    const file = path.join(folder, 'bytes.bin')
    writeFileSync(file, bytes)
    const { code } = await server.cli(['send', type, '--raw', '--content-type', 'image/png', '--file', file, '--wait'])
    assert.equal(code, 0)
    assert.deepEqual(sink.received[0]?.body, bytes)
    assert.equal(sink.received[0]?.headers['content-type'], 'image/png')
  })

  test('sends a batch of lines, whole events or data of one type', async (t) => {
    const { type, sink } = await setUp(t, '200')
    const events = Array.from({ length: 2500 }, (_, n) => JSON.stringify({ type: 'not.wanted', data: { n } }))
    const whole = await server.cli(['send', '--batch', '-o', 'jsonl'], { input: `${events.join('\n')}\n\n` })
    assert.equal(whole.code, 0, whole.stderr)
    assert.equal(
      new Set(
        whole.stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line).id),
      ).size,
      2500,
    )
    assert.match(whole.stderr, /2,500 events sent/)
    const arrived = sink.next()
    const data = await server.json(['send', type, '--batch', '--key', 'k'], { input: '{"n":1.0}\r\n' })
    assert.deepEqual(data, { events: 1, deliveries: 1, duplicates: 0 })
    assert.match((await arrived).body.toString(), /"data":\{"n":1\.0\}/)
  })

  test('says which lines of a batch were refused, and why', async () => {
    const input = '\n{"type":"a.b","data":1}\n\n{"typo":"a.b","data":1}\n'
    const { code, stderr } = await server.cli(['send', '--batch'], { input })
    assert.equal(code, 1)
    assert.match(stderr, /lines 2 to 4 were not accepted/)
    assert.match(stderr, /line 4 type.* is required/)
    assert.match(stderr, /line 4 typo.* is not a field.*did you mean type/)
    assert.match(stderr, /0 events sent before/)
  })

  test('says which line of a batch is not JSON', async () => {
    const lines = Array.from({ length: 1500 }, (_, n) => (n === 1234 ? '{"n":' : `{"n":${n}}`))
    const { code, stderr } = await server.cli(['send', 'a.b', '--batch'], { input: lines.join('\n') })
    assert.equal(code, 1)
    assert.match(stderr, /lines 1001 to 1500 were not accepted:\n {2}line 1235 /)
    assert.match(stderr, /1,000 events sent before/)
  })

  test('says that an event is too large', async () => {
    const { code, stderr } = await server.cli(['send', 'a.b', '-'], { input: JSON.stringify('x'.repeat(2_000_000)) })
    assert.equal(code, 1)
    assert.match(stderr, /larger than/)
  })
})

describe('posthorn endpoints', () => {
  test('creates, lists, shows, changes, pauses, resumes and deletes', async (t) => {
    const flags = [
      '--concurrency',
      '3',
      '--timeout',
      '2s',
      '--ordering',
      'key',
      '--breaker',
      'off',
      '--description',
      'shop',
    ]
    const { endpoint } = await setUp(t, '200', [...flags, '--rate-limit', '50', '--header', 'x-team=a'])
    assert.match(endpoint.secret, /^whsec_/)
    const shown = await server.json<Record<string, unknown>>(['endpoints', 'show', endpoint.id])
    const { concurrency, ordering, breaker, rateLimit, headers, description } = shown
    assert.deepEqual(
      { concurrency, ordering, breaker, rateLimit, headers, description },
      {
        concurrency: 3,
        ordering: 'key',
        breaker: false,
        rateLimit: { perSecond: 50 },
        headers: { 'x-team': 'a' },
        description: 'shop',
      },
    )
    const list = await server.cli(['endpoints', 'list'])
    assert.match(list.stdout, new RegExp(`^${endpoint.id} +active +http +${endpoint.url}`, 'm'))
    const changed = await server.json<Endpoint>(['endpoints', 'update', endpoint.id, '--concurrency', '9'])
    assert.deepEqual([changed.concurrency, changed.url], [9, endpoint.url])
    const limited = (limit: string) =>
      server.json<{ rateLimit: unknown }>(['endpoints', 'update', endpoint.id, '--rate-limit', limit])
    assert.deepEqual((await limited('5')).rateLimit, { perSecond: 5 })
    assert.equal((await limited('off')).rateLimit, null)
    const patient = ['endpoints', 'update', endpoint.id, '--disable-after']
    assert.deepEqual(
      [await server.json([...patient, '2d']), await server.json([...patient, 'off'])].map((one) => one.disableAfter),
      ['2d', false],
    )
    assert.match((await server.cli(['endpoints', 'pause', endpoint.id])).stderr, /is paused/)
    assert.match((await server.cli(['endpoints', 'resume', endpoint.id])).stderr, /is active/)
    const unsure = await server.cli(['endpoints', 'delete', endpoint.id])
    assert.equal(unsure.code, 2)
    assert.match(unsure.stderr, /delete ep_.*add --yes/)
    assert.equal((await server.cli(['endpoints', 'delete', endpoint.id, '--yes'])).code, 0)
    const gone = await server.cli(['endpoints', 'show', endpoint.id])
    assert.deepEqual([gone.code, gone.stdout], [1, ''])
  })

  test('prints the secret alone, and a new one', async (t) => {
    const { endpoint } = await setUp(t, '200')
    assert.equal((await server.cli(['endpoints', 'secret', endpoint.id])).stdout, `${endpoint.secret}\n`)
    const { stdout } = await server.cli(['endpoints', 'rotate-secret', endpoint.id, '--keep-old-for', '1h'])
    assert.match(stdout, /^whsec_\S+\n$/)
    assert.notEqual(stdout.trim(), endpoint.secret)
  })

  test('reads a secret from stdin, where no list of processes shows it', async () => {
    const secret = (fill: number) => `whsec_${Buffer.alloc(24, fill).toString('base64')}`
    const [first, second] = [secret(1), secret(2)]
    const flags = ['endpoints', 'create', 'http://127.0.0.1:9/', '--types', 'never.sent', '--secret', '-']
    const endpoint = await server.json<Endpoint>(flags, { input: `${first}\n` })
    assert.equal(endpoint.secret, first)
    const rotated = await server.cli(['endpoints', 'rotate-secret', endpoint.id, '--secret', '-'], { input: second })
    assert.equal(rotated.stdout, `${second}\n`)
  })

  test('tests an endpoint, and fails when it does', async (t) => {
    const { endpoint } = await setUp(t, '200,500')
    const good = await server.cli(['endpoints', 'test', endpoint.id])
    assert.equal(good.code, 0, good.stderr)
    assert.match(good.stdout, /delivered 200/)
    const bad = await server.cli(['endpoints', 'test', endpoint.id, '--type', 'a.b', '--data', '{"a":1}'])
    assert.equal(bad.code, 1)
    assert.match(bad.stdout, /500/)
  })

  test('prints every wrong field', async () => {
    const args = [
      'endpoints',
      'create',
      'ftp://shop.example',
      '--retry',
      '{"strategy":"exponential","baseDelay":"soon"}',
      '--types',
      'a..b',
    ]
    const { code, stdout, stderr } = await server.cli(args)
    assert.deepEqual([code, stdout], [1, ''])
    for (const field of ['url', 'retry', 'types']) assert.match(stderr, new RegExp(`^ {2}${field}\\S*: `, 'm'))
  })

  test('asks before it deletes on a terminal', { skip: hasScript ? false : '`script` is missing' }, async (t) => {
    const { endpoint } = await setUp(t, '200')
    const env = { POSTHORN_URL: server.url }
    const no = await onTerminal(['endpoints', 'delete', endpoint.id], { env, input: 'n\n' })
    assert.equal(no.code, 1)
    assert.match(no.stdout, /nothing was deleted/)
    const yes = await onTerminal(['endpoints', 'delete', endpoint.id], { env, input: 'y\n' })
    assert.equal(yes.code, 0, yes.stdout)
    assert.match(yes.stdout, /is deleted/)
  })
})

describe('posthorn deliveries and events', () => {
  test('lists by filter, shows the attempt log and tries again', async (t) => {
    const { type, endpoint, sink } = await setUp(t, '400,200')
    await server.cli(['send', type, '{"a":1}', '--wait'])
    const filters = [
      '--status',
      'failed',
      '--endpoint',
      endpoint.id,
      '--type',
      type,
      '--since',
      '1h',
      '--reason',
      'permanent_status',
    ]
    const [failed] = await server.json<Delivery[]>(['deliveries', 'list', ...filters])
    assert.deepEqual([failed?.status, failed?.attempts], ['failed', 1])
    const none = await server.cli(['deliveries', 'list', '--endpoint', endpoint.id, '--status', 'delivered'])
    assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', 'no delivery matches\n'])
    const shown = await server.cli(['deliveries', 'show', failed!.id])
    assert.match(shown.stdout, /^reason +permanent_status$/m)
    assert.match(shown.stdout, /^attempt 1 .*permanent 400$/m)
    const again = sink.next()
    assert.equal((await server.cli(['deliveries', 'retry', failed!.id])).code, 0)
    assert.equal((await again).attempt, 2)
  })

  test('says in words what a delivery waits for', async (t) => {
    const { type, endpoint } = await setUp(t, '200')
    await server.cli(['endpoints', 'pause', endpoint.id])
    await server.cli(['send', type, '1'])
    const [waiting] = await server.json<Delivery[]>(['deliveries', 'list', '--endpoint', endpoint.id])
    const shown = await server.cli(['deliveries', 'show', waiting!.id])
    assert.match(shown.stdout, /^waitsFor +its endpoint is paused; to resume: posthorn endpoints resume ep_\w+$/m)
    const { waitsFor } = await server.json<{ waitsFor: string }>(['deliveries', 'show', waiting!.id])
    assert.equal(waitsFor, 'paused')
  })

  test('follows the cursors with --all, in every format', async (t) => {
    const { type, endpoint } = await setUp(t, '200')
    const input = Array.from({ length: 25 }, (_, n) => `{"n":${n}}`).join('\n')
    await server.cli(['send', type, '--batch'], { input })
    const args = ['deliveries', 'list', '--endpoint', endpoint.id, '--limit', '10']
    const page = await server.cli(args)
    assert.equal(page.stdout.trimEnd().split('\n').length, 11)
    const cursor = /--cursor (\S+)/.exec(page.stderr)?.[1] ?? ''
    assert.equal((await server.json<Delivery[]>([...args, '--cursor', cursor])).length, 10)
    assert.equal((await server.json<Delivery[]>([...args, '--all'])).length, 25)
    const table = (await server.cli([...args, '--all'])).stdout.trimEnd().split('\n')
    assert.equal(table.filter((line) => line.startsWith('ID')).length, 1)
    assert.equal(table.length, 26)
    assert.deepEqual(await server.json(['deliveries', 'list', '--endpoint', endpoint.id, '--error', 'no such']), [])
  })

  test('shows an event, its deliveries and its exact body', async (t) => {
    const { type } = await setUp(t, '200')
    const { id } = await server.json<{ id: string }>(['send', type, '--raw', '--content-type', 'text/plain'], {
      input: 'a\u0000é\n',
    })
    assert.equal((await server.cli(['events', 'body', id])).stdout, 'a\u0000é\n')
    const shown = await server.cli(['events', 'show', id])
    assert.match(shown.stdout, new RegExp(`^type +${type}$`, 'm'))
    assert.match(shown.stdout, /^dlv_/m)
    const [listed] = await server.json<{ id: string }[]>(['events', 'list', '--type', type])
    assert.equal(listed?.id, id)
  })

  test('an unknown id fails with 1', async () => {
    for (const args of [
      ['deliveries', 'show', 'dlv_x'],
      ['events', 'show', '../x'],
      ['events', 'body', 'evt_x'],
    ]) {
      const { code, stdout, stderr } = await server.cli(args)
      assert.deepEqual([code, stdout], [1, ''], args.join(' '))
      assert.match(stderr, /^posthorn: /)
    }
  })
})

test('a server with a key wants it', async (t) => {
  const apiKey = 'a-key-of-sixteen-or-more'
  const running = start(['start', '--port', '0'], { cwd: folderFor(t), env: { POSTHORN_API_KEY: apiKey } })
  t.after(() => running.stop('SIGKILL'))
  const POSTHORN_URL = /http:\/\/\S+/.exec(await running.line(/^Posthorn listens on/))![0]
  const without = await posthorn(['endpoints', 'list'], { env: { POSTHORN_URL } })
  assert.equal(without.code, 1)
  assert.match(without.stderr, /Set POSTHORN_API_KEY/)
  const withKey = await posthorn(['endpoints', 'list', '-o', 'json'], {
    env: { POSTHORN_URL, POSTHORN_API_KEY: apiKey },
  })
  assert.deepEqual([withKey.code, withKey.stdout], [0, '[]\n'])
})
