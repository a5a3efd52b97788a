import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { PosthornError } from '../../src/core/errors.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { openLinkProxy } from '../support/link-proxy.ts'
import { noOwnPostgres, query } from '../support/postgres.ts'
import { openPostgres, postgresAt } from '../support/postgres-store.ts'
import { makeStandby, notDurable, startPostgres, startStandby } from '../support/services/postgres-server.ts'
import type { Service } from '../support/services/service.ts'
import { told, untilHealth } from './postgres-scene.ts'

const limits = { skip: noOwnPostgres() ?? false, timeout: 120_000 }
const inLane = { delivery: { lane: 'key:a' } }

/** A primary, its replica, and a store whose address leads to the one of them that is named. */
async function scenery(t: TestContext) {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const started = (service: Service) => {
    stack.defer(() => service.discard())
    return service
  }
  const primary = started(await startPostgres({ settings: notDurable }))
  const standby = started(await startStandby(primary))
  let target = primary
  const link = await openLinkProxy(() => target.port)
  stack.defer(() => link.close())
  const url = new URL(primary.url)
  url.port = String(link.port)
  const store = await openPostgres({ url: url.href })
  stack.defer(() => store.close())
  /** New connections lead there; those that there are stay where they are. */
  const leadTo = (service: Service) => {
    target = service
  }
  return { primary, standby, link, leadTo, store, endpoint: await withEndpoint(store) }
}

/** Everything that the primary has kept is at the replica. */
async function untilReplayed(primary: Service, standby: Service): Promise<void> {
  const [{ lsn }] = (await query(primary.url, 'SELECT pg_current_wal_lsn() AS lsn')) as [{ lsn: string }]
  const sql = 'SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS is_there'
  while (!(await query<{ is_there: boolean }>(standby.url, sql, [lsn]))[0]?.is_there) await pause(10)
}

/** Calls until it goes through; the test's timeout is the limit. */
async function untilKept<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    const outcome = await told(call())
    if (outcome.kept) return outcome.result
    await pause(20)
  }
}

/** Calls until it is refused as read-only. Before that it may go through, or break off. */
async function untilReadOnly(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    const outcome = await told(call())
    if (!outcome.kept && outcome.code === 'store_read_only') return
    await pause(20)
  }
}

async function allWork(store: Store, endpoint: Awaited<ReturnType<typeof withEndpoint>>): Promise<void> {
  await untilKept(() => store.beat())
  await untilKept(() => store.append([anArrival(endpoint)]))
  await untilKept(() => store.append([anArrival(endpoint, inLane)]))
  const { claims } = await untilKept(() => claimDue(store, endpoint, { now: t0 + 9 }))
  for (const claim of claims) {
    assert.equal((await untilKept(() => store.commit([delivered(claim)])))[0]?.kind, 'applied')
  }
  assert.ok(claims.length > 0)
}

describe('a read-only replica', limits, () => {
  it('is refused when a store is opened, with what to do', async (t) => {
    const { standby } = await scenery(t)
    const opening = postgresAt(standby).open({ onFatal: (error) => assert.fail(error) })
    const refusal = await opening.then(
      () => assert.fail('it opened'),
      (error) => error,
    )
    assert.ok(refusal instanceof PosthornError)
    assert.equal(refusal.code, 'store_read_only')
    assert.match(refusal.message, /replica; name the primary in POSTHORN_DATABASE_URL/)
  })

  it('to which the address leads for a moment answers nothing, and all goes on when it leads to the primary', async (t) => {
    const { primary, standby, link, leadTo, store, endpoint } = await scenery(t)
    const arrival = anArrival(endpoint)
    await store.append([arrival])
    await untilReplayed(primary, standby)
    leadTo(standby)
    link.cut('rst')
    const calls = [
      () => store.append([anArrival(endpoint)]),
      () => store.append([anArrival(endpoint, inLane)]),
      () => claimDue(store, endpoint),
      () => store.beat(),
      // It would have the answer, and a later one would be old.
      () => store.getEvent(arrival.event.id),
      () => store.stats(),
    ]
    for (const call of calls) await untilReadOnly(call)
    assert.match(store.health().problem ?? '', /replica; name the primary/)
    leadTo(primary)
    await untilHealth(store, true)
    await allWork(store, endpoint)
  })
})

describe('a primary', limits, () => {
  it('that becomes a replica while the address still leads to it: all goes on at the new one, with all that was kept', async (t) => {
    const { primary: old, standby: next, leadTo, store, endpoint } = await scenery(t)
    const arrivals = Array.from({ length: 20 }, (_, at) => anArrival(endpoint, at % 2 === 0 ? inLane : {}))
    for (const arrival of arrivals) await store.append([arrival])
    await untilReplayed(old, next)
    await old.stop()
    await query(next.url, 'SELECT pg_promote()')
    makeStandby(old, next)
    await old.start()
    await untilReadOnly(() => store.append([anArrival(endpoint)]))
    leadTo(next)
    await untilHealth(store, true)
    for (const { event } of arrivals) assert.notEqual(await untilKept(() => store.getEvent(event.id)), null)
    await allWork(store, endpoint)
  })

  it('that only refuses writes: all goes on at the new one when the address leads to that, and nobody cuts anything', async (t) => {
    const { primary: old, standby: next, leadTo, store, endpoint } = await scenery(t)
    await store.append([anArrival(endpoint)])
    await query(old.url, 'ALTER SYSTEM SET default_transaction_read_only = on')
    await query(old.url, 'SELECT pg_reload_conf()')
    await untilReadOnly(() => store.append([anArrival(endpoint)]))
    await untilReplayed(old, next)
    await query(next.url, 'SELECT pg_promote()')
    leadTo(next)
    await untilHealth(store, true)
    await allWork(store, endpoint)
  })
})
