import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { openRelayScene, type RelayScene, type RelaySceneOptions, type Shown } from '../support/relay-scene.ts'
import { type Answer, openScriptedEndpoint, type Script } from '../support/scripted-endpoint.ts'

// The acceptance list of the relay, line by line, with a real edge, the real hub and a scripted local target.

const secondMs = 1_000
const quick = { strategy: 'exponential', baseDelay: '20ms', multiplier: 2, maxDelay: '100ms', jitter: 0 }

describe('the relay keeps what was asked of it', { concurrency: 2 }, () => {
  it('a delivery that failed with 5xx is tried again after its backoff', async (t) => {
    const { scene, target } = await open(t, [{ status: 503, body: 'not now' }, { status: 200 }])
    scene.startHub()
    const { id } = await scene.send({ n: 1 })
    await target.next()
    const waiting = await scene.delivery(id, ({ status, attempts }) => status === 'pending' && attempts === 1)
    assert.match(String(waiting.lastError), /503/)
    assert.equal(waitMs(waiting), secondMs)
    await target.next()
    const { attempts } = await scene.delivery(id, ({ status }) => status === 'delivered')
    assert.equal(attempts, 2)
    assert.equal(new Set(target.received.map(({ headers }) => headers['webhook-id'])).size, 1)
  })

  it('it waits 1 s, 2 s, 4 s … 2048 s, and then an hour each time', async (t) => {
    const expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600]
    const answers = expected.map(() => Promise.withResolvers<void>())
    const { scene, target } = await open(t, async (_, index) => {
      await answers[index]?.promise
      return { status: 500 }
    })
    scene.startHub()
    const { retry } = await scene.call<{ retry: unknown }>('GET', `/v1/endpoints/${scene.endpointId}`)
    assert.equal((retry as { preset?: string }).preset ?? retry, 'relay')
    const { id } = await scene.send({ n: 1 })
    const seen: number[] = []
    for (const [index, answer] of answers.entries()) {
      await target.next()
      // While delivery is paused no wait ends by itself, however late it is looked at.
      await scene.call('POST', '/v1/dispatch/pause')
      answer.resolve()
      const waiting = await scene.delivery(id, ({ status, attempts }) => status === 'pending' && attempts === index + 1)
      seen.push(waitMs(waiting) / secondMs)
      // By hand, so that nobody has to wait for an hour; a person's retry changes nothing about the budget.
      await scene.call('POST', `/v1/deliveries/${waiting.id}/retry`)
      await scene.call('POST', '/v1/dispatch/resume')
    }
    assert.deepEqual(seen, expected)
  })

  it('a 4xx ends it at once, 408, 425 and 429 too, and its message is kept', async (t) => {
    const statuses = [400, 404, 408, 425, 429, 422]
    const { scene, target } = await open(
      t,
      statuses.map((status) => ({ status, body: `no, said ${status}` })),
    )
    scene.startHub()
    const ids: string[] = []
    for (const status of statuses) ids.push((await scene.send({ status })).id)
    for (const [index, id] of ids.entries()) {
      const ended = await scene.delivery(id, ({ status }) => status !== 'pending' && status !== 'processing')
      assert.deepEqual([ended.status, ended.reason, ended.attempts], ['failed', 'permanent_status', 1])
      assert.equal(ended.lastError, `HTTP ${statuses[index]}: no, said ${statuses[index]}`)
      const { attemptLog } = await scene.call<Logged>('GET', `/v1/deliveries/${ended.id}`)
      assert.deepEqual(
        attemptLog.map(({ responseBody }) => responseBody),
        [`no, said ${statuses[index]}`],
      )
    }
    assert.equal(target.received.length, statuses.length)
  })

  it('what is pending for longer than it may becomes a dead letter, and somebody is told', async (t) => {
    const env = { POSTHORN_UPKEEP_EVERY: '1s', POSTHORN_UPKEEP_AFTER: '0s' }
    const ops = await openScriptedEndpoint()
    t.after(() => ops.close())
    const retry = { ...quick, maxDelay: '1h', baseDelay: '1h', maxAge: '1s' }
    const { scene, target } = await open(t, [{ status: 503 }, { status: 200 }], {
      env,
      endpoint: { retry, types: ['test.*'] },
    })
    await scene.call('POST', '/v1/endpoints', { url: ops.url, types: ['posthorn.dead_letters'] })
    scene.startHub()
    // Its time runs from here on: it is not to be over before there is a hub.
    await scene.connected()
    const { id } = await scene.send({ n: 1 })
    await target.next()
    const ended = await scene.delivery(id, ({ status }) => status === 'dead_letter')
    assert.deepEqual([ended.reason, ended.attempts], ['expired', 1])
    const told = JSON.parse((await ops.next()).body.toString())
    assert.equal(told.type, 'posthorn.dead_letters')
    assert.deepEqual(told.data, { endpointId: scene.endpointId, count: 1, reasons: { expired: 1 }, sample: ended.id })
    // The lane is free again.
    const { id: later } = await scene.send({ n: 2 })
    await scene.delivery(later, ({ status }) => status === 'delivered')
  })

  it('the default for that is seven days', async (t) => {
    const { scene } = await open(t, [{}])
    const { retry } = await scene.call<{ retry: { maxAge: string } }>('GET', `/v1/endpoints/${scene.endpointId}`)
    assert.equal(retry.maxAge, '7d')
  })

  it('what was delivered is deleted when its retention is over', async (t) => {
    const env = { POSTHORN_UPKEEP_EVERY: '1s', POSTHORN_UPKEEP_AFTER: '0s', POSTHORN_KEEP_DELIVERED: '1s' }
    const { scene } = await open(t, [{}], { env })
    scene.startHub()
    const { id } = await scene.send({ n: 1 })
    await scene.until<{ items: Shown[] }>('/v1/deliveries?status=delivered', ({ items }) => items.length === 1)
    await scene.until<{ items: Shown[] }>('/v1/deliveries', ({ items }) => items.length === 0)
    await assert.rejects(scene.call('GET', `/v1/events/${id}`), /answered 404/)
  })

  it('deliveries to an endpoint are in order: n+1 is not tried before n has ended', async (t) => {
    const { scene, target } = await open(t, inTurns, { endpoint: { retry: quick } })
    scene.startHub()
    for (let n = 0; n < 60; n++) await scene.send({ n })
    await scene.settled()
    const tries = target.received.map(({ body }) => JSON.parse(body.toString()).data.n as number)
    // Each is tried until it has ended, then comes the next; never anything in between.
    const expected = Array.from({ length: 60 }, (_, n) => Array.from({ length: triesOf(n) }, () => n)).flat()
    assert.deepEqual(tries, expected)
  })

  it('while no hub is connected nothing is tried and nothing is decided; when one is, it starts at once', async (t) => {
    const { scene, target } = await open(t, [{}])
    const { id } = await scene.send({ n: 1 })
    const { id: second } = await scene.send({ n: 2 })
    const first = scene.startHub()
    await scene.delivery(id, ({ status }) => status === 'delivered')
    await scene.delivery(second, ({ status }) => status === 'delivered')
    assert.equal(await first.stop(), 0)
    await scene.connected(false)

    const { id: held } = await scene.send({ n: 3 })
    // Another endpoint is served meanwhile: the dispatcher has had its turns.
    const other = await openScriptedEndpoint()
    t.after(() => other.close())
    await scene.call('POST', '/v1/endpoints', { url: other.url, types: ['*'] })
    await scene.send({ n: 4 })
    await other.next()
    const waiting = await scene.delivery(held, () => true)
    assert.deepEqual(
      [waiting.status, waiting.attempts, waiting.lastError, waiting.retryAfter],
      ['pending', 0, null, null],
    )
    assert.equal(target.received.length, 2)

    scene.startHub()
    const { attempts } = await scene.delivery(held, ({ status }) => status === 'delivered')
    assert.equal(attempts, 1)
    assert.deepEqual(await attemptLog(scene, held), [200])
  })

  it('on reconnect the wait of what the lost link cost is over', async (t) => {
    const answer = Promise.withResolvers<void>()
    const { scene, target } = await open(t, async (_, index) => {
      if (index === 0) await answer.promise
      return {}
    })
    scene.startHub()
    const { id } = await scene.send({ n: 1 })
    await target.next()
    scene.proxy.shape({ refuses: true })
    assert.equal(scene.proxy.cut('rst'), 1)
    const lost = await scene.delivery(id, ({ status, attempts }) => status === 'pending' && attempts === 1)
    assert.match(String(lost.lastError), /^LINK_LOST/)
    answer.resolve()
    scene.proxy.shape({ refuses: false })
    // The hub has the answer, and the target is not asked a second time.
    const ended = await scene.delivery(id, ({ status }) => status === 'delivered')
    assert.equal(ended.attempts, 2)
    assert.equal(target.received.length, 1)
  })
})

