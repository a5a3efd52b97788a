import assert from 'node:assert/strict'
import type { Endpoint } from '../../../src/core/endpoint.ts'
import { handedBack } from '../../../src/core/lifecycle.ts'
import type { ClaimRequest } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, delivered, retryAt, t0 } from '../../support/builders.ts'
import { claimDue, lease, only, type Promised, type StoreUnderTest, withEndpoint } from './promises.ts'

const idsOf = (arrivals: readonly ReturnType<typeof anArrival>[]) =>
  arrivals.map((arrival) => arrival.deliveries[0]!.id)

/** One that was in hand at a crash, between others that were not: those before it are due longer. */
async function withSuspect(store: Store, under: StoreUnderTest) {
  const endpoint = await withEndpoint(store)
  const arrivals = Array.from({ length: 4 }, (_, i) => anArrival(endpoint, { event: { receivedAt: t0 - 10 + i } }))
  await store.append(
    arrivals.map((arrival, i) => ({ ...arrival, deliveries: [{ ...arrival.deliveries[0]!, dueAt: t0 - 10 + i }] })),
  )
  const ids = idsOf(arrivals)
  await claimDue(store, endpoint, { from: { deliveryIds: [ids[1]!] } })
  return { endpoint, ids, store: await under.reopen() }
}

async function claimed(store: Store, endpoint: Endpoint, given: Partial<ClaimRequest> = {}): Promise<string[]> {
  const { claims } = await claimDue(store, endpoint, { aloneFrom: 1, ...given })
  return claims.map((claim) => claim.delivery.id)
}

export function suspectContract(promise: Promised): void {
  promise(
    'one that was interrupted is claimed alone, and those before and after it without it',
    async (first, under) => {
      const { store, endpoint, ids } = await withSuspect(first, under)
      assert.deepEqual(await claimed(store, endpoint), [ids[0]])
      assert.deepEqual(await claimed(store, endpoint), [ids[1]])
      assert.deepEqual(await claimed(store, endpoint), [ids[2], ids[3]])
    },
  )

  promise('who does not ask for it gets them together', async (first, under) => {
    const { store, endpoint, ids } = await withSuspect(first, under)
    assert.deepEqual(await claimed(store, endpoint, { aloneFrom: null }), ids)
  })

  promise('one with fewer interruptions than are asked for is claimed with the others', async (first, under) => {
    const { store, endpoint, ids } = await withSuspect(first, under)
    assert.deepEqual(await claimed(store, endpoint, { aloneFrom: 2 }), ids)
  })

  promise('from so many on it is claimed alone, and those before and after it without it', async (first, under) => {
    const { store: once, endpoint, ids } = await withSuspect(first, under)
    await claimDue(once, endpoint, { from: { deliveryIds: [ids[1]!] } })
    const store = await under.reopen()
    assert.deepEqual(await claimed(store, endpoint, { aloneFrom: 2 }), [ids[0]])
    assert.deepEqual(await claimed(store, endpoint, { aloneFrom: 2 }), [ids[1]])
    assert.deepEqual(await claimed(store, endpoint, { aloneFrom: 2 }), [ids[2], ids[3]])
  })

  promise('one whose lease lapsed is claimed alone too, and before what is due', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 3 }, () => anArrival(endpoint))
    await store.append(arrivals)
    const ids = idsOf(arrivals)
    await claimDue(store, endpoint, { limit: 2 })
    const later = { now: lease, leaseEndsAt: lease + 9 }
    assert.equal((await claimed(store, endpoint, later)).length, 1)
    assert.equal((await claimed(store, endpoint, later)).length, 1)
    assert.deepEqual(await claimed(store, endpoint, later), [ids[2]])
    assert.deepEqual(await claimed(store, endpoint, { from: { deliveryIds: [ids[0]!, ids[1]!] }, now: lease + 9 }), [
      ids[0],
    ])
  })

  promise(
    'what was given back untried is still suspected; what came back from a try is not, whatever it brought',
    async (first, under) => {
      const { store, endpoint, ids } = await withSuspect(first, under)
      const take = async () => only((await claimDue(store, endpoint, { from: { deliveryIds: [ids[1]!] } })).claims)
      const suspect = await take()
      assert.equal(suspect.interruptions, 1)
      await store.commit([{ to: handedBack(suspect.delivery, t0), attempt: null, claimNext: null }])
      const again = await take()
      assert.equal(again.interruptions, 1)
      await store.commit([{ to: handedBack(again.delivery, t0), attempt: null, claimNext: null, ran: true }])
      const ours = await take()
      assert.equal(ours.interruptions, 0)
      await store.commit([{ to: retryAt(ours.delivery, t0), attempt: null, claimNext: null, ran: true }])
      assert.equal((await take()).interruptions, 0)
    },
  )

  promise('what a lane brings up and hands over was never in hand before', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 3 }, () => anArrival(endpoint, { delivery: { lane: 'all' } }))
    await store.append(arrivals)
    await claimDue(store, endpoint)
    const again = await under.reopen()
    const head = only((await claimDue(again, endpoint, { aloneFrom: 1 })).claims)
    assert.equal(head.interruptions, 1)
    const result = only(await again.commit([{ ...delivered(head), claimNext: lease }]))
    assert.ok(result.kind === 'applied' && result.next !== null)
    assert.deepEqual([result.next.delivery.id, result.next.interruptions], [idsOf(arrivals)[1], 0])
  })
}
