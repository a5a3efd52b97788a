import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { call, openMembers } from '../support/members.ts'
import { noPostgres, query } from '../support/postgres.ts'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'

type Count = Readonly<{ count: number }>
type Upkeep = Readonly<{ last: unknown }>
type Items<T> = Readonly<{ items: readonly T[] }>

/** Three members that know each other and these endpoints, and share their limits by now. */
async function threeWith(t: TestContext, endpoints: readonly object[], env: Record<string, string> = {}) {
  const members = await openMembers()
  t.after(() => members[Symbol.asyncDispose]())
  const servers = [await members.start(env), await members.start(env), await members.start(env)]
  const ids: string[] = []
  for (const endpoint of endpoints) {
    ids.push((await call<{ id: string }>(servers[0]!, 'POST', '/v1/endpoints', endpoint)).id)
  }
  await eventually('all know all', async () => {
    for (const server of servers) {
      const { items } = await call<Items<unknown>>(server, 'GET', '/v1/endpoints')
      const { items: all } = await call<Items<unknown>>(server, 'GET', '/v1/members')
      if (items.length !== endpoints.length || all.length !== servers.length) return null
    }
    return true
  })
  const send = async (count: number, type: string) => {
    await Promise.all(
      Array.from({ length: count }, (_, n) => call(servers[n % 3]!, 'POST', '/v1/events', { type, data: { n } })),
    )
  }
  const count = async (sql: string) => Number((await query<Count>(members.url, sql))[0]?.count)
  return { servers, send, count, ids }
}

/** What notifications came, and about whom. */
function subjectsOf({ received }: ScriptedEndpoint): readonly string[] {
  const events = received.map(
    ({ body }) => JSON.parse(body.toString()) as { type: string; data: { endpointId: string } },
  )
  return events.map(({ type, data }) => `${type} ${data.endpointId}`).sort()
}

describe('three members count as one', { skip: noPostgres() ?? false }, () => {
  it('in notifications: dead letters at all three, and an endpoint that is disabled', async (t) => {
    await using told = await openScriptedEndpoint()
    await using sink = await openScriptedEndpoint(() => ({ status: 422 }))
    await using gone = await openScriptedEndpoint(() => ({ status: 410 }))
    const { send, count, ids } = await threeWith(t, [
      { url: told.url, types: ['posthorn.*'] },
      { url: sink.url, types: ['order.*'], concurrency: 9, breaker: false },
      { url: gone.url, types: ['left.*'], concurrency: 9, breaker: false },
    ])
    await send(30, 'order.created')
    await send(1, 'left.behind')
    await eventually('all have ended', async () =>
      (await count('SELECT count(*) FROM ended WHERE reason IS NOT NULL')) >= 31 ? true : null,
    )
    const expected = [
      ['posthorn.dead_letters', ids[1]],
      ['posthorn.dead_letters', ids[2]],
      ['posthorn.endpoint.disabled', ids[2]],
    ]
    await eventually('all is told', async () => (told.received.length >= expected.length ? true : null))
    await eventually('nothing waits', async () => ((await count('SELECT count(*) FROM live')) === 0 ? true : null))
    assert.deepEqual(subjectsOf(told), expected.map((each) => each.join(' ')).sort())
  })

  it('in requests per second', async (t) => {
    await using sink = await openScriptedEndpoint()
    const { send } = await threeWith(t, [{ url: sink.url, concurrency: 9, rateLimit: { perSecond: 30 } }])
    await send(240, 'order.created')
    await eventually('all came', async () => (sink.received.length >= 240 ? true : null))
    // A second's worth may come at once, and the rest takes seven more.
    const [first, last] = [sink.received[0]!.at, sink.received.at(-1)!.at]
    t.diagnostic(`${Math.round(last - first)} ms`)
    assert.ok(last - first >= 5_000, `${sink.received.length} in ${last - first} ms`)
  })

  it('in replays and upkeep', async (t) => {
    let status = 422
    await using sink = await openScriptedEndpoint(() => ({ status }))
    const { servers, send, count } = await threeWith(t, [{ url: sink.url, concurrency: 9 }], {
      POSTHORN_UPKEEP_EVERY: '1s',
      POSTHORN_UPKEEP_AFTER: '0s',
    })
    await send(60, 'order.created')
    await eventually('all are dead', async () => ((await count('SELECT count(*) FROM ended')) === 60 ? true : null))
    status = 200
    const before = sink.received.length
    const { id } = await call<{ id: string }>(servers[1]!, 'POST', '/v1/replays', { filter: {} })
    const replay = await eventually('it has ended', async () => {
      const found = await call<Record<string, unknown>>(servers[2]!, 'GET', `/v1/replays/${id}`)
      return found.status === 'settled' ? found : null
    })
    const { matched, requeued, delivered, failedAgain } = replay
    assert.deepEqual(
      { matched, requeued, delivered, failedAgain },
      { matched: 60, requeued: 60, delivered: 60, failedAgain: 0 },
    )
    assert.equal(sink.received.length - before, 60)
    const tidied = await eventually('somebody has tidied up', async () => {
      const runs = await Promise.all(servers.map((server) => call<Upkeep>(server, 'GET', '/v1/upkeep')))
      const found = runs.flatMap(({ last }, at) => (last === null ? [] : [at]))
      return found.length > 0 ? found : null
    })
    const { items } = await call<Items<{ pid: number; leader: boolean }>>(servers[0]!, 'GET', '/v1/members')
    const leading = items.find(({ leader }) => leader)?.pid
    assert.deepEqual(
      tidied.map((at) => servers[at]!.child.pid),
      [leading],
    )
  })
})
