import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { handedBack } from '../../src/core/lifecycle.ts'
import type { Beat, MemberHint } from '../../src/store/cluster-store.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { noOwnPostgres, noPostgres } from '../support/postgres.ts'
import { PostgresScene, told, untilFree } from './postgres-scene.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const lease = { leaseMs: 1_500, beatEveryMs: 100 }
/** Of rows: far beyond everything here. */
const rowLease = t0 + 9e9

/** Beats until this holds of the last one; the test's timeout is the limit. */
async function beatUntil<T>(store: Store, holds: (beat: Beat) => T | false): Promise<T> {
  for (;;) {
    const found = holds(await store.beat())
    if (found !== false) return found
    await pause(lease.beatEveryMs)
  }
}

describe('members', limits, () => {
  it('one that stops beating is fenced after its lease, and what it had in hand comes back', async (t) => {
    const scene = await PostgresScene.open(t)
    const [silent, alive] = [await scene.store({ lease }), await scene.store({ lease })]
    const endpoint = await withEndpoint(silent)
    const [{ id: lost }, joined] = [await silent.join(), await alive.join()]
    await alive.beat()
    const born = anArrival(endpoint, { delivery: { lane: 'key:a', leaseEndsAt: rowLease } })
    await silent.append([born, anArrival(endpoint, { delivery: { lane: 'key:a' } }), anArrival(endpoint)])
    const claim = only((await claimDue(silent, endpoint, { leaseEndsAt: rowLease })).claims)
    const { now: endsBy } = await silent.beat()
    assert.deepEqual((await claimDue(alive, endpoint)).claims, [])
    const fencedAt = await beatUntil(alive, ({ members, now }) => !members.includes(lost) && now)
    assert.ok(fencedAt - endsBy >= lease.leaseMs, 'not before its lease')
    await untilFree(scene)
    const { claims } = await claimDue(alive, endpoint, { leaseEndsAt: rowLease })
    assert.deepEqual(
      new Set(claims.map(({ delivery }) => delivery.id)),
      new Set([claim.delivery.id, born.deliveries[0]!.id]),
    )
    assert.deepEqual(
      claims.map(({ interruptions }) => interruptions),
      [1, 1],
    )
    // What the fenced one did meanwhile comes too late, and it is told.
    const [result] = await silent.commit([delivered(claim)])
    assert.deepEqual(result, { kind: 'stale' })
    const told = await silent.beat()
    assert.equal(told.isLost, true)
    const { id: again } = await silent.join()
    assert.deepEqual((await silent.beat()).members, [joined.id, again])
    assert.equal((await silent.beat()).isLost, false)
  })

  it('what one with a clock that is ahead had in hand is due at once when it is gone', async (t) => {
    const scene = await PostgresScene.open(t)
    const [ahead, alive] = [await scene.store(), await scene.store()]
    const endpoint = await withEndpoint(ahead)
    const { now } = await ahead.join()
    await alive.join()
    const born = { event: { receivedAt: now + 3_600_000 }, delivery: { leaseEndsAt: now + 9e9 } }
    await ahead.append([anArrival(endpoint, born)])
    await ahead.leave()
    const beat = await alive.beat()
    await untilFree(scene)
    assert.equal((await claimDue(alive, endpoint, { now: beat.now + 1_000 })).claims.length, 1)
  })

  it('what a fenced one has claimed since is free when it joins again', async (t) => {
    const scene = await PostgresScene.open(t)
    const [late, alive] = [await scene.store({ lease }), await scene.store({ lease })]
    const endpoint = await withEndpoint(late)
    const { id } = await late.join()
    await alive.join()
    await beatUntil(alive, ({ members }) => !members.includes(id))
    // It is swept, and does not know.
    await alive.beat()
    await scene.untilRows(1, 'SELECT 1 FROM members WHERE swept')
    await late.append([anArrival(endpoint), anArrival(endpoint, { delivery: { leaseEndsAt: rowLease } })])
    assert.equal((await claimDue(late, endpoint, { leaseEndsAt: rowLease })).claims.length, 1)
    assert.equal((await late.beat()).isLost, true)
    await late.join()
    await untilFree(scene)
    assert.equal((await claimDue(alive, endpoint)).claims.length, 2)
  })

  it('one that is gone is fenced after its lease, though the clock of the server was set back since', async (t) => {
    const scene = await PostgresScene.open(t)
    const [silent, alive] = [await scene.store({ lease }), await scene.store({ lease })]
    const [{ id: lost }, { id: stays }] = [await silent.join(), await alive.join()]
    await silent.beat()
    await alive.beat()
    // As seen after that, what was written before lies ahead.
    const ahead = 'lease_ends_at = lease_ends_at + 3600000'
    await scene.query(
      `UPDATE members SET ${ahead}, beat_at = beat_at + 3600000, beating_since = beating_since + 3600000`,
    )
    await scene.query(`UPDATE leader SET ${ahead}`)
    const beat = await beatUntil(alive, (last) => !last.members.includes(lost) && last)
    assert.equal(beat.leader, stays)
    assert.ok((await alive.listMembers())[0]!.since > 0)
  })

  it('hear what another has taken over', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b, c] = [await scene.store(), await scene.store(), await scene.store()]
    const endpoint = await withEndpoint(a)
    for (const store of [a, b, c]) await store.join()
    for (const store of [b, c]) await store.beat()
    await a.append([anArrival(endpoint, { delivery: { leaseEndsAt: rowLease } })])
    const heard = new Promise<readonly string[]>((resolve) => {
      c.onHint(({ endpointIds }) => {
        if (endpointIds.length > 0) resolve(endpointIds)
      })
    })
    await a.leave()
    await b.beat()
    assert.deepEqual(await heard, [endpoint.id])
  })

  it('fences nobody before it has beaten for a lease itself', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease }), await scene.store({ lease })]
    const { id: silent } = await a.join()
    await b.join()
    await b.beat()
    // Nobody beats for longer than a lease, as when nobody reaches the database.
    await pause(lease.leaseMs + 50)
    const back = await b.beat()
    assert.ok(back.members.includes(silent))
    const until = back.now + lease.leaseMs
    const fencedAt = await beatUntil(b, ({ members, now }) => !members.includes(silent) && now)
    assert.ok(fencedAt >= until, 'a full lease of its own beats')
  })

  it('one finds what a claim has taken whose answer got lost, and nothing of the others', async (t) => {
    const scene = await PostgresScene.open(t)
    const link = await scene.link()
    const [store, other] = [await scene.store({ link }), await scene.store()]
    const endpoint = await withEndpoint(store)
    await store.join()
    await other.join()
    await store.append([anArrival(endpoint, { delivery: { lane: 'key:a', dueAt: t0 - 9 } }), anArrival(endpoint)])
    // So that it has a connection, and knows the endpoint.
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 - 99 })).claims, [])
    link.shape({ dark: ['down'] })
    const claiming = told(claimDue(store, endpoint, { leaseEndsAt: rowLease, limit: 1 }))
    await scene.untilRows(1, 'SELECT 1 FROM live WHERE owner IS NOT NULL')
    link.cut('rst')
    link.shape({ dark: [] })
    assert.deepEqual(await claiming, { kept: false, code: 'store_unavailable' })
    assert.equal((await claimDue(other, endpoint, { leaseEndsAt: rowLease })).claims.length, 1)
    const [lost, ...more] = await store.listHeld()
    assert.deepEqual(more, [])
    assert.equal(lost?.lane, 'key:a')
    const [result] = await store.commit([{ to: handedBack(lost!, t0), attempt: null, claimNext: null }])
    assert.equal(result?.kind, 'applied')
    assert.equal((await claimDue(other, endpoint)).claims[0]?.delivery.id, lost?.id)
    assert.deepEqual(await store.listHeld(), [])
  })

  it('know which handlers run at the others, until these leave', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease }), await scene.store({ lease })]
    await Promise.all([a.join(), b.join()])
    await a.beat({ handlers: ['ep_1', 'ep_2'], isWorking: true })
    assert.deepEqual((await b.beat({ handlers: ['ep_2'], isWorking: true })).handlersElsewhere.toSorted(), [
      'ep_1',
      'ep_2',
    ])
    assert.deepEqual((await a.beat({ handlers: ['ep_1', 'ep_2'], isWorking: true })).handlersElsewhere, ['ep_2'])
    await a.leave()
    assert.deepEqual((await b.beat({ handlers: ['ep_2'], isWorking: true })).handlersElsewhere, [])
  })

  it('know which of them work, are hinted when that changes, and one that works leads', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store(), await scene.store()]
    const [{ id: idA }, { id: idB }] = [await a.join(), await b.join()]
    const [works, rests] = [
      { handlers: [], isWorking: true },
      { handlers: [], isWorking: false },
    ]
    // Nobody is counted before its first beat.
    const first = await a.beat(rests)
    assert.deepEqual([first.members, first.working, first.leader], [[idA, idB], [], idA])
    const heard = Promise.withResolvers<MemberHint>()
    a.onHint(heard.resolve)
    const { working, leader } = await b.beat(works)
    assert.deepEqual([working, leader], [[idB], idB])
    assert.equal((await heard.promise).members, true)
    const both = await a.beat(works)
    assert.deepEqual([both.working, both.leader], [[idA, idB], idB])
    // Without anybody who works, the leader stays.
    await b.beat(rests)
    assert.equal((await a.beat(rests)).leader, idB)
    assert.equal((await a.beat(works)).leader, idA)
  })

  it('has one leader, and another when that one is gone', async (t) => {
    const scene = await PostgresScene.open(t)
    const stores = await Promise.all([scene.store({ lease }), scene.store({ lease }), scene.store({ lease })])
    const joined = await Promise.all(stores.map((store) => store.join()))
    const beats = await Promise.all(stores.map((store) => store.beat()))
    assert.equal(new Set(beats.map(({ leader }) => leader)).size, 1)
    const at = joined.findIndex(({ id }) => id === beats[0]!.leader)
    const others = stores.filter((_store, each) => each !== at)
    const leaders = await Promise.all(
      others.map((store) => beatUntil(store, ({ leader }) => leader !== joined[at]!.id && leader)),
    )
    assert.equal(leaders[0], leaders[1])
    assert.ok(joined.some(({ id }) => id === leaders[0]))
  })

  it('one that leaves hands its work and its leadership over at once', async (t) => {
    const scene = await PostgresScene.open(t)
    // A lease so long that nothing here can end by it.
    const [a, b] = [await scene.store(), await scene.store()]
    const endpoint = await withEndpoint(a)
    const [{ id: left }, { id: stays }] = [await a.join(), await b.join()]
    assert.equal((await a.beat()).leader, left)
    await a.append([anArrival(endpoint)])
    assert.equal((await claimDue(a, endpoint, { leaseEndsAt: rowLease })).claims.length, 1)
    await a.leave()
    const { members, leader } = await b.beat()
    assert.deepEqual({ members, leader }, { members: [stays], leader: stays })
    await untilFree(scene)
    assert.equal((await claimDue(b, endpoint)).claims.length, 1)
  })

  it('takes over more than one piece, and passes by what is being settled', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store(), await scene.store()]
    const endpoint = await withEndpoint(a)
    await a.join()
    await b.join()
    await a.append(Array.from({ length: 2_500 }, () => anArrival(endpoint, { delivery: { leaseEndsAt: rowLease } })))
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('SELECT FROM live ORDER BY id LIMIT 1 FOR UPDATE')
    await a.leave()
    await b.beat()
    await untilFree(scene, 1)
    await holder.query('COMMIT')
    const left = 'SELECT 1 FROM live WHERE owner IS NOT NULL'
    while ((await scene.query(left)).length > 0) await b.beat()
  })

  it('stay members while a lock of somebody else holds up all claims', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease }), await scene.store({ lease })]
    const endpoint = await withEndpoint(a)
    const joined = [await a.join(), await b.join()]
    await a.append([anArrival(endpoint)])
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE live IN ACCESS EXCLUSIVE MODE')
    const claims = Array.from({ length: 8 }, () => claimDue(a, endpoint))
    await scene.untilBlocked(4)
    for (let beats = 0; beats < (2 * lease.leaseMs) / lease.beatEveryMs; beats++) {
      for (const { members, isLost } of [await a.beat(), await b.beat()]) {
        assert.deepEqual({ count: members.length, isLost }, { count: joined.length, isLost: false })
      }
      await pause(lease.beatEveryMs)
    }
    await holder.query('COMMIT')
    assert.equal((await Promise.all(claims)).flatMap((answer) => answer.claims).length, 1)
  })
})

