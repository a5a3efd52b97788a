import assert from 'node:assert/strict'
import fc from 'fast-check'
import { newborn } from '../../../src/core/delivery.ts'
import type { Endpoint } from '../../../src/core/endpoint.ts'
import { birthOf, born } from '../../../src/core/lifecycle.ts'
import type { NewDelivery } from '../../../src/store/pipeline-store.ts'
import { anArrival, anEvent, t0 } from '../../support/builders.ts'
import { claimDue, lease, type Promised, withEndpoint } from './promises.ts'

export function appendContract(promise: Promised): void {
  promise('keeps an event with its bytes, headers and deliveries', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const body = new Uint8Array([0, 255, 10, 13, 0, 128])
    const event = { body, headers: { 'x-a': 'b' }, key: 'k', dataOffset: null, contentType: 'application/x-thing' }
    const arrival = anArrival(endpoint, { event })
    const appended = await store.append([arrival])
    assert.deepEqual(appended, {
      kind: 'kept',
      items: [{ eventId: arrival.event.id, deliveries: 1, duplicate: false, claimed: [false], ended: [] }],
    })
    const again = await under.reopen()
    const kept = await again.getEvent(arrival.event.id)
    assert.ok(kept)
    assert.deepEqual({ ...kept, body: [...kept.body] }, { ...arrival.event, body: [...body] })
    const record = await again.getDelivery(arrival.deliveries[0]!.id)
    assert.equal(record?.delivery.status, 'pending')
    assert.equal(record?.key, 'k')
  })

  promise('a new delivery is born as core says, in every way there is', async (store) => {
    const [endpoint, removed] = [await withEndpoint(store), await withEndpoint(store)]
    await store.removeEntry('endpoint', removed.id)
    const births: readonly (readonly [Endpoint, Partial<NewDelivery>, isBehind: boolean])[] = [
      [endpoint, { dueAt: t0 + 7 }, false],
      [endpoint, { leaseEndsAt: lease }, false],
      [endpoint, { lane: 'a', leaseEndsAt: lease }, false],
      [endpoint, { lane: 'a', leaseEndsAt: lease }, true],
      [removed, { lane: 'a', leaseEndsAt: lease }, false],
    ]
    const arrivals = births.map(([to, delivery]) => anArrival(to, { event: { receivedAt: t0 + 3 }, delivery }))
    await store.append(arrivals)
    for (const [index, { event, deliveries }] of arrivals.entries()) {
      const [to, , isBehind] = births[index]!
      const { id, lane, dueAt, leaseEndsAt } = deliveries[0]!
      const { receivedAt } = event
      const facts = newborn({ id, eventId: event.id, endpointId: to.id, lane, receivedAt })
      const birth = birthOf({ receivedAt, isEndpointGone: to === removed, isBehind, dueAt, leaseEndsAt })
      assert.deepEqual((await store.getDelivery(id))?.delivery, born(facts, birth))
    }
  })

  promise('keeps any bytes as they are', async (store) => {
    await withEndpoint(store)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 5_000 }), { minLength: 1, maxLength: 5 }),
        async (bodies) => {
          const events = bodies.map((body) => anEvent({ body }))
          await store.append(events.map((event) => ({ event, idempotency: null, deliveries: [] })))
          for (const event of events) {
            assert.deepEqual([...((await store.getEvent(event.id))?.body ?? [])], [...event.body])
          }
        },
      ),
      { numRuns: 25 },
    )
  })

  promise('answers a duplicate with the first event', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', expiresAt: t0 + 1_000 }
    const first = anArrival(endpoint, { idempotency })
    await store.append([first])
    const again = await under.reopen()
    const second = await again.append([anArrival(endpoint, { idempotency })])
    assert.deepEqual(second, {
      kind: 'kept',
      items: [{ eventId: first.event.id, deliveries: 1, duplicate: true, claimed: [], ended: [] }],
    })
    assert.equal((await again.listEvents({ limit: 10 })).items.length, 1)
  })

  promise('answers two of the same key in one batch with one event', async (store) => {
    const endpoint = await withEndpoint(store)
    const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', expiresAt: t0 + 1_000 }
    const appended = await store.append([anArrival(endpoint, { idempotency }), anArrival(endpoint, { idempotency })])
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(
      appended.items.map((item) => item.duplicate),
      [false, true],
    )
  })

  promise('keeps nothing of a batch in which a key is re-used for something else', async (store) => {
    const endpoint = await withEndpoint(store)
    const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', expiresAt: t0 + 1_000 }
    await store.append([anArrival(endpoint, { idempotency })])
    const appended = await store.append([
      anArrival(endpoint, { idempotency: { ...idempotency, key: 'new' } }),
      anArrival(endpoint, { idempotency: { ...idempotency, fingerprint: 'other' } }),
    ])
    assert.deepEqual(appended, { kind: 'conflict', conflicts: [1] })
    assert.equal((await store.listEvents({ limit: 10 })).items.length, 1)
    const unused = await store.append([
      anArrival(endpoint, { idempotency: { ...idempotency, key: 'new', fingerprint: 'x' } }),
    ])
    assert.equal(unused.kind, 'kept')
  })

  promise('knows a key per tenant and only until it ends', async (store) => {
    const endpoint = await withEndpoint(store)
    const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', expiresAt: t0 + 1_000 }
    await store.append([anArrival(endpoint, { idempotency })])
    const other = await store.append([
      anArrival(endpoint, {
        event: { tenant: 'b' },
        idempotency: { ...idempotency, scope: 'tenant:b', fingerprint: 'g' },
      }),
      anArrival(endpoint, { event: { receivedAt: t0 + 1_000 }, idempotency: { ...idempotency, fingerprint: 'h' } }),
    ])
    assert.ok(other.kind === 'kept')
    assert.deepEqual(
      other.items.map((item) => item.duplicate),
      [false, false],
    )
    assert.equal((await store.prune({ what: 'keys', now: t0 + 1_000, limit: 100, after: null })).deleted, 2)
  })

  promise('of many writers with one key at once, one event is kept', async (store) => {
    const endpoint = await withEndpoint(store)
    const idempotency = { scope: 'tenant:default', key: 'k', fingerprint: 'f', expiresAt: t0 + 1_000 }
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => store.append([anArrival(endpoint, { idempotency })])),
    )
    const found = new Set(answers.map((answer) => (answer.kind === 'kept' ? answer.items[0]?.eventId : 'conflict')))
    assert.equal(found.size, 1)
    assert.equal((await store.listDeliveries({ limit: 100 })).items.length, 1)
  })

  promise('gives birth to a claimed delivery when the dispatcher wants it', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrival = anArrival(endpoint, { delivery: { leaseEndsAt: lease } })
    const appended = await store.append([arrival])
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(appended.items[0]?.claimed, [true])
    assert.equal((await store.getDelivery(arrival.deliveries[0]!.id))?.delivery.status, 'processing')
    assert.deepEqual((await claimDue(store, endpoint)).claims, [])
  })

  promise('keeps a delivery to an endpoint that was removed meanwhile as failed', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.removeEntry('endpoint', endpoint.id)
    const arrival = anArrival(endpoint, { delivery: { leaseEndsAt: lease } })
    const appended = await store.append([arrival])
    assert.ok(appended.kind === 'kept')
    assert.deepEqual([appended.items[0]?.claimed, appended.items[0]?.ended], [[false], [0]])
    const record = await store.getDelivery(arrival.deliveries[0]!.id)
    assert.ok(record?.delivery.status === 'failed')
    assert.equal(record.delivery.reason, 'endpoint_deleted')
  })
}
