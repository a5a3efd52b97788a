import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { hasScript, onTerminal } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

type Delivery = Readonly<{ id: string; eventId: string; status: string; reason: string | null; attempts: number }>
type Replay = Readonly<{ id: string; status: string; matched: number; requeued: number; note: string; rate: number }>

const cleanups: (() => unknown)[] = []
let server: Server
let topics = 0

before(async () => {
  const t = { after: (fn: () => unknown) => void cleanups.unshift(fn) }
  server = await serverFor(t, folderFor(t))
})
after(async () => {
  for (const cleanup of cleanups) await cleanup()
})

/** An endpoint of its own that refuses `count` events for good and takes everything after them. */
async function withDeadLetters(t: TestContext, count: number) {
  topics += 1
  const type = `dead${topics}.one`
  const sink = await sinkFor(t, count === 0 ? '200' : `422x${count},200`)
  const { id: endpoint } = await server.json<{ id: string }>(['endpoints', 'create', sink.url, '--types', type])
  for (let n = 0; n < count; n++) await server.cli(['send', type, String(n), '--wait'])
  const dead = await server.json<Delivery[]>(['dlq', 'list', '--type', type])
  assert.equal(dead.length, count)
  return { type, endpoint, sink, dead }
}

const delivered = (type: string) =>
  server.json<Delivery[]>(['deliveries', 'list', '--type', type, '--status', 'delivered'])

