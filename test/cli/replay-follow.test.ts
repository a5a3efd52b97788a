import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { start } from './command.ts'
import { folderFor, type Server, serverFor, sinkFor } from './server.ts'

type Replay = Readonly<{ id: string; status: string; delivered: number; failedAgain: number; waiting: number }>

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

/** Dead letters of a type of their own, at a sink that refuses them and then answers by the script. */
async function deadLetters(t: TestContext, count: number, script: string) {
  topics += 1
  const type = `follow${topics}.one`
  const sink = await sinkFor(t, `422x${count},${script}`)
  const { id: endpoint } = await server.json<{ id: string }>(['endpoints', 'create', sink.url, '--types', type])
  for (let n = 0; n < count; n++) await server.cli(['send', type, String(n), '--wait'])
  return { type, endpoint }
}

const replay = (type: string, ...flags: readonly string[]) =>
  server.cli(['dlq', 'replay', '--type', type, '--yes', ...flags])

describe('a followed replay', () => {
  test('of which all fail again says so, and its exit code is no success', async (t) => {
    const { type } = await deadLetters(t, 3, '422')
    const done = await replay(type, '--follow')
    assert.equal(done.code, 1)
    const line = /(rpl_\w+) is settled: 3 of 3 requeued, 0 delivered, 3 failed again, 0 waiting\n/.exec(done.stderr)
    assert.ok(line, done.stderr)
    const id = line[1] as string
    assert.match(done.stderr, new RegExp(`3 of 3 deliveries failed again; see posthorn dlq list --replay ${id}`))
    const shown = await server.json<Replay>(['replays', 'show', id])
    assert.deepEqual([shown.status, shown.delivered, shown.failedAgain, shown.waiting], ['settled', 0, 3, 0])
    const other = await deadLetters(t, 1, '200')
    assert.equal((await server.json<unknown[]>(['dlq', 'list', '--type', other.type])).length, 1)
    const listed = (verb: string) => server.json<{ type: string }[]>([verb, 'list', '--replay', id])
    for (const verb of ['dlq', 'deliveries'])
      assert.deepEqual(
        (await listed(verb)).map((one) => one.type),
        Array(3).fill(type),
      )
    const again = await server.cli(['replays', 'show', id, '--follow'])
    assert.equal(again.code, 1, 'asked again, the answer is the same')
    assert.match((await server.cli(['replays', 'list'])).stdout, /REQUEUED +DELIVERED +FAILED AGAIN +WAITING/)
  })

  test('with one that fails again is no success either', async (t) => {
    const { type } = await deadLetters(t, 2, '422,200')
    const done = await replay(type, '--follow', '-o', 'json')
    assert.equal(done.code, 1)
    const { status, delivered, failedAgain } = JSON.parse(done.stdout)
    assert.deepEqual([status, delivered, failedAgain], ['settled', 1, 1])
    assert.match(done.stderr, /1 of 2 deliveries failed again/)
  })

  test('whose deliveries wait says what for; Ctrl-C ends it with code 4, and the replay goes on', async (t) => {
    const { type, endpoint } = await deadLetters(t, 1, '200')
    await server.cli(['endpoints', 'pause', endpoint])
    const env = { POSTHORN_URL: server.url }
    const running = start(['dlq', 'replay', '--type', type, '--yes', '--follow'], { env })
    t.after(() => running.stop('SIGKILL'))
    await running.line(new RegExp(`waiting at ${endpoint}: its endpoint is paused; .*HTTP 422`))
    const { code, stderr } = await running.stop('SIGINT')
    assert.equal(code, 4, stderr)
    assert.match(stderr, /waits for outcomes: 1 of 1 requeued, 0 delivered, 0 failed again, 1 waiting\n/)
    const id = /rpl_\w+/.exec(stderr)?.[0] as string
    assert.match(stderr, new RegExp(`1 delivery still waiting .*posthorn replays show ${id} --follow`))
    await server.cli(['endpoints', 'resume', endpoint])
    const done = await server.cli(['replays', 'show', id, '--follow'])
    assert.equal(done.code, 0, done.stderr)
    assert.match(done.stderr, /is settled: 1 of 1 requeued, 1 delivered/)
  })

  test('until everything is requeued ends then, and is not called finished while deliveries wait', async (t) => {
    const { type, endpoint } = await deadLetters(t, 1, '200')
    await server.cli(['endpoints', 'pause', endpoint])
    const done = await replay(type, '--follow=requeued')
    assert.equal(done.code, 0, done.stderr)
    assert.match(done.stderr, /waits for outcomes: 1 of 1 requeued, 0 delivered, 0 failed again, 1 waiting\n/)
  })

  test('that could not requeue what has no endpoint any more is no success', async (t) => {
    const { type, endpoint } = await deadLetters(t, 2, '200')
    await server.cli(['endpoints', 'delete', endpoint, '--yes'])
    const done = await replay(type, '--follow')
    assert.equal(done.code, 1, done.stderr)
    assert.match(done.stderr, /0 of 2 requeued, .* 2 skipped\n/)
    assert.match(done.stderr, /2 deliveries could not be requeued: the endpoint is gone/)
  })

  test('that is paused or cancelled is not called done', async (t) => {
    const { type } = await deadLetters(t, 3, '200')
    const id = (await replay(type, '--rate', '0.01')).stdout.trim()
    await server.cli(['replays', 'pause', id])
    const paused = await server.cli(['replays', 'show', id, '--follow'])
    assert.equal(paused.code, 4, paused.stderr)
    assert.match(paused.stderr, /is paused; posthorn replays resume/)
    await server.cli(['replays', 'cancel', id])
    const cancelled = await server.cli(['replays', 'show', id, '--follow'])
    assert.equal(cancelled.code, 1, cancelled.stderr)
    assert.match(cancelled.stderr, /was cancelled before everything was requeued/)
  })

  test('takes no id for the word of --follow', async () => {
    const wrong = await server.cli(['replays', 'show', '--follow', 'rpl_1'])
    assert.equal(wrong.code, 2)
    assert.match(wrong.stderr, /outcomes or requeued; put --follow after rpl_1/)
  })

  test('of an endpoint that recovers is followed in the same way', async (t) => {
    const { endpoint } = await deadLetters(t, 1, '422')
    const done = await server.cli(['endpoints', 'recover', endpoint, '--since', '1h', '--yes', '--follow'])
    assert.equal(done.code, 1)
    assert.match(done.stderr, /1 of 1 requeued, 0 delivered, 1 failed again/)
    assert.match(done.stderr, /^.*1 of 1 deliveries failed again; see/m)
  })

  // The last one: nothing is served after it.
  test('whose server stops in between is not called failed: its end is not known', async (t) => {
    const { type, endpoint } = await deadLetters(t, 1, '200')
    await server.cli(['endpoints', 'pause', endpoint])
    const running = start(['dlq', 'replay', '--type', type, '--yes', '--follow'], { env: { POSTHORN_URL: server.url } })
    t.after(() => running.stop('SIGKILL'))
    await running.line(/waiting at/)
    await server.running.stop('SIGKILL')
    const { code, stderr } = await running.ended
    assert.equal(code, 4, stderr)
    assert.match(stderr, /The replay goes on with the server: posthorn replays show rpl_\w+ --follow/)
  })
})
