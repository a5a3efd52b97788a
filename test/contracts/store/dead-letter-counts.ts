import assert from 'node:assert/strict'
import { replayed } from '../../../src/core/lifecycle.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, t0 } from '../../support/builders.ts'
import { claimDue, ended, only, type Promised, withEndpoint } from './promises.ts'

const hourMs = 3_600_000
/** The beginning of an hour. */
const hour = Math.ceil(t0 / hourMs) * hourMs

/** As `endpoint reason count`, sorted; ids are named. */
async function countsSince(store: Store, at: number, names: Readonly<Record<string, string>>): Promise<string[]> {
  const counts = await store.deadLettersSince(at)
  return counts.map(({ endpointId, reason, count }) => `${names[endpointId]} ${reason} ${count}`).sort()
}

export function deadLetterCountContract(promise: Promised): void {
  promise('counts what became a dead letter, by endpoint and reason, and no success', async (store, under) => {
    const [a, b] = [await withEndpoint(store, { tenant: 'acme' }), await withEndpoint(store)]
    const names = { [a.id]: 'a', [b.id]: 'b' }
    await store.append([...Array.from({ length: 4 }, () => anArrival(a)), anArrival(b, { delivery: { lane: 'all' } })])
    const [one, two, three, four] = (await claimDue(store, a)).claims
    const dead = (claim = one, reason: 'exhausted' | 'permanent_status' = 'exhausted') =>
      ended(claim!, { reason, settledAt: hour })
    await store.commit([
      dead(),
      dead(two),
      dead(three, 'permanent_status'),
      ended(four!, { status: 'delivered' } as never),
    ])
    await store.commit([ended(only((await claimDue(store, b)).claims), { settledAt: hour })])
    // The same change again is stale, and counts nothing.
    await store.commit([dead()])
    const expected = ['a exhausted 2', 'a permanent_status 1', 'b exhausted 1']
    assert.deepEqual(await countsSince(store, hour, names), expected)
    assert.deepEqual(
      (await store.deadLettersSince(hour))
        .filter(({ tenant }) => tenant === 'acme')
        .map(({ endpointId }) => endpointId),
      [a.id, a.id],
    )
    assert.deepEqual(await countsSince(await under.reopen(), hour, names), expected, 'after a restart')
  })

  promise('counts what ends without a try: expired, its endpoint gone before or after it came', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    await store.append([
      ...Array.from({ length: 3 }, () => anArrival(a)),
      anArrival(b, { event: { receivedAt: hour } }),
    ])
    await store.expire({ endpointId: b.id, bornBefore: hour + 1, now: hour + 2, limit: 10, after: null })
    await store.removeEntry('endpoint', a.id)
    const ending = { endpointId: a.id, reason: 'endpoint_deleted' as const, now: hour + 3 }
    await store.endPending({ ...ending, limit: 2 })
    await store.endPending({ ...ending, limit: 2 })
    await store.append([anArrival(a, { event: { receivedAt: hour } })])
    const names = { [a.id]: 'a', [b.id]: 'b' }
    assert.deepEqual(await countsSince(store, hour, names), ['a endpoint_deleted 4', 'b expired 1'])
  })

  promise('counts from the beginning of an hour on, and each end of one that was brought back', async (store) => {
    const endpoint = await withEndpoint(store)
    const names = { [endpoint.id]: 'a' }
    await store.append([anArrival(endpoint), anArrival(endpoint)])
    const [before, after] = (await claimDue(store, endpoint)).claims
    const first = ended(before!, { settledAt: hour - 1 })
    await store.commit([first, ended(after!, { settledAt: hour })])
    assert.deepEqual(await countsSince(store, hour + hourMs - 1, names), ['a exhausted 1'])
    assert.deepEqual(await countsSince(store, hour - 1, names), ['a exhausted 2'])
    assert.deepEqual(await countsSince(store, hour + hourMs, names), [])
    await store.commit([{ to: replayed(first.to as never, hour), attempt: null, claimNext: null }])
    assert.deepEqual(await countsSince(store, hour, names), ['a exhausted 1'], 'coming back is no end')
    const again = only((await claimDue(store, endpoint, { now: hour + 1, leaseEndsAt: hour + 9 })).claims)
    await store.commit([ended(again, { settledAt: hour + 2 })])
    assert.deepEqual(await countsSince(store, hour, names), ['a exhausted 2'])
  })

  promise('forgets old counts, a bounded piece at a time', async (store) => {
    const endpoints = [await withEndpoint(store), await withEndpoint(store), await withEndpoint(store)]
    for (const [index, endpoint] of endpoints.entries()) {
      await store.append([anArrival(endpoint)])
      const claim = only((await claimDue(store, endpoint)).claims)
      await store.commit([ended(claim, { settledAt: index < 2 ? hour - 1 : hour })])
    }
    const request = { what: 'dead_letter_counts' as const, before: hour, limit: 1 }
    const first = await store.prune({ ...request, after: null })
    const second = await store.prune({ ...request, after: first.after })
    const third = await store.prune({ ...request, after: second.after })
    assert.deepEqual([first.deleted, second.deleted, third.deleted, third.after], [1, 1, 0, null])
    const left = await store.deadLettersSince(0)
    assert.deepEqual(
      left.map(({ endpointId }) => endpointId),
      [endpoints[2]!.id],
    )
  })
}
