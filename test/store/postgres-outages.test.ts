import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { mayEndSession } from '../../src/store/postgres/failures.ts'
import { idOf } from '../../src/store/postgres/row-keys.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, lease, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { noOwnPostgres, noPostgres } from '../support/postgres.ts'
import { PostgresScene, told, untilHealth } from './postgres-scene.ts'

const callMsMax = 400

describe('a link on which packets vanish', { skip: noPostgres() ?? false, timeout: 60_000 }, () => {
  async function silent(t: TestContext) {
    const scene = await PostgresScene.open(t)
    const link = await scene.link()
    const store = await scene.store({ link, callMsMax })
    return { scene, link, store, endpoint: await withEndpoint(store) }
  }

  it('costs a write its deadline, then new ones are refused at once, and it goes on by itself', async (t) => {
    const { link, store, endpoint } = await silent(t)
    link.shape({ dark: ['up', 'down'] })
    const arrival = anArrival(endpoint)
    const appending = told(store.append([arrival]))
    await untilHealth(store, false)
    assert.match(store.health().problem ?? '', /cannot be reached/)
    const startedAt = performance.now()
    const refusals = await Promise.all(Array.from({ length: 9 }, () => told(store.append([anArrival(endpoint)]))))
    assert.ok(performance.now() - startedAt < callMsMax, 'they waited for nothing')
    assert.deepEqual(
      refusals.map((refusal) => !refusal.kept && refusal.code),
      Array(9).fill('store_unavailable'),
    )
    link.shape({ dark: [] })
    const outcome = await appending
    await untilHealth(store, true)
    assert.equal((await store.getEvent(arrival.event.id)) !== null, outcome.kept)
    assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
  })

  it('costs reads and claims their deadline, and they go on', async (t) => {
    const { link, store, endpoint } = await silent(t)
    const arrival = anArrival(endpoint)
    await store.append([arrival])
    // So that each has a connection on which it can wait.
    await Promise.all([store.getEvent(arrival.event.id), store.backlog(t0)])
    link.shape({ dark: ['up', 'down'] })
    const calls = [store.getEvent(arrival.event.id), claimDue(store, endpoint), store.backlog(t0)]
    for (const outcome of await Promise.all(calls.map((call) => told<unknown>(call)))) {
      assert.deepEqual(outcome, { kept: false, code: 'store_unavailable' })
    }
    link.shape({ dark: [] })
    assert.notEqual(await store.getEvent(arrival.event.id), null)
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
  })

  it('ends the connection on which others are heard, though nothing is said there', async (t) => {
    const { link } = await silent(t)
    const before = link.accepted()
    link.shape({ dark: ['up', 'down'] })
    await link.until(() => link.accepted() > before)
  })

  it('keeps nobody from closing', async (t) => {
    const { link, store, endpoint } = await silent(t)
    await Promise.all([store.append([anArrival(endpoint)]), store.stats(), store.backlog(t0)])
    link.shape({ dark: ['up', 'down'] })
    await store.close()
  })
})