describe('posthorn dlq', () => {
  test('says that what it requeues waits, where the breaker is open', async (t) => {
    const sink = await sinkFor(t, '503x5,200')
    const retry = { strategy: 'schedule', delays: ['1ms'], jitter: 0, maxAttempts: 5 }
    const create = ['endpoints', 'create', sink.url, '--types', 'down.one', '--retry', JSON.stringify(retry)]
    const { id } = await server.json<{ id: string }>(create)
    await server.cli(['send', 'down.one', '1', '--wait'])
    const replay = await server.cli(['dlq', 'replay', '--endpoint', id, '--yes', '--follow=requeued'])
    assert.equal(replay.code, 0, replay.stderr)
    assert.match(replay.stderr, /rpl_\w+ waits for outcomes: 1 of 1 requeued, 0 delivered, 0 failed again, 1 waiting\n/)
    assert.match(replay.stderr, new RegExp(`${id}: the breaker is open, .*posthorn breakers reset ${id}\n`))
    const other = await withDeadLetters(t, 1)
    const quiet = await server.cli(['dlq', 'replay', '--type', other.type, '--yes'])
    assert.doesNotMatch(quiet.stderr, /breaker/, 'the selection does not touch the endpoint that is down')
    await server.cli(['breakers', 'reset', id])
  })

  test('says that what it requeues waits, where the endpoint is paused', async (t) => {
    const { type, endpoint } = await withDeadLetters(t, 1)
    await server.cli(['endpoints', 'pause', endpoint])
    const paused = `${endpoint}: paused, requeued deliveries wait; to resume: posthorn endpoints resume ${endpoint}\n`
    const dry = await server.cli(['dlq', 'replay', '--type', type, '--dry-run'])
    assert.equal(dry.stderr, `1 dead letter would be requeued\n${paused}`)
    const unasked = await server.cli(['dlq', 'replay', '--type', type])
    assert.ok(unasked.stderr.startsWith(paused), `before the question: ${unasked.stderr}`)
    const replay = await server.cli(['dlq', 'replay', '--type', type, '--yes'])
    assert.ok(replay.stderr.startsWith(paused), replay.stderr)
  })

  test('says that a replay leaves cancelled ones out instead of only that nothing matches', async (t) => {
    const { type, endpoint } = await withDeadLetters(t, 0)
    await server.cli(['endpoints', 'pause', endpoint])
    for (const n of ['1', '2']) await server.cli(['send', type, n])
    await server.cli(['deliveries', 'cancel', '--type', type, '--yes'])
    const replay = ['dlq', 'replay', '--type', type]
    const hint = 'left out: 2 cancelled; to requeue them: add --reason cancelled\n'
    const dry = await server.cli([...replay, '--dry-run'])
    assert.equal(dry.stderr, `0 dead letters would be requeued\n${hint}`)
    const real = await server.cli([...replay, '--yes'])
    assert.equal(real.stderr, `no dead letter matches\n${hint}`)
    const recovery = await server.cli(['endpoints', 'recover', endpoint, '--since', '1h', '--dry-run'])
    const command = /left out: 2 cancelled; to requeue them: posthorn (.*)\n/.exec(recovery.stderr)?.[1]
    assert.ok(command, recovery.stderr)
    const named = await server.cli([...command.split(' '), '--dry-run'])
    assert.match(named.stderr, /^2 dead letters would be requeued\n/)
    assert.doesNotMatch(named.stderr, /left out/)
  })

  test('lists dead letters, one by one and by error, and shows one with its attempts', async (t) => {
    const { type, dead } = await withDeadLetters(t, 2)
    const table = await server.cli(['dlq', 'list', '--type', type])
    assert.match(table.stdout, /^ID +STATUS .*REASON +LAST ERROR\n/)
    assert.match(table.stdout, /permanent_status +HTTP 422/)
    const groups = await server.json<{ count: number; error: string }[]>([
      'dlq',
      'list',
      '--type',
      type,
      '--group',
      'error',
    ])
    assert.deepEqual(
      groups.map(({ count }) => count),
      [2],
    )
    const ofOne = await server.json<Delivery[]>(['dlq', 'list', '--event', dead[0]!.eventId])
    assert.deepEqual(ofOne, [dead[0]])
    const shown = await server.cli(['dlq', 'show', dead[0]!.id])
    assert.match(shown.stdout, /attempt 1 .*permanent 422/)
    const none = await server.cli(['dlq', 'list', '--type', 'nothing.here'])
    assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', 'no dead letter matches\n'])
  })

  test('groups by error and does not put different statuses into one group', async (t) => {
    const sink = await sinkFor(t, '400,404,422,401,400')
    await server.json(['endpoints', 'create', sink.url, '--types', 'statuses.one'])
    for (let n = 0; n < 5; n++) await server.cli(['send', 'statuses.one', String(n), '--wait'])
    const list = ['dlq', 'list', '--type', 'statuses.one', '--group', 'error']
    const groups = await server.json<{ count: number; error: string }[]>(list)
    assert.deepEqual(Object.fromEntries(groups.map(({ error, count }) => [error, count])), {
      'HTTP 400': 2,
      'HTTP 401': 1,
      'HTTP 404': 1,
      'HTTP 422': 1,
    })
  })

  test('replays what a filter names: first dry, then for good, and follows it to its end', async (t) => {
    const { type, endpoint } = await withDeadLetters(t, 2)
    const filter = ['--endpoint', endpoint, '--reason', 'permanent_status', '--since', '1h']
    const dry = await server.cli(['dlq', 'replay', ...filter, '--dry-run'])
    assert.deepEqual([dry.code, dry.stderr], [0, '2 dead letters would be requeued\n'])
    assert.deepEqual(await delivered(type), [])
    const done = await server.cli(['dlq', 'replay', ...filter, '--yes', '--follow', '--note', 'fixed'])
    assert.equal(done.code, 0, done.stderr)
    assert.match(done.stderr, /rpl_\w+ is settled: 2 of 2 requeued, 2 delivered, 0 failed again, 0 waiting\n/)
    const [replay] = await server.json<Replay[]>(['replays', 'list', '--status', 'settled', '--limit', '1'])
    assert.deepEqual([replay?.note, replay?.requeued], ['fixed', 2])
  })

  test('by ids requeues just those, and says so when nothing matches', async (t) => {
    const { dead } = await withDeadLetters(t, 2)
    const id = dead[0]!.id
    const { matched } = await server.json<Replay>(['dlq', 'replay', '--ids', id, '--yes'])
    assert.equal(matched, 1)
    const none = await server.cli(['dlq', 'replay', '--type', 'nothing.here', '--yes'])
    assert.deepEqual([none.code, none.stderr], [0, 'no dead letter matches\n'])
  })

  test('does nothing in a pipe without --yes', async (t) => {
    const { type } = await withDeadLetters(t, 1)
    for (const verb of ['replay', 'discard']) {
      const { code, stderr } = await server.cli(['dlq', verb, '--type', type])
      assert.equal(code, 2)
      assert.match(stderr, /1 dead letter.*--yes/)
    }
    assert.equal((await server.json<Delivery[]>(['dlq', 'list', '--type', type])).length, 1)
  })

  test('discards what a filter names, and everything only with --all', async (t) => {
    const { type } = await withDeadLetters(t, 2)
    assert.match((await server.cli(['dlq', 'discard', '--yes'])).stderr, /Say which ones/)
    assert.equal((await server.cli(['dlq', 'discard', '--all', '--type', type, '--yes'])).code, 2)
    const dry = await server.cli(['dlq', 'discard', '--type', type, '--dry-run'])
    assert.match(dry.stderr, /2 dead letters would be deleted/)
    const done = await server.cli(['dlq', 'discard', '--type', type, '--yes'])
    assert.deepEqual([done.code, done.stderr], [0, '2 dead letters deleted\n'])
    assert.deepEqual(await server.json(['dlq', 'list', '--type', type]), [])
  })

  test('asks on a terminal, and takes no for an answer', { skip: !hasScript && 'needs script(1)' }, async (t) => {
    const { type } = await withDeadLetters(t, 1)
    const env = { POSTHORN_URL: server.url }
    const no = await onTerminal(['dlq', 'discard', '--type', type], { env, input: 'n\r' })
    assert.equal(no.code, 1)
    assert.match(no.stdout, /delete 1 dead letter for good\? \[y\/N\] [\s\S]*nothing was deleted/)
    const yes = await onTerminal(['dlq', 'replay', '--type', type, '--follow'], { env, input: 'y\r' })
    assert.equal(yes.code, 0, yes.stdout)
    assert.match(yes.stdout, /requeue 1 dead letter\? \[y\/N\] [\s\S]*is settled: 1 of 1 requeued, 1 delivered/)
  })
})

