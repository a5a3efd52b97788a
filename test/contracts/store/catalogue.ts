import assert from 'node:assert/strict'
import { closedBreaker } from '../../../src/core/circuit-breaker.ts'
import type { Claim } from '../../../src/store/pipeline-store.ts'
import { anArrival, retryAt, t0 } from '../../support/builders.ts'
import { itemsOf } from '../../support/registry.ts'
import { claimDue, lease, type Promised, withEndpoint } from './promises.ts'

export function catalogueContract(promise: Promised): void {
  promise('keeps endpoints with their secrets and headers', async (store, under) => {
    const endpoint = await withEndpoint(store, { headers: { authorization: 'Bearer a' } })
    const changed = { ...endpoint, description: 'changed', status: 'paused' as const }
    await store.putEntry('endpoint', changed, 1)
    assert.deepEqual(await itemsOf(await under.reopen(), 'endpoint'), [changed])
  })

  promise('keeps breakers, holds and failings', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const condition = {
      endpointId: endpoint.id,
      breaker: { state: 'open', failures: 5, openedAt: t0, until: t0 + 9 } as const,
      heldUntil: t0 + 5,
      failingSince: t0 - 5,
      lastError: 'HTTP 503',
      lastErrorAt: t0 - 1,
    }
    await store.putConditions([{ ...condition, breaker: closedBreaker }])
    await store.putConditions([condition])
    assert.deepEqual(await (await under.reopen()).listConditions(), [condition])
  })

  promise('ends the pending deliveries of a removed endpoint, in chunks, those behind others too', async (store) => {
    const endpoint = await withEndpoint(store)
    const lane = 'all'
    await store.append([
      ...Array.from({ length: 3 }, () => anArrival(endpoint)),
      ...Array.from({ length: 3 }, () => anArrival(endpoint, { delivery: { lane } })),
    ])
    await store.removeEntry('endpoint', endpoint.id)
    assert.deepEqual(await itemsOf(store, 'endpoint'), [])
    const request = { endpointId: endpoint.id, reason: 'endpoint_deleted' as const, now: t0 + 1, limit: 4 }
    const steps = [await store.endPending(request), await store.endPending(request), await store.endPending(request)]
    assert.deepEqual(
      steps.map(({ length }) => length),
      [4, 2, 0],
    )
    const { items } = await store.listDeliveries({ statuses: ['failed'], endpointId: endpoint.id, limit: 10 })
    assert.equal(items.length, 6)
    const facts = items.map(({ delivery, tenant, type }) => ({
      deliveryId: delivery.id,
      eventId: delivery.eventId,
      tenant,
      type,
    }))
    const byId = (a: { deliveryId: string }, b: { deliveryId: string }) => (a.deliveryId < b.deliveryId ? -1 : 1)
    assert.deepEqual(steps.flat().toSorted(byId), facts.toSorted(byId))
  })

  promise('ends what lapsed in the hands of nobody, and leaves no date for another try', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint), anArrival(endpoint)])
    const [waiting, lapsed] = (await claimDue(store, endpoint)).claims as [Claim, Claim]
    await store.commit([{ to: retryAt(waiting.delivery, t0 + 9e9), attempt: null, claimNext: null }])
    await store.removeEntry('endpoint', endpoint.id)
    const request = { endpointId: endpoint.id, reason: 'endpoint_deleted' as const, limit: 10 }
    assert.equal((await store.endPending({ ...request, now: lease - 1 })).length, 1)
    assert.equal((await store.endPending({ ...request, now: lease })).length, 1)
    for (const { delivery } of [waiting, lapsed]) {
      const record = await store.getDelivery(delivery.id)
      assert.equal(record?.delivery.status, 'failed')
      assert.equal(record?.delivery.retryAfter, null)
    }
  })

  promise('a lane of a removed endpoint that is ended half-way is found again', async (store, under) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 10 }, () => anArrival(endpoint, { delivery: { lane: 'all' } })))
    await store.removeEntry('endpoint', endpoint.id)
    const request = { endpointId: endpoint.id, reason: 'endpoint_deleted' as const, now: t0 + 1 }
    assert.equal((await store.endPending({ ...request, limit: 4 })).length, 4)
    const again = await under.reopen()
    assert.deepEqual(
      (await again.backlog(t0 + 1)).map(({ endpointId }) => endpointId),
      [endpoint.id],
    )
    assert.equal((await again.endPending({ ...request, limit: 100 })).length, 6)
    assert.deepEqual(await again.backlog(t0 + 1), [])
  })
}