async function open(
  t: TestContext,
  script: Script | readonly Answer[],
  options: Omit<RelaySceneOptions, 'target'> = {},
) {
  const target = await openScriptedEndpoint(script)
  t.after(() => target.close())
  const scene = await openRelayScene(t, { target: target.url, ...options })
  return { scene, target }
}

type Logged = { attemptLog: { statusCode: number | null; responseBody: string | null }[] }

/** The wait that its last failure has brought it. */
function waitMs({ retryAfter, lastAttemptAt }: Shown): number {
  return Date.parse(String(retryAfter)) - Date.parse(String(lastAttemptAt))
}

function triesOf(n: number): number {
  return n % 7 === 3 ? 3 : 1
}

const inTurns: Script = ({ body, headers }) => {
  const { n } = JSON.parse(body.toString()).data as { n: number }
  if (Number(headers['posthorn-attempt']) < triesOf(n)) return { status: 503 }
  return { status: n % 10 === 9 ? 422 : 200 }
}

async function attemptLog(scene: RelayScene, eventId: string): Promise<readonly (number | null)[]> {
  const { id } = await scene.delivery(eventId, () => true)
  const { attemptLog } = await scene.call<Logged>('GET', `/v1/deliveries/${id}`)
  return attemptLog.map(({ statusCode }) => statusCode)
}
