import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clockShift } from '../support/clock-shift.ts'
import { eventually } from '../support/eventually.ts'
import { FaultScene } from '../support/fault-scene.ts'
import { call, openMembers } from '../support/members.ts'
import { noOwnPostgres, noPostgres, query } from '../support/postgres.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

describe('members whose clocks are an hour ahead and an hour behind', { skip: noOwnPostgres() ?? false }, () => {
  it('agree on what is due and on who has what in hand', async (t) => {
    const [ahead, behind] = [clockShift(t, '+1h'), clockShift(t, '-1h')]
    if (ahead === null || behind === null) return
    const scene = await FaultScene.open(t, { enter: (place) => [[], ahead, behind][place] ?? [] })
    const [right = 0, ...wrong] = await Promise.all(scene.members.map(({ url }) => clockOf(url)))
    assert.deepEqual(
      wrong.map((clock) => Math.round((clock - right) / hourMs)),
      [1, -1],
    )
    await scene.arrived(500)
    await scene.check(t, { cuts: 0 })
    for (const { server } of scene.members) assert.doesNotMatch(server.said(), /member\.(lapsed|fenced)/)
  })
})

type Items<T> = Readonly<{ items: readonly T[] }>
const statusesOf = async (url: string): Promise<readonly string[]> => {
  const rows = await query<{ status: string }>(url, 'SELECT status FROM delivery_status')
  return rows.map(({ status }) => status)
}

describe('a member whose clock is a month off', { skip: noPostgres() ?? false }, () => {
  for (const shift of ['+30d', '-30d'] as const) {
    it(`takes in, expires and deletes by the store's time (${shift})`, async (t) => {
      const enter = clockShift(t, shift)
      if (enter === null) return
      await using members = await openMembers()
      await using sink = await openScriptedEndpoint((_received, index) => (index < 3 ? { status: 503 } : {}))
      const server = await members.start({ POSTHORN_UPKEEP_AFTER: '0s' }, enter)
      const right = await members.start()
      const retry = { strategy: 'exponential', baseDelay: '20ms', maxDelay: '20ms', maxAttempts: 9, maxAge: '7d' }
      await call(server, 'POST', '/v1/endpoints', { url: sink.url, breaker: false, retry })
      await eventually('the other knows it', async () =>
        (await call<Items<unknown>>(right, 'GET', '/v1/endpoints')).items.length === 1 ? true : null,
      )
      for (let n = 0; n < 4; n++)
        await call(n % 2 === 0 ? server : right, 'POST', '/v1/events', { type: 'a.b', data: n })
      await eventually('all are delivered', async () =>
        (await statusesOf(members.url)).every((status) => status === 'delivered') ? true : null,
      )
      const ages = 'SELECT max(abs(store_time_v1() - received_at)) AS most FROM events'
      assert.ok(Number((await query<{ most: string }>(members.url, ages))[0]?.most) < hourMs)
      await query(
        members.url,
        `WITH old AS (
           UPDATE ended SET received_at = received_at - ${8 * dayMs}, settled_at = settled_at - ${8 * dayMs}
           WHERE id = (SELECT id FROM ended ORDER BY id LIMIT 1) RETURNING event_id
         )
         UPDATE events SET received_at = received_at - ${8 * dayMs} WHERE id = (SELECT event_id FROM old)`,
      )
      const { last } = await call<{ last: Record<string, unknown> }>(server, 'POST', '/v1/upkeep')
      const { skipped, deliveries, events } = last
      assert.deepEqual({ skipped, deliveries, events }, { skipped: null, deliveries: 1, events: 1 })
    })
  }

  it('goes on with a replay that was under way when it was started anew', async (t) => {
    const enter = clockShift(t, '+1h')
    if (enter === null) return
    await using members = await openMembers()
    let status = 422
    await using sink = await openScriptedEndpoint(() => ({ status }))
    const before = await members.start()
    await call(before, 'POST', '/v1/endpoints', { url: sink.url, breaker: false })
    for (let n = 0; n < 8; n++) await call(before, 'POST', '/v1/events', { type: 'a.b', data: n })
    await eventually('all are dead', async () =>
      (await statusesOf(members.url)).every((each) => each === 'failed') ? true : null,
    )
    status = 200
    const { id } = await call<{ id: string }>(before, 'POST', '/v1/replays', { filter: {}, rate: 2 })
    await before.stop()
    const after = await members.start({}, enter)
    await eventually('it has settled', async () =>
      (await call<{ status: string }>(after, 'GET', `/v1/replays/${id}`)).status === 'settled' ? true : null,
    )
  })
})

async function clockOf(url: string): Promise<number> {
  const { headers } = await fetch(`${url}/healthz`)
  return Date.parse(headers.get('date') ?? '')
}
