import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { call, openMembers } from '../support/members.ts'
import { noPostgres } from '../support/postgres.ts'
import { anOwnRedis, noOwnRedis } from '../support/redis.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import type { ServerProcess } from '../support/server-process.ts'

type Told = Readonly<{ kind: string; eventId?: string; deliveryId?: string; dropped?: number }>

async function metricOf({ url }: ServerProcess, series: string): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text()
  const line = page.split('\n').find((each) => each.startsWith(`${series} `))
  assert.ok(line !== undefined, `there is no ${series}`)
  return Number(line.slice(series.length + 1))
}

const attemptsSeries = 'posthorn_attempts_total{outcome="delivered",kind="http"}'
const sentSeries = 'posthorn_notices_sent_total{result="sent"}'

async function listen({ url }: ServerProcess, query = '') {
  const stop = new AbortController()
  const response = await fetch(`${url}/v1/stream${query}`, { signal: stop.signal })
  const heard: Told[] = []
  const read = async () => {
    let text = ''
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) if (line.startsWith('data: ')) heard.push(JSON.parse(line.slice('data: '.length)))
    }
  }
  void read().catch(() => {})
  return { heard, stop: () => stop.abort() }
}

function untilListening(server: ServerProcess, members: number): Promise<true> {
  return eventually(`${members} others listen`, async () =>
    (await metricOf(server, 'posthorn_members_listening')) === members ? true : null,
  )
}

/** Two servers that know each other and one endpoint. */
async function openScene(t: TestContext, env: Record<string, string> = {}) {
  const members = await openMembers()
  t.after(() => members[Symbol.asyncDispose]())
  const [a, b] = await Promise.all([members.start(env), members.start(env)])
  const sink = await openScriptedEndpoint()
  t.after(() => sink.close())
  await call(a, 'POST', '/v1/endpoints', { url: sink.url, types: ['order.*'] })
  await eventually('both know the endpoint', async () => {
    const { items } = await call<{ items: unknown[] }>(b, 'GET', '/v1/endpoints')
    return items.length === 1 ? true : null
  })
  let count = 0
  const send = async (server: ServerProcess): Promise<string> => {
    count += 1
    return (await call<{ id: string }>(server, 'POST', '/v1/events', { type: 'order.created', data: 1 })).id
  }
  const allDelivered = () =>
    eventually('all are delivered', async () =>
      (await metricOf(a, attemptsSeries)) + (await metricOf(b, attemptsSeries)) === count ? true : null,
    )
  return { a, b, send, allDelivered }
}

type Scene = Awaited<ReturnType<typeof openScene>>

async function showsBoth({ a, b, send }: Scene, heard: readonly Told[]): Promise<void> {
  const ids: string[] = []
  for (let n = 0; n < 20; n++) ids.push(await send(n % 2 === 0 ? b : a))
  const of = (wanted: string) =>
    heard.flatMap(({ kind, eventId = '' }) => (kind === wanted && ids.includes(eventId) ? eventId : []))
  await eventually('all are shown', async () =>
    of('event.accepted').length >= ids.length && of('attempt.settled').length >= ids.length ? true : null,
  )
  assert.deepEqual(of('event.accepted').toSorted(), ids.toSorted())
  assert.deepEqual(of('attempt.settled').toSorted(), ids.toSorted())
}

/** A client at one server sees what is accepted and delivered at both, as long as it is there. */
async function sharesOneStream(scene: Scene): Promise<void> {
  const { a, b, send, allDelivered } = scene
  await eventually('both deliver', async () => {
    for (const server of [a, b]) await send(server)
    return Math.min(await metricOf(a, attemptsSeries), await metricOf(b, attemptsSeries)) > 0 ? true : null
  })
  await allDelivered()
  assert.equal(await metricOf(b, sentSeries), 0)
  const attempts = await metricOf(b, attemptsSeries)
  const client = await listen(a)
  await untilListening(b, 1)
  await showsBoth(scene, client.heard)
  client.stop()
  await untilListening(b, 0)
  const sent = await metricOf(b, sentSeries)
  const triedAtB = (await metricOf(b, attemptsSeries)) - attempts
  assert.ok(triedAtB > 0, 'nothing was delivered at the other')
  // It took in half of them.
  assert.equal(sent, 10 + triedAtB)
  for (let n = 0; n < 5; n++) await send(b)
  await allDelivered()
  assert.equal(await metricOf(b, sentSeries), sent)
}

describe('one live stream of two processes', { skip: noPostgres() ?? false }, () => {
  test('shows what happens at both, once each, and sends nothing when nobody listens: by Postgres', async (t) => {
    await sharesOneStream(await openScene(t))
  })

  test('the same by Redis; while it is away the stream goes on with what happens here', async (t) => {
    assert.equal(noOwnRedis(), null)
    const redis = await anOwnRedis(t)
    const scene = await openScene(t, { POSTHORN_REDIS_URL: redis.url })
    const { a, b, send, allDelivered } = scene
    await sharesOneStream(scene)
    const client = await listen(a)
    await untilListening(b, 1)
    await redis.kill()
    const here = await send(a)
    await send(b)
    await eventually('what happens here is shown', async () =>
      client.heard.some(({ eventId }) => eventId === here) ? true : null,
    )
    await allDelivered()
    await redis.start()
    await eventually('it is shown again', async () => {
      const id = await send(b)
      const isShown = () => client.heard.some(({ eventId }) => eventId === id)
      return eventually('it is shown', async () => (isShown() ? true : null), 500).catch(() => null)
    })
    client.stop()
  })

  test('of a burst that is too large to send, it says how much is missing', async (t) => {
    const { a, b } = await openScene(t)
    const client = await listen(a, '?kinds=event.accepted')
    await untilListening(b, 1)
    const count = 10_000
    await call(
      b,
      'POST',
      '/v1/events/batch',
      Array.from({ length: count }, (_, data) => ({ type: 'bulk', data })),
    )
    const heardOf = () => client.heard.reduce((sum, { dropped = 1 }) => sum + dropped, 0)
    await eventually('all are heard of', async () => (heardOf() >= count ? true : null))
    assert.equal(heardOf(), count)
    const dropped = client.heard.filter(({ kind }) => kind === 'dropped')
    assert.ok(dropped.length > 0, 'nothing was dropped')
    const ids = client.heard.flatMap(({ eventId }) => eventId ?? [])
    assert.equal(new Set(ids).size, ids.length)
    client.stop()
  })
})
