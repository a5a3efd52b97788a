import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { openMembers } from '../support/members.ts'
import { noPostgres } from '../support/postgres.ts'
import { anOwnRedis, noOwnRedis } from '../support/redis.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import type { ServerProcess } from '../support/server-process.ts'

type Breakers = Readonly<{ items: readonly { state: string; failures: number }[] }>
type Status = Readonly<{ state: string; problems: readonly string[]; hints: readonly string[] }>

const cooldownMs = 2_000

async function get<T>({ url }: ServerProcess, path: string): Promise<T> {
  const response = await fetch(`${url}${path}`)
  assert.ok(response.ok, `${path}: ${response.status}`)
  return (await response.json()) as T
}

async function post({ url }: ServerProcess, path: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  assert.ok(response.ok, `${path}: ${response.status} ${await response.text()}`)
}

/** Three servers, and an endpoint that refuses everything; each server has work for it. */
async function openScene(t: TestContext, env: Record<string, string>) {
  const members = await openMembers()
  t.after(() => members[Symbol.asyncDispose]())
  const servers = await Promise.all([members.start(env), members.start(env), members.start(env)])
  let answer = 503
  const sink = await openScriptedEndpoint(() => ({ status: answer }))
  t.after(() => sink.close())
  await post(servers[0]!, '/v1/endpoints', {
    url: sink.url,
    concurrency: 3,
    breaker: { threshold: 5, cooldown: `${cooldownMs}ms` },
    retry: {
      strategy: 'exponential',
      baseDelay: '50ms',
      multiplier: 1,
      maxDelay: '50ms',
      jitter: 0,
      maxAttempts: 99,
    },
  })
  await eventually('all know the endpoint, and each other', async () => {
    for (const server of servers) {
      const { items } = await get<{ items: unknown[] }>(server, '/v1/endpoints')
      const { items: all } = await get<{ items: unknown[] }>(server, '/v1/members')
      if (items.length !== 1 || all.length !== 3) return null
    }
    return true
  })
  const send = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await post(servers[n % 3]!, '/v1/events', { type: 'a', data: n })
  }
  const breakersOf = (server: ServerProcess) => get<Breakers>(server, '/v1/breakers').then(({ items }) => items[0])
  const recover = (): void => {
    answer = 200
  }
  return { servers, sink, send, breakersOf, recover }
}

type Scene = Awaited<ReturnType<typeof openScene>>

function openEverywhere({ servers, breakersOf }: Scene): Promise<true> {
  return eventually('the breaker is open at all three', async () => {
    const found = await Promise.all(servers.map(breakersOf))
    return found.every((one) => one?.state === 'open') ? true : null
  })
}

async function allDelivered({ servers }: Scene, count: number): Promise<void> {
  await eventually('all are delivered', async () => {
    const { items } = await get<{ items: unknown[] }>(servers[1]!, '/v1/deliveries?status=delivered&limit=100')
    return items.length === count ? true : null
  })
}

async function sharesOneBreaker(t: TestContext, env: Record<string, string>): Promise<void> {
  const scene = await openScene(t, env)
  const { sink, send, recover } = scene
  await send(30)
  await openEverywhere(scene)
  const opened = sink.received.length
  // Of each of the three, one try may have been under way.
  assert.ok(opened >= 5 && opened <= 5 + 3, `${opened} tries opened it`)
  await eventually('three probes came', async () => (sink.received.length >= opened + 3 ? true : null))
  const probes = sink.received.slice(opened).map(({ at }) => at)
  for (const [index, at] of probes.slice(1).entries()) {
    const apart = at - (probes[index] ?? 0)
    assert.ok(apart >= cooldownMs - 50, `a second probe came ${apart} ms after the first`)
  }
  recover()
  await allDelivered(scene, 30)
}

describe('one breaker of three processes', { skip: noPostgres() ?? false }, () => {
  test('opens once and lets one probe through at a time: agreed on in Postgres', (t) => sharesOneBreaker(t, {}))

  test('the same in Redis, which may go away: that is said, and nothing is lost', async (t) => {
    assert.equal(noOwnRedis(), null)
    const redis = await anOwnRedis(t)
    const env = { POSTHORN_REDIS_URL: redis.url }
    const scene = await openScene(t, env)
    const { servers, send, recover } = scene
    await send(30)
    await openEverywhere(scene)
    await redis.kill()
    const status = await eventually('it is said', async () => {
      const found = await get<Status>(servers[2]!, '/v1/status')
      return found.problems.some((problem) => problem.startsWith('Redis does not answer')) ? found : null
    })
    assert.ok(status.hints.includes('posthorn doctor'), status.hints.join())
    const metrics = await fetch(`${servers[2]!.url}/metrics`)
    assert.match(await metrics.text(), /^posthorn_members_agree 0$/m)
    recover()
    await allDelivered(scene, 30)
    await redis.start()
    await eventually('it is over', async () => {
      const { problems } = await get<Status>(servers[2]!, '/v1/status')
      return problems.length === 0 ? true : null
    })
    await send(3)
    await allDelivered(scene, 33)
  })
})
