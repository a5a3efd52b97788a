import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { claimDue, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene, told, untilFree } from './postgres-scene.ts'

const lease = { leaseMs: 1_500, beatEveryMs: 100 }
/** Of rows: far beyond everything here. */
const rowLease = t0 + 9e9

const aLink = {
  ...{ relayId: 'rly_1', session: 'one', epoch: null },
  facts: {
    ...{ connectedAt: t0, software: 'posthorn/1.2.0', protocol: 1, routes: ['shop'] },
    ...{ roundTripMs: null, lastAckAt: null, outstanding: 0 },
  },
}

/** Calls until it goes through; the test's timeout is the limit. */
async function untilKept<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    const outcome = await told(call())
    if (outcome.kept) return outcome.result
    await pause(lease.beatEveryMs)
  }
}

describe('a member that joins again', { skip: noPostgres() ?? false, timeout: 60_000 }, () => {
  it('who joins again before a write is answered is not told that it has what that brought', async (t) => {
    const scene = await PostgresScene.open(t)
    const store = await scene.store({ lease })
    const endpoint = await withEndpoint(store)
    await store.join()
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE events IN EXCLUSIVE MODE')
    const appending = store.append([anArrival(endpoint, { delivery: { leaseEndsAt: rowLease } })])
    await scene.untilBlocked(1)
    await scene.query('UPDATE members SET fenced = true')
    assert.equal((await store.beat()).isLost, true)
    await store.join()
    await holder.query('COMMIT')
    const appended = await appending
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(appended.items[0]?.claimed, [false])
    await untilFree(scene)
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
  })

  it('who joins again before a claim is answered gets nothing of it', async (t) => {
    const scene = await PostgresScene.open(t)
    const store = await scene.store({ lease })
    const endpoint = await withEndpoint(store)
    await store.join()
    await store.append([anArrival(endpoint)])
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE live IN EXCLUSIVE MODE')
    const claiming = claimDue(store, endpoint, { leaseEndsAt: rowLease })
    await scene.untilBlocked(1)
    await scene.query('UPDATE members SET fenced = true')
    assert.equal((await store.beat()).isLost, true)
    // However long it takes to take over what it had.
    await store.join()
    await scene.untilBlocked(2)
    await holder.query('COMMIT')
    assert.deepEqual((await claiming).claims, [])
    await untilFree(scene)
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
  })

  it('who joins again before a commit is answered is not given the next of its lane', async (t) => {
    const scene = await PostgresScene.open(t)
    const store = await scene.store()
    const endpoint = await withEndpoint(store)
    await store.join()
    // Others have taken over what it had, and it does not know.
    await scene.query('UPDATE members SET fenced = true, swept = true')
    const inLane = { delivery: { lane: 'key:a' } }
    const [first, second] = [anArrival(endpoint, inLane), anArrival(endpoint, inLane)]
    await store.append([first, second])
    const head = only((await claimDue(store, endpoint, { leaseEndsAt: rowLease })).claims)
    const holder = await scene.other()
    await holder.query('BEGIN')
    // It has ended the head when it comes to the next.
    await holder.query('SELECT FROM live WHERE due_at IS NULL FOR UPDATE')
    const committing = store.commit([{ ...delivered(head), claimNext: rowLease }])
    await scene.untilBlocked(1)
    assert.equal((await store.beat()).isLost, true)
    await store.join()
    await holder.query('COMMIT')
    assert.deepEqual(await committing, [{ kind: 'applied', next: null, released: true }])
    await untilFree(scene)
    assert.equal(only((await claimDue(store, endpoint)).claims).delivery.id, second.deliveries[0]!.id)
  })

  it('whose joining again breaks off is still the one that was lost, and the next try leaves no other', async (t) => {
    const scene = await PostgresScene.open(t)
    const link = await scene.link()
    const store = await scene.store({ link })
    const { id: lost } = await store.join()
    await store.putLinks([aLink])
    await scene.query('UPDATE members SET fenced = true')
    assert.equal((await store.beat()).isLost, true)
    link.shape({ dark: ['down'] })
    const joining = told(store.join())
    await scene.untilRows(2, 'SELECT 1 FROM members')
    link.cut('rst')
    link.shape({ dark: [] })
    assert.deepEqual(await joining, { kept: false, code: 'store_unavailable' })
    const endpoint = await untilKept(() => withEndpoint(store))
    assert.equal((await untilKept(() => store.beat())).isLost, true)
    const { id } = await store.join()
    assert.notEqual(id, lost)
    const { isLost, members, leader } = await store.beat()
    assert.deepEqual({ isLost, members, leader }, { isLost: false, members: [id], leader: id })
    const [hub] = await store.listLinks()
    assert.equal(hub?.member, id)
    // What it writes is that member's too.
    await store.append([anArrival(endpoint)])
    const strange = 'SELECT 1 FROM marks k JOIN members m ON m.no = k.member WHERE NOT m.fenced AND k.seq > 0'
    assert.equal((await scene.query(strange)).length, 1)
  })
})
