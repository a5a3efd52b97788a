import assert from 'node:assert/strict'
import { aNewDelivery, anArrival, anEvent, t0 } from '../../support/builders.ts'
import { claimDue, only, type Promised, withEndpoint } from './promises.ts'

export function recordContract(promise: Promised): void {
  promise('pages through everything once, newest first', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 25 }, () => anArrival(endpoint))
    await store.append(arrivals)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await store.listDeliveries({ limit: 10, ...(cursor === undefined ? {} : { cursor }) })
      seen.push(...page.items.map((item) => item.delivery.id))
      cursor = page.next ?? undefined
    } while (cursor !== undefined)
    assert.deepEqual(seen, arrivals.map((arrival) => arrival.deliveries[0]!.id).reverse())
  })

  promise('filters deliveries by what people look for', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    const first = anArrival(a, { event: { type: 'order.paid', tenant: 'acme' } })
    const second = anArrival(b, { event: { receivedAt: t0 + 100 } })
    await store.append([first, second])
    const claim = only((await claimDue(store, a)).claims)
    const { leaseEndsAt: _, ...facts } = claim.delivery
    const failed = {
      ...facts,
      status: 'failed' as const,
      reason: 'exhausted' as const,
      settledAt: t0 + 5,
      version: facts.version + 1,
      lastError: 'HTTP 503',
    }
    await store.commit([{ to: failed, attempt: null, claimNext: null }])
    const found = async (query: object) =>
      (await store.listDeliveries({ limit: 10, ...query })).items.map((item) => item.delivery.eventId)
    const [one, two] = [first.event.id, second.event.id]
    assert.deepEqual(await found({ statuses: ['failed'] }), [one])
    assert.deepEqual(await found({ statuses: ['pending'] }), [two])
    assert.deepEqual(await found({ endpointId: b.id }), [two])
    assert.deepEqual(await found({ eventId: one }), [one])
    assert.deepEqual(await found({ type: 'order.paid' }), [one])
    assert.deepEqual(await found({ tenant: 'acme' }), [one])
    assert.deepEqual(await found({ reason: 'exhausted' }), [one])
    assert.deepEqual(await found({ error: 'http 5' }), [one])
    assert.deepEqual(await found({ from: t0 + 1 }), [two])
    assert.deepEqual(await found({ to: t0 + 1 }), [one])
    assert.deepEqual(await found({ eventId: 'evt_nonsense' }), [])
    assert.deepEqual(await found({ endpointId: 'ep_nonsense' }), [])
    assert.deepEqual(
      (await store.listEvents({ limit: 10, tenant: 'acme' })).items.map((item) => [
        item.id,
        item.deliveries,
        item.size,
      ]),
      [[one, 1, first.event.body.length]],
    )
  })

  promise('says nothing about what it does not have', async (store) => {
    assert.equal(await store.getEvent('evt_nonsense'), null)
    assert.equal(await store.getDelivery('dlv_nonsense'), null)
    assert.deepEqual(await store.listAttempts('dlv_nonsense'), [])
    const endpoint = await withEndpoint(store)
    await store.append([{ event: anEvent(), idempotency: null, deliveries: [aNewDelivery(endpoint)] }])
    const { items } = await store.listEvents({ limit: 1 })
    const forged = `${only(items).id.slice(0, -1)}${only(items).id.endsWith('0') ? '1' : '0'}`
    assert.equal(await store.getEvent(forged), null)
  })

  promise('closes twice without harm, and refuses work afterwards', async (store) => {
    await store.close()
    await store.close()
    await assert.rejects(store.append([]), { code: 'shutting_down' })
  })
}
