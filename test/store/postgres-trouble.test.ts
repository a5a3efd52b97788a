import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { Arrival } from '../../src/store/pipeline-store.ts'
import { slotOf } from '../../src/store/postgres/lane-slots.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, lease, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { noOwnPostgres } from '../support/postgres.ts'
import { notDurable, superuser } from '../support/services/postgres-server.ts'
import { PostgresScene, told, untilHealth } from './postgres-scene.ts'

const limits = { skip: noOwnPostgres() ?? false, timeout: 120_000 }
const inLane = { delivery: { lane: 'key:a', leaseEndsAt: lease } }
const refused = { kept: false, code: 'store_unavailable' }

/** For all that a store does from now on. Sessions that there are would take it up at some time, so they end. */
async function limit(scene: PostgresScene, store: Store, endpoint: Endpoint, setting: string): Promise<void> {
  await scene.query(`ALTER ROLE ${superuser} SET ${setting}`)
  await scene.query('SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1', [
    `posthorn ${scene.schema}`,
  ])
  for (;;) {
    const calls = [
      () => store.append([anArrival(endpoint)]),
      () => store.append([anArrival(endpoint, { delivery: { lane: 'key:b' } })]),
      () => claimDue(store, endpoint, { now: t0 - 9 }),
    ]
    const outcomes = await Promise.all(calls.map((call) => told<unknown>(call())))
    if (outcomes.every(({ kept }) => kept)) return
  }
}

async function countOf(scene: PostgresScene, table: string): Promise<number> {
  const [row] = await scene.query<{ count: number }>(`SELECT count(*)::int FROM ${table}`)
  return row!.count
}

async function refusalOf(store: Store, arrival: Arrival): Promise<string> {
  const error = await store.append([arrival]).then(
    () => assert.fail('it was kept'),
    (reason: Error) => reason,
  )
  return error.message
}

describe('a server that ends statements', limits, () => {
  for (const [setting, advice] of [
    [`statement_timeout = '2s'`, /raise statement_timeout/],
    [`lock_timeout = '1s'`, /raise lock_timeout/],
  ] as const) {
    it(`by ${setting} keeps nothing of a batch, and it can be made again`, async (t) => {
      const scene = await PostgresScene.alone(t, { settings: notDurable })
      const store = await scene.store()
      const endpoint = await withEndpoint(store)
      await store.append([anArrival(endpoint, inLane)])
      const [row] = await scene.query<{ no: number }>('SELECT no FROM endpoints WHERE id = $1', [endpoint.id])
      const head = only((await claimDue(store, endpoint, { now: lease + 1, leaseEndsAt: lease * 2 })).claims)
      const holder = await scene.other()
      await holder.query('BEGIN')
      await holder.query('SELECT FROM lane_slots WHERE slot = $1 FOR NO KEY UPDATE', [slotOf(row!.no, 'key:a')])
      await limit(scene, store, endpoint, setting)
      const before = await countOf(scene, 'events')
      // The first waits for the lane, and what comes meanwhile is one call behind it.
      const arrivals = Array.from({ length: 5 }, () => [anArrival(endpoint, inLane), anArrival(endpoint)])
      const calls = [
        ...arrivals.map((each) => told<unknown>(store.append(each))),
        told(store.commit([delivered(head)])),
      ]
      assert.deepEqual(await Promise.all(calls), Array(calls.length).fill(refused))
      assert.equal(await countOf(scene, 'events'), before)
      assert.equal(await countOf(scene, 'ended'), 0)
      assert.match(await refusalOf(store, anArrival(endpoint, inLane)), advice)
      await holder.query('COMMIT')
      await untilHealth(store, true)
      await Promise.all(arrivals.map((each) => store.append(each)))
      assert.equal((await store.commit([delivered(head)]))[0]?.kind, 'applied')
      assert.equal(await countOf(scene, 'events'), before + 10)
    })
  }

  it('in the middle of a claim leaves all of it to the next', async (t) => {
    const scene = await PostgresScene.alone(t, { settings: notDurable })
    const store = await scene.store()
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 3 }, () => anArrival(endpoint)))
    const holder = await scene.other()
    await limit(scene, store, endpoint, `statement_timeout = '2s'`)
    await holder.query('BEGIN')
    // It has locked and changed its rows when it comes to the events.
    await holder.query('LOCK TABLE events IN ACCESS EXCLUSIVE MODE')
    assert.deepEqual(await told(claimDue(store, endpoint)), refused)
    await holder.query('COMMIT')
    assert.ok((await claimDue(store, endpoint)).claims.length >= 3)
  })
})

describe('eight members of a server with few connections', limits, () => {
  it('all come back after it was restarted', async (t) => {
    const settings = { ...notDurable, max_connections: 70, superuser_reserved_connections: 0 }
    const scene = await PostgresScene.alone(t, { settings })
    const stores: Store[] = []
    for (let count = 0; count < 8; count++) stores.push(await scene.store())
    const endpoint = await withEndpoint(stores[0]!)
    for (const store of stores) {
      await store.join()
      await store.append([anArrival(endpoint)])
    }
    const work = async (store: Store): Promise<void> => {
      const all = [
        store.beat(),
        store.append([anArrival(endpoint)]),
        store.append([anArrival(endpoint, inLane)]),
        claimDue(store, endpoint, { now: t0 - 1 }),
        store.backlog(t0),
        store.stats(),
      ]
      await Promise.all(all.map((call) => told<unknown>(call)))
    }
    let isOver = false
    const working = stores.map(async (store) => {
      while (!isOver) {
        await work(store)
        await pause(10)
      }
    })
    await scene.postgres.kill()
    await Promise.all(stores.map((store) => untilHealth(store, false)))
    await scene.postgres.start()
    for (const store of stores) {
      await untilHealth(store, true)
      for (;;) {
        const outcomes = [await told<unknown>(store.append([anArrival(endpoint)])), await told<unknown>(store.beat())]
        if (outcomes.every(({ kept }) => kept)) break
        await pause(50)
      }
    }
    isOver = true
    await Promise.all(working)
    assert.equal((await stores[7]!.beat()).members.length, stores.length)
  })
})
