import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import { openState } from '../../src/shared-state/open-state.ts'
import { callMsMax } from '../../src/shared-state/shared-state.ts'
import { sharedStateContract } from '../contracts/shared-state.ts'
import { eventually } from '../support/eventually.ts'
import { openLinkProxy } from '../support/link-proxy.ts'
import { anOwnPostgres, aSchema, noOwnPostgres, noPostgres, query } from '../support/postgres.ts'
import { openPostgres, placeAt } from '../support/postgres-store.ts'

const skip = noPostgres() ?? false

async function openPlace(t: TestContext, server?: string) {
  const place = await aSchema(server)
  const store = await openPostgres(place)
  t.after(async () => {
    await store.close()
    await place.drop().catch(() => {})
  })
  const open = async () => {
    const state = await openState({ database: placeAt(place), redisUrl: null }, () => performance.now())
    t.after(() => state.close())
    return state
  }
  return { place, open }
}

describe('Postgres', { skip }, () => {
  sharedStateContract('Postgres', async (t) => (await openPlace(t)).open)

  test('deletes what has ended', async (t) => {
    const { place, open } = await openPlace(t)
    const state = await open()
    await state.swap([
      { key: 'old', from: null, to: 'x', ttlMs: 1 },
      { key: 'new', from: null, to: 'x', ttlMs: 60_000 },
    ])
    await query(place.url, 'SELECT pg_sleep(0.01)')
    const [pruned] = await query<{ prune_state_v1: number }>(place.url, 'SELECT prune_state_v1(100)')
    assert.equal(pruned?.prune_state_v1, 1)
    assert.deepEqual(await query(place.url, 'SELECT key FROM shared_state'), [{ key: 'new' }])
  })
})

describe('a Postgres that others use too', { skip: noOwnPostgres() ?? false }, () => {
  test('keeps its memory for locks, however many keys a call has', async (t) => {
    const server = await anOwnPostgres(t)
    const { place, open } = await openPlace(t, server.url)
    const state = await open()
    const swaps = Array.from({ length: 500 }, (_, at) => ({ key: `key ${at}`, from: null, to: 'x', ttlMs: 60_000 }))
    const holder = new pg.Client({ connectionString: server.url })
    await holder.connect()
    await holder.query('BEGIN')
    await holder.query(`LOCK TABLE ${place.name}.shared_state IN ACCESS EXCLUSIVE MODE`)
    const swapping = state.swap(swaps).catch(() => null)
    const locks = await eventually('it waits', async () => {
      const waiting = `SELECT pid FROM pg_locks WHERE NOT granted AND locktype = 'relation'`
      const sql = `SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = (${waiting}) HAVING count(*) > 0`
      return (await query<{ count: number }>(server.url, sql))[0]?.count ?? null
    })
    assert.ok(locks <= 64, `${locks} locks`)
    await holder.query('COMMIT')
    await holder.end()
    await swapping
    const all = await eventually('they are swapped', async () => {
      const found = await state.read(swaps.map(({ key }) => key))
      return found.every((value) => value === 'x') ? found : null
    })
    assert.equal(all.length, 500)
  })
})

describe('a Postgres in trouble', { skip: noOwnPostgres() ?? false }, () => {
  test('that does not answer fails each call in time, and goes on when it is back', async (t) => {
    const server = await anOwnPostgres(t)
    const link = await openLinkProxy(() => server.port)
    t.after(() => link.close())
    const through = new URL(server.url)
    through.port = String(link.port)
    const { open } = await openPlace(t, through.href)
    const state = await open()
    const swap = { key: 'a', from: null, to: 'one', ttlMs: 60_000 }
    assert.deepEqual(await state.swap([swap]), [{ swapped: true }])
    link.shape({ dark: ['up', 'down'] })
    await assert.rejects(state.read(['a']), new RegExp(`Postgres did not answer within ${callMsMax} ms`))
    link.shape({ dark: [] })
    const [found] = await eventually('it answers', () => state.read(['a']).catch(() => null))
    assert.equal(found, 'one')
    await server.kill()
    await assert.rejects(state.read(['a']))
    await server.start()
    // What was there is gone after a crash: the table is not logged.
    const answers = await eventually('it answers', () => state.swap([swap]).catch(() => null))
    assert.deepEqual(answers, [{ swapped: true }])
  })
})
