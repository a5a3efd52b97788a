import assert from 'node:assert/strict'
import { anArrival } from '../../support/builders.ts'
import { claimDue, type Promised, withEndpoint } from './promises.ts'

/** What a single member can rely on; several are tested where a store has several. */
export function clusterContract(promise: Promised): void {
  promise('a member is told the store’s time, which does not go back', async (store) => {
    const { now } = await store.join()
    assert.ok(Number.isSafeInteger(now) && now > Date.UTC(2024, 0, 1))
    assert.ok((await store.beat()).now >= now)
  })

  promise('the only member leads, and is not lost', async (store) => {
    const { id } = await store.join()
    const { members, leader, isLost } = await store.beat()
    assert.deepEqual({ members, leader, isLost }, { members: [id], leader: id, isLost: false })
  })

  promise('a lease is longer than the time between two beats', async (store) => {
    const { lease } = await store.join()
    if (lease !== null) assert.ok(lease.leaseMs >= 3 * lease.beatEveryMs)
  })

  promise('a hint does not come back to the member that gave it', async (store) => {
    const heard: string[] = []
    await store.join()
    store.onHint((endpointIds) => heard.push(...endpointIds))
    store.hint(['ep_1'])
    await store.beat()
    assert.deepEqual(heard, [])
  })

  promise('a member may leave twice, and the store works on', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.join()
    await store.append([anArrival(endpoint)])
    await store.leave()
    await store.leave()
    await store.join()
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
  })
}
