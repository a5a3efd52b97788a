import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { openApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { type Answer, openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import type { Json } from './served.ts'

const key = 'the-key-of-the-admin'

type Running = Readonly<{
  get: (path: string, apiKey?: string) => Promise<Json>
  post: (path: string, body?: unknown) => Promise<Json>
  /** Asks again and again until it is as it should be. */
  until: (path: string, fits: (answer: Json) => boolean) => Promise<Json>
  stop: () => Promise<void>
}>

/** Posthorn on a file that can be opened again. */
async function scene(t: TestContext, env: Record<string, string> = {}) {
  const folder = await tempFolder()
  const file = join(folder.path, 'posthorn.db')
  const stops: (() => Promise<void>)[] = []
  t.after(async () => {
    for (const stop of stops) await stop()
    await folder.remove()
  })
  const open = async (): Promise<Running> => {
    const config = loadConfig({
      flags: {},
      env: {
        ...{ POSTHORN_PORT: '0', POSTHORN_DATABASE_URL: `sqlite:${file}`, POSTHORN_ALLOW_PRIVATE: '127.0.0.1/32' },
        ...{ POSTHORN_LOG_LEVEL: 'silent', POSTHORN_API_KEY: key, ...env },
      },
    })
    const app = await openApp(config, { onFatal: assert.fail })
    stops.push(() => app.stop())
    const call = async (method: string, path: string, body?: unknown, apiKey = key): Promise<Json> => {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
      const sent = body === undefined ? {} : { body: JSON.stringify(body) }
      return (await fetch(`${app.url}${path}`, { method, headers, ...sent })).json()
    }
    const get: Running['get'] = (path, apiKey) => call('GET', path, undefined, apiKey)
    const until: Running['until'] = async (path, fits) => {
      for (;;) {
        const answer = await get(path)
        if (fits(answer)) return answer
      }
    }
    return { get, post: (path, body) => call('POST', path, body ?? {}), until, stop: () => app.stop() }
  }
  return { file, open }
}

async function sinkFor(t: TestContext, answers: readonly Answer[]) {
  const sink = await openScriptedEndpoint(answers)
  t.after(() => sink.close())
  return sink
}

const once = { strategy: 'schedule', delays: ['1s'], maxAttempts: 1 }

describe('the status', () => {
  test('of a server with nothing to complain about is ok, and says what to type', async (t) => {
    const { open } = await scene(t)
    const { get, post, until } = await open()
    const sink = await sinkFor(t, [{ status: 200 }])
    const { id } = await post('/v1/endpoints', { url: sink.url, types: ['a'] })
    await post('/v1/events', { type: 'a', data: 1 })
    const status = await until('/v1/status', ({ rates }) => rates.deliveredPerSecond > 0)
    assert.deepEqual([status.state, status.problems, status.attention, status.endpoints], ['ok', [], [], 1])
    assert.deepEqual(status.deadLetters, { last24h: 0, byReason: {}, kept: 0 })
    assert.ok(status.rates.acceptedPerSecond > 0 && status.rates.failedPerSecond === 0)
    assert.deepEqual(status.hints, ['posthorn tail'])
    const stats = await get(`/v1/endpoints/${id}/stats`)
    assert.deepEqual([stats.why, stats.successRate, stats.attempts.total, stats.waiting], [null, 1, 1, 0])
  })

  test('with an endpoint that is down names it, its error and what waits, before and after a restart', async (t) => {
    const { open } = await scene(t)
    const first = await open()
    const sink = await sinkFor(t, [{ status: 503 }])
    const breaker = { threshold: 3, cooldown: '1h' }
    const given = { url: sink.url, types: ['a'], breaker, concurrency: 1, description: 'Shop' }
    const { id } = await first.post('/v1/endpoints', given)
    for (let n = 0; n < 7; n += 1) await first.post('/v1/events', { type: 'a', data: n })
    const isOpen = ({ attention }: Json) => attention[0]?.breaker === 'open' && attention[0].waiting === 7
    const before = await first.until('/v1/status', isOpen)
    await first.stop()
    const { get, until } = await open()
    for (const status of [before, await until('/v1/status', isOpen)]) {
      assert.equal(status.state, 'trouble')
      const [item] = status.attention
      assert.deepEqual(
        [item.endpointId, item.description, item.url, item.why, item.failures, item.lastError],
        [id, 'Shop', sink.url, 'breaker_open', 3, 'HTTP 503'],
      )
      assert.ok(Date.parse(item.nextProbeAt) > Date.now() && Date.parse(item.oldestAt) <= Date.now())
      assert.deepEqual([status.waiting.count, status.attentionMore], [7, 0])
      assert.equal(status.hints[0], `posthorn deliveries list --endpoint ${id} --status pending`)
    }
    assert.deepEqual([before.attention[0].successRate, before.attention[0].attempts.total], [0, 3])
    // Attempts are counted since the start: it says so, and does not claim a rate.
    const { attention, rates } = await get('/v1/status')
    assert.deepEqual([attention[0].successRate, attention[0].attempts.total], [null, 0])
    assert.ok(Date.parse(rates.since) > Date.parse(before.rates.since))
  })

  test('tells dead letters of the last day by reason, also after a restart, until they are dealt with', async (t) => {
    const { open } = await scene(t)
    const first = await open()
    const sink = await sinkFor(t, [])
    sink.answer(({ body }) => ({ status: String(body).includes('bad') ? 400 : 503 }))
    const { id } = await first.post('/v1/endpoints', { url: sink.url, types: ['a'], retry: once, breaker: false })
    for (const data of ['bad', 'x', 'y']) await first.post('/v1/events', { type: 'a', data })
    const hasAll = ({ deadLetters }: Json) => deadLetters.last24h === 3 && deadLetters.kept === 3
    const expected = { last24h: 3, byReason: { exhausted: 2, permanent_status: 1 }, kept: 3 }
    const before = await first.until('/v1/status', hasAll)
    assert.deepEqual([before.state, before.deadLetters], ['trouble', expected])
    await first.stop()
    const { post, until, get } = await open()
    const after = await until('/v1/status', hasAll)
    assert.deepEqual([after.state, after.deadLetters, after.attention[0].why], ['trouble', expected, 'dead_letters'])
    assert.deepEqual(after.attention[0].deadLetters, expected)
    assert.ok(after.hints.includes(`posthorn dlq list --endpoint ${id} --group error`))
    await post('/v1/dead-letters/discard', { all: true })
    const dealtWith = await until('/v1/status', ({ deadLetters }) => deadLetters.kept === 0)
    assert.deepEqual([dealtWith.state, dealtWith.attention, dealtWith.deadLetters.last24h], ['ok', [], 3])
    assert.deepEqual((await get(`/v1/endpoints/${id}/stats`)).deadLetters, { ...expected, kept: 0 })
  })

  test('what a person cancels is counted, and no trouble', async (t) => {
    const { open } = await scene(t)
    const { get, post, until } = await open()
    const sink = await sinkFor(t, [{ status: 200 }])
    const { id } = await post('/v1/endpoints', { url: sink.url, types: ['a'] })
    await post(`/v1/endpoints/${id}/pause`)
    const event = await post('/v1/events', { type: 'a', data: 1 })
    const paused = await until('/v1/status', ({ attention }) => attention.length === 1)
    assert.deepEqual([paused.state, paused.attention[0].why], ['degraded', 'paused'])
    const [delivery] = (await get(`/v1/events/${event.id}`)).deliveries
    await post(`/v1/deliveries/${delivery.id}/cancel`)
    const status = await until(
      '/v1/status',
      ({ deadLetters, waiting }) => deadLetters.kept === 1 && waiting.count === 0,
    )
    assert.deepEqual([status.state, status.deadLetters.byReason], ['ok', { cancelled: 1 }])
  })

  test('all delivery paused is said, with the command that ends it', async (t) => {
    const { open } = await scene(t, { POSTHORN_PAUSED: 'true' })
    const { get } = await open()
    const { state, problems, hints } = await get('/v1/status')
    assert.deepEqual([state, problems, hints], ['degraded', ['All delivery is paused.'], ['posthorn dispatch resume']])
  })

  test('a key with a tenant sees its own part alone', async (t) => {
    const { open } = await scene(t)
    const { get, post, until } = await open()
    const sink = await sinkFor(t, [{ status: 400 }])
    const create = async (tenant: string) =>
      (await post('/v1/endpoints', { url: sink.url, types: ['a'], tenant, breaker: false })).id
    const [own, others] = [await create('acme'), await create('rival')]
    const { key: apiKey } = await post('/v1/keys', { role: 'read', tenant: 'acme' })
    await post('/v1/events', { type: 'a', data: 1, tenant: 'acme' })
    for (const data of [1, 2]) await post('/v1/events', { type: 'a', data, tenant: 'rival' })
    await until('/v1/status', ({ deadLetters, attention }) => deadLetters.kept === 3 && attention.length === 2)
    const status = await get('/v1/status', apiKey)
    assert.deepEqual(
      [status.endpoints, status.deadLetters.last24h, status.deadLetters.kept, status.attention.length],
      [1, 1, 1, 1],
    )
    assert.equal(status.attention[0].endpointId, own)
    assert.ok(!JSON.stringify(status).includes(others))
    assert.equal((await get('/v1/status?tenant=rival', apiKey)).status, 404)
    assert.equal((await get(`/v1/endpoints/${others}/stats`, apiKey)).status, 404)
    assert.equal((await get('/v1/status?tenant=rival')).deadLetters.last24h, 2)
  })

  test('of thousands of endpoints the worst are listed, and the others counted', async (t) => {
    const { file, open } = await scene(t)
    const store = await openStoreFile(file)
    const endpoints = Array.from({ length: 3_000 }, () => anEndpoint({ types: ['never'], status: 'paused' }))
    await Promise.all(endpoints.map((endpoint) => store.putEntry('endpoint', endpoint, 0)))
    // The first has the most to lose.
    const arrivals = endpoints.slice(0, 1_000).flatMap((endpoint, index) => {
      return Array.from({ length: index === 0 ? 5 : 1 }, () =>
        anArrival(endpoint, { event: { receivedAt: Date.now() } }),
      )
    })
    await store.append(arrivals)
    await store.close()
    const { get, until } = await open()
    const status = await until('/v1/status?limit=7', ({ waiting }) => waiting.count === 1_004)
    assert.deepEqual([status.endpoints, status.attention.length, status.attentionMore], [3_000, 7, 993])
    assert.deepEqual([status.attention[0].endpointId, status.attention[0].waiting], [endpoints[0]?.id, 5])
    assert.ok(status.hints.length <= 4)
    assert.equal((await get('/v1/status')).attention.length, 50)
    const wrong = await get('/v1/status?limit=501')
    assert.deepEqual([wrong.status, wrong.errors[0].path], [422, 'limit'])
  })
})

describe('the list of breakers', () => {
  test('shows for an open one its failures, error, target, what waits and the next probe, after a restart too', async (t) => {
    const { open } = await scene(t)
    const first = await open()
    const sink = await sinkFor(t, [{ status: 500 }])
    const breaker = { threshold: 2, cooldown: '1h' }
    const { id } = await first.post('/v1/endpoints', { url: sink.url, types: ['a'], breaker, concurrency: 1 })
    for (let n = 0; n < 4; n += 1) await first.post('/v1/events', { type: 'a', data: n })
    const fits = ({ items }: Json) => items[0]?.waiting === 4
    const before = await first.until('/v1/breakers?state=open', fits)
    await first.stop()
    const { until } = await open()
    for (const { items } of [before, await until('/v1/breakers?state=open', fits)]) {
      const [item] = items
      assert.deepEqual(
        [item.endpointId, item.state, item.failures, item.lastError, item.url, item.waiting],
        [id, 'open', 2, 'HTTP 500', sink.url, 4],
      )
      assert.equal(item.nextProbeAt, item.until)
      assert.ok(Date.parse(item.lastErrorAt) <= Date.now())
    }
  })
})

describe('a list of deliveries', () => {
  test('says what each waits for, and the error of the endpoint that keeps it waiting', async (t) => {
    const { open } = await scene(t)
    const { get, post, until } = await open()
    const sink = await sinkFor(t, [{ status: 503 }])
    const breaker = { threshold: 1, cooldown: '1h' }
    const { id } = await post('/v1/endpoints', { url: sink.url, types: ['a'], breaker, concurrency: 1 })
    const { id: eventId } = await post('/v1/events', { type: 'a', data: 1 })
    const isParked = ({ items }: Json) => items[0]?.waitsFor === 'breaker'
    const tried = (await until(`/v1/deliveries?endpoint=${id}`, isParked)).items[0]
    assert.deepEqual([tried.lastError, tried.endpointError], ['HTTP 503', 'HTTP 503'])
    const second = await post('/v1/events', { type: 'a', data: 2 })
    const parked = (await until(`/v1/deliveries?event=${second.id}`, isParked)).items[0]
    assert.deepEqual([parked.attempts, parked.lastError, parked.endpointError], [0, null, 'HTTP 503'])
    const { until: end } = (await get('/v1/breakers?state=open')).items[0]
    assert.deepEqual([tried.waitsUntil, parked.waitsUntil], [end, end])
    const shown = (await get(`/v1/events/${eventId}`)).deliveries[0]
    assert.deepEqual([shown.waitsFor, shown.waitsUntil], ['breaker', end])
  })
})