describe('posthorn replays', () => {
  test('shows, pauses, resumes and cancels', async (t) => {
    const { type } = await withDeadLetters(t, 5)
    const { id, rate } = await server.json<Replay>(['dlq', 'replay', '--type', type, '--rate', '0.01', '--yes'])
    assert.equal(rate, 0.01)
    for (const [verb, status] of [
      ['pause', 'paused'],
      ['resume', 'running'],
      ['cancel', 'cancelled'],
    ] as const) {
      const { code, stderr } = await server.cli(['replays', verb, id])
      assert.equal(code, 0, stderr)
      assert.match(stderr, new RegExp(`^${id} is ${status}: [012] of 5 requeued, .*\n$`))
    }
    const shown = await server.cli(['replays', 'show', id])
    assert.match(shown.stdout, /status +cancelled/)
    const refused = await server.cli(['replays', 'pause', id])
    assert.deepEqual([refused.code, /is cancelled: it cannot pause now/.test(refused.stderr)], [1, true])
    const followed = await server.cli(['replays', 'show', id, '--follow'])
    assert.equal(followed.code, 1)
  })
})

describe('the rest of operating', () => {
  test('recovers an endpoint since a time', async (t) => {
    const { endpoint } = await withDeadLetters(t, 2)
    const dry = await server.cli(['endpoints', 'recover', endpoint, '--since', '1h', '--dry-run'])
    assert.match(dry.stderr, /2 deliveries would be requeued/)
    const { code, stderr } = await server.cli(['endpoints', 'recover', endpoint, '--since', '1h', '--yes', '--follow'])
    assert.equal(code, 0, stderr)
    assert.match(stderr, /is settled: 2 of 2 requeued, 2 delivered/)
    assert.equal((await server.cli(['endpoints', 'recover', endpoint])).code, 2)
  })

  test('cancels a delivery that waits, and lists and resets breakers', async (t) => {
    const sink = await sinkFor(t, '503')
    const flags = ['--types', 'wait.*', '--retry', '{"strategy":"schedule","delays":["1h"],"maxAttempts":9}']
    const breaker = ['--breaker', '{"threshold":1,"cooldown":"1h"}', '--disable-after', 'off']
    const created = await server.json<{ id: string; disableAfter: unknown }>([
      'endpoints',
      'create',
      sink.url,
      ...flags,
      ...breaker,
    ])
    assert.equal(created.disableAfter, false)
    const arrived = sink.next()
    await server.cli(['send', 'wait.one'])
    await arrived
    // Breakers of other tests may be open too.
    const isOpen = async () => {
      const open = await server.json<{ endpointId: string }[]>(['breakers', 'list', '--state', 'open'])
      return open.some(({ endpointId }) => endpointId === created.id)
    }
    while (!(await isOpen()));
    const reset = await server.cli(['breakers', 'reset', created.id])
    assert.deepEqual([reset.code, reset.stderr], [0, `the breaker of ${created.id} is closed\n`])
    assert.equal(await isOpen(), false)
    const [waiting] = await server.json<Delivery[]>(['deliveries', 'list', '--endpoint', created.id])
    const cancelled = await server.cli(['deliveries', 'cancel', waiting!.id])
    assert.deepEqual([cancelled.code, cancelled.stderr], [0, `${waiting!.id} is cancelled\n`])
    const again = await server.cli(['deliveries', 'cancel', waiting!.id])
    assert.deepEqual([again.code, /has ended \(failed\)/.test(again.stderr)], [1, true])
  })
})
