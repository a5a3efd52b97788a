import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { RelayLink } from '../../src/core/relay.ts'
import type { LinkPut } from '../../src/store/cluster-store.ts'
import type { Store } from '../../src/store/store.ts'
import { t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
/** So long that nothing here can end by it, and so short that nothing does in time. */
const [long, short] = [
  { leaseMs: 60_000, beatEveryMs: 2_000 },
  { leaseMs: 500, beatEveryMs: 50 },
]

const facts: RelayLink = {
  ...{ connectedAt: t0, software: 'posthorn/1.2.0', protocol: 1, routes: ['github'] },
  ...{ roundTripMs: null, lastAckAt: null, outstanding: 0 },
}
const aLink = (relayId: string, session = 'one'): LinkPut => ({ relayId, session, epoch: null, facts })

/** Who has which hub, as this member sees it. */
const placesOf = async (store: Store) =>
  new Map((await store.listLinks()).map(({ relayId, member }) => [relayId, member]))

describe('links of hubs among members', limits, () => {
  it('the newest takes the place at whichever member, and the older one can neither renew nor drop it', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease: long }), await scene.store({ lease: long })]
    const [{ id: at }, { id: bt }] = [await a.join(), await b.join()]
    const [old = null] = await a.putLinks([aLink('rly_1')])
    assert.deepEqual(await placesOf(b), new Map([['rly_1', at]]))
    const [epoch = null] = await b.putLinks([aLink('rly_1')])
    assert.ok((epoch ?? 0) > (old ?? Number.NaN))
    assert.deepEqual(await a.putLinks([{ ...aLink('rly_1'), epoch: old }]), [null])
    await a.dropLinks([{ relayId: 'rly_1', epoch: old! }])
    assert.deepEqual(await placesOf(a), new Map([['rly_1', bt]]))
  })

  it('two members that put the same hubs at once, in whatever order, agree on each', async (t) => {
    const scene = await PostgresScene.open(t)
    const stores = [await scene.store({ lease: long }), await scene.store({ lease: long })]
    for (const store of stores) await store.join()
    const ids = Array.from({ length: 40 }, (_, n) => `rly_${n}`)
    const rounds = Array.from({ length: 10 }, async (_, n) => {
      const store = stores[n % 2]!
      const epochs = await store.putLinks((n % 3 === 0 ? ids : ids.toReversed()).map((id) => aLink(id)))
      return epochs[0] as number
    })
    const newest = Math.max(...(await Promise.all(rounds)))
    for (const store of stores) {
      assert.deepEqual(new Set((await store.listLinks()).map(({ epoch }) => epoch)), new Set([newest]))
    }
  })

  it('others are hinted that a hub has come or gone, and their beats tell of it too', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease: long }), await scene.store({ lease: long })]
    await a.join()
    await b.join()
    await a.beat()
    let heard = 0
    b.onHint(({ links }) => {
      if (links) heard += 1
    })
    const before = (await b.beat()).linksVersion
    const [epoch] = await a.putLinks([aLink('rly_1')])
    await eventually('b hears that it came', async () => (heard >= 1 ? true : null))
    const between = (await b.beat()).linksVersion
    await a.dropLinks([{ relayId: 'rly_1', epoch: epoch! }])
    await eventually('b hears that it went', async () => (heard >= 2 ? true : null))
    const after = (await b.beat()).linksVersion
    assert.ok(before < between && between < after)
  })

  it('those of a member that has left are not listed', async (t) => {
    const scene = await PostgresScene.open(t)
    const [a, b] = [await scene.store({ lease: long }), await scene.store({ lease: long })]
    await a.join()
    await b.join()
    await a.putLinks([aLink('rly_1')])
    await a.leave()
    assert.deepEqual(await b.listLinks(), [])
  })

  it('a member that was fenced takes nothing from others, and has its hubs again when it has joined again', async (t) => {
    const scene = await PostgresScene.open(t)
    const [late, alive] = [await scene.store({ lease: short }), await scene.store({ lease: short })]
    const [{ id }, { id: other }] = [await late.join(), await alive.join()]
    const [epoch = null] = await late.putLinks([aLink('rly_1')])
    await alive.putLinks([aLink('rly_2')])
    await eventually('it is fenced', async () => ((await alive.beat()).members.includes(id) ? null : true))
    assert.deepEqual(await placesOf(alive), new Map([['rly_2', other]]))
    await assert.rejects(late.putLinks([aLink('rly_2')]), { code: 'conflict' })
    const { linksVersion } = await alive.beat()
    const { id: again } = await late.join()
    assert.ok((await alive.beat()).linksVersion > linksVersion)
    assert.equal((await placesOf(alive)).get('rly_1'), again)
    assert.deepEqual(await late.putLinks([{ ...aLink('rly_1'), epoch }]), [epoch])
  })

  it('a process that opens the database forgets the links of relays that were revoked', async (t) => {
    const scene = await PostgresScene.open(t)
    const a = await scene.store({ lease: long })
    await a.join()
    const relay = { id: 'rly_1', name: 'home', tenant: 'default', hash: 'a'.repeat(64), createdAt: t0 }
    await a.putEntry('relay', relay, 0)
    await a.putLinks([aLink('rly_1'), aLink('rly_2')])
    await scene.store({ lease: long })
    assert.deepEqual([...(await placesOf(a)).keys()], ['rly_1'])
  })
})