describe('a server that goes', { skip: noOwnPostgres() ?? false, timeout: 120_000 }, () => {
  /** Publishes, claims and settles until told to stop; tells of nothing that was refused. */
  function traffic(store: Store, endpoint: Awaited<ReturnType<typeof withEndpoint>>) {
    const acknowledged: string[] = []
    const rejected: string[] = []
    const settled: string[] = []
    let refusals = 0
    let isOver = false
    const until = async (count: number) => {
      const enough = acknowledged.length + count
      while (acknowledged.length < enough) await pause(5)
    }
    const publish = async () => {
      while (!isOver) {
        const arrival = anArrival(endpoint)
        const outcome = await told(store.append([arrival]))
        if (outcome.kept) acknowledged.push(arrival.deliveries[0]!.id)
        else {
          rejected.push(arrival.deliveries[0]!.id)
          await pause(10)
        }
      }
    }
    const settle = async () => {
      while (!isOver) {
        const found = await told(claimDue(store, endpoint, { now: t0 + 1, leaseEndsAt: lease, limit: 20 }))
        if (!found.kept) {
          refusals += 1
          await pause(10)
          continue
        }
        const changes = found.result.claims.map((claim) => delivered(claim))
        const outcome = await told(store.commit(changes))
        if (outcome.kept) {
          outcome.result.forEach(({ kind }, at) => {
            if (kind === 'applied') settled.push(changes[at]!.to.id)
          })
        }
        if (changes.length === 0) await pause(5)
      }
    }
    const workers = [...Array.from({ length: 8 }, publish), settle(), settle()]
    const stop = async () => {
      isOver = true
      await Promise.all(workers)
      return { acknowledged, rejected, settled, refusals }
    }
    return { until, stop }
  }

  async function nothingIsLost(scene: PostgresScene, ledger: Awaited<ReturnType<ReturnType<typeof traffic>['stop']>>) {
    const rows = await scene.query<{ key: string; status: string }>(
      `SELECT id::text AS key, 'live' AS status FROM live UNION ALL SELECT id::text, status FROM ended`,
    )
    const found = new Map(rows.map(({ key, status }) => [idOf('dlv', key), status]))
    for (const id of ledger.acknowledged) assert.ok(found.has(id), `${id} was acknowledged`)
    for (const id of ledger.rejected) assert.ok(!found.has(id), `${id} was rejected`)
    for (const id of ledger.settled) assert.equal(found.get(id), 'delivered', `${id} was settled`)
    assert.equal(rows.length, ledger.acknowledged.length)
    assert.equal(new Set(ledger.settled).size, ledger.settled.length, 'each was settled once')
  }

  it('killed and started again under load: nothing acknowledged is lost, and all goes on', async (t) => {
    const scene = await PostgresScene.alone(t)
    const store = await scene.store()
    const load = traffic(store, await withEndpoint(store))
    await load.until(300)
    await scene.postgres.kill()
    const read = await told(store.getEvent('evt_1'))
    assert.deepEqual(read, { kept: false, code: 'store_unavailable' })
    await untilHealth(store, false)
    await scene.postgres.start()
    await load.until(300)
    assert.equal(store.health().writable, true)
    await scene.postgres.restart()
    await load.until(300)
    const ledger = await load.stop()
    t.diagnostic(
      `${ledger.acknowledged.length} acknowledged, ${ledger.rejected.length} rejected, ${ledger.settled.length} settled`,
    )
    await nothingIsLost(scene, ledger)
    assert.ok(ledger.rejected.length > 0 && ledger.refusals > 0)
  })

  it('connections ended at random under load: nothing acknowledged is lost, and all goes on', async (t) => {
    const scene = await PostgresScene.alone(t)
    const store = await scene.store()
    const load = traffic(store, await withEndpoint(store))
    for (let round = 0; round < 15; round++) {
      await load.until(50)
      await scene.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND random() < 0.5`,
        [`posthorn ${scene.schema}`],
      )
    }
    await load.until(100)
    const ledger = await load.stop()
    t.diagnostic(
      `${ledger.acknowledged.length} acknowledged, ${ledger.rejected.length} rejected, ${ledger.settled.length} settled`,
    )
    await nothingIsLost(scene, ledger)
    assert.equal(store.health().writable, true)
  })

  it('is missed without traffic, and found again', async (t) => {
    const scene = await PostgresScene.alone(t)
    const store = await scene.store()
    await scene.postgres.kill()
    await untilHealth(store, false)
    assert.match(store.health().problem ?? '', /cannot be reached/)
    await scene.postgres.start()
    await untilHealth(store, true)
  })

  it('a call that was under way when it was killed rejects, and is not kept', async (t) => {
    const scene = await PostgresScene.alone(t)
    const store = await scene.store()
    const endpoint = await withEndpoint(store)
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE events IN EXCLUSIVE MODE')
    const arrival = anArrival(endpoint)
    const appending = told(store.append([arrival]))
    await scene.untilBlocked(1)
    await scene.postgres.kill()
    await untilHealth(store, false)
    await scene.postgres.start()
    assert.deepEqual(await appending, { kept: false, code: 'store_unavailable' })
    assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
    assert.equal(await store.getEvent(arrival.event.id), null)
  })
})

describe('what a server says of the end of a session', () => {
  it('is known in any language', () => {
    for (const severity of ['FATAL', 'ВАЖНО', '致命错误'])
      assert.ok(mayEndSession({ severity, code: '57P01' }), severity)
    for (const code of ['23505', '40P01', '42501', 'PH001'])
      assert.ok(!mayEndSession({ severity: 'FEHLER', code }), code)
  })
})
