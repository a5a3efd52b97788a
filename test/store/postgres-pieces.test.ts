import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { Pending } from '../../src/core/delivery.ts'
import { ended, handedBack } from '../../src/core/lifecycle.ts'
import type { Change, Claim } from '../../src/store/pipeline-store.ts'
import { piecesOf } from '../../src/store/postgres/commit-pieces.ts'
import { claimDue, lease, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, aReplay, delivered, t0 } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }

async function scenery(t: TestContext) {
  const scene = await PostgresScene.open(t)
  const store = await scene.store()
  const holder = await scene.other()
  return { scene, store, holder, endpoint: await withEndpoint(store) }
}

type Scenery = Awaited<ReturnType<typeof scenery>>

/** So many in hand; each in a lane of its own, if in any. */
async function inHand({ store, endpoint }: Scenery, count: number, isLaned: boolean): Promise<readonly Claim[]> {
  const lane = (at: number) => (isLaned ? { lane: `key:${at}` } : {})
  await store.append(Array.from({ length: count }, (_, at) => anArrival(endpoint, { delivery: lane(at) })))
  const { claims } = await claimDue(store, endpoint, { limit: count, leaseEndsAt: lease })
  assert.equal(claims.length, count)
  return claims
}

/** Of this table, by the calls that wait. */
async function lockedRows(scene: PostgresScene, table: string): Promise<number> {
  const sql = `SELECT (SELECT count(*) FROM ${table})::int - (SELECT count(*) FROM
    (SELECT FROM ${table} FOR NO KEY UPDATE SKIP LOCKED) AS free)::int AS locked`
  const [row] = await scene.query<{ locked: number }>(sql)
  return row!.locked
}

describe('a call with many changes', limits, () => {
  it('locks the slots of few lanes at a time', async (t) => {
    const given = await scenery(t)
    const { scene, store, holder } = given
    const claims = await inHand(given, 300, true)
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE ended IN EXCLUSIVE MODE')
    const committing = store.commit(claims.map((claim) => delivered(claim)))
    await scene.untilBlocked(1)
    const locked = await lockedRows(scene, 'lane_slots')
    assert.ok(locked > 0 && locked <= 64, `${locked} slots`)
    await holder.query('COMMIT')
    assert.deepEqual(new Set((await committing).map(({ kind }) => kind)), new Set(['applied']))
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM ended'), [{ count: 300 }])
  })

  it('is handed back in pieces', async (t) => {
    const given = await scenery(t)
    const { scene, store, holder } = given
    const claims = await inHand(given, 600, false)
    await holder.query('BEGIN')
    // Of the last piece, when it waits for its mark, nothing is locked yet.
    await holder.query('SELECT FROM live ORDER BY id DESC LIMIT 1 FOR UPDATE')
    const changes = claims.map(({ delivery }): Change => {
      return { to: handedBack(delivery, t0), attempt: null, claimNext: null }
    })
    const committing = store.commit(changes)
    await scene.untilBlocked(1)
    const { rows } = await holder.query('SELECT count(*)::int AS left FROM live WHERE owner IS NOT NULL')
    assert.equal(rows[0].left, 600 - 2 * 256)
    await holder.query('COMMIT')
    assert.equal((await committing).length, 600)
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM live WHERE owner IS NOT NULL'), [{ count: 0 }])
  })

  it('of which a part is kept waits until the rest is kept too', async (t) => {
    const given = await scenery(t)
    const { scene, store, holder } = given
    const claims = await inHand(given, 300, false)
    await holder.query('BEGIN')
    await holder.query('SELECT FROM live ORDER BY id DESC LIMIT 1 FOR UPDATE')
    const committing = store.commit(claims.map((claim) => delivered(claim)))
    await scene.untilBlocked(1)
    assert.equal(await scene.terminateBlocked(), 1)
    await scene.untilBlocked(1)
    assert.equal(await scene.terminateBlocked(), 1)
    await holder.query('COMMIT')
    assert.deepEqual(new Set((await committing).map(({ kind }) => kind)), new Set(['applied']))
  })

  it('stays together where one follows the other, and is cut before that', () => {
    const change = (lane: string | null, follows = false): Change => {
      const to = ended({ id: 'dlv_1', endpointId: 'ep_1', lane } as Pending, 'cancelled', t0)
      return { to, attempt: null, claimNext: null, follows }
    }
    const chain = [change('a'), ...Array.from({ length: 300 }, () => change('a', true))]
    assert.deepEqual(
      piecesOf([...Array.from({ length: 200 }, () => change(null)), ...chain, change(null)]).map(
        ({ length }) => length,
      ),
      [200, 301, 1],
    )
    const lanes = Array.from({ length: 70 }, (_, at) => [change(`key:${at}`), change(`key:${at}`, true)])
    assert.deepEqual(
      piecesOf(lanes.flat()).map(({ length }) => length),
      [128, 12],
    )
  })
})

describe('a step of a replay', limits, () => {
  it('locks the slots of few lanes, and the next goes on', async (t) => {
    const given = await scenery(t)
    const { scene, store, holder } = given
    const claims = await inHand(given, 150, true)
    await store.commit(claims.map((claim) => delivered(claim)))
    const replay = await store.createReplay(aReplay({ kind: 'deliveries', filter: { statuses: ['delivered'] } }))
    const step = () => store.stepReplay({ id: replay.id, limit: 500, now: t0, recover: null, newIds: [] })
    await holder.query('BEGIN')
    await holder.query('SELECT FROM replays FOR UPDATE')
    const stepping = step()
    await scene.untilBlocked(1)
    const locked = await lockedRows(scene, 'lane_slots')
    assert.ok(locked > 0 && locked <= 64, `${locked} slots`)
    await holder.query('COMMIT')
    let { replay: moved } = await stepping
    while (moved?.status === 'running') moved = (await step()).replay
    assert.equal(moved?.requeued, 150)
  })
})