describe('members without their database', { skip: noOwnPostgres() ?? false, timeout: 60_000 }, () => {
  it('fence nobody and interrupt nothing, however long that takes', async (t) => {
    const scene = await PostgresScene.alone(t)
    const stores = await Promise.all([scene.store({ lease }), scene.store({ lease }), scene.store({ lease })])
    const endpoint = await withEndpoint(stores[0]!)
    const joined = await Promise.all(stores.map((store) => store.join()))
    for (const store of stores) await store.append([anArrival(endpoint, { delivery: { leaseEndsAt: rowLease } })])
    for (let beats = 0; beats < 16; beats++) {
      await Promise.all(stores.map((store) => store.beat()))
      await pause(lease.beatEveryMs)
    }
    await scene.postgres.kill()
    await pause(1.5 * lease.leaseMs)
    assert.deepEqual(await told(stores[0]!.beat()), { kept: false, code: 'store_unavailable' })
    await scene.postgres.start()
    for (let beats = 0; beats < 20; beats++) {
      const answers = await Promise.all(stores.map((store) => store.beat()))
      for (const { members, isLost } of answers) {
        assert.deepEqual({ count: members.length, isLost }, { count: joined.length, isLost: false })
      }
      await pause(lease.beatEveryMs)
    }
    assert.deepEqual(await scene.query('SELECT DISTINCT interruptions, owner IS NULL AS free FROM live'), [
      { interruptions: 0, free: false },
    ])
  })
})
