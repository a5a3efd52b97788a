import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { DeliveryStatus } from '../../../src/core/delivery.ts'
import type { Endpoint } from '../../../src/core/endpoint.ts'
import type { Claim } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import type { Cursor, Expired, Pruned, Retention } from '../../../src/store/upkeep-store.ts'
import { aNewDelivery, anArrival, anEvent, t0 } from '../../support/builders.ts'
import { claimDue, ended, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const day = 86_400_000
const retention: Retention = { deliveredMs: 7 * day, failedMs: 7 * day, deadLetterMs: 14 * day, eventMs: 7 * day }

async function expireAll(store: Store, endpoint: Endpoint, bornBefore: number, limit: number): Promise<string[]> {
  const found: string[] = []
  let after: Cursor | null = null
  do {
    const now = bornBefore + 5
    const expired: Expired = await store.expire({ endpointId: endpoint.id, bornBefore, now, limit, after })
    found.push(...expired.deliveries.map(({ deliveryId }) => deliveryId))
    after = expired.after
  } while (after !== null)
  return found
}

async function pruneAll(store: Store, now: number, limit = 3): Promise<{ deliveries: number; events: number }> {
  const sum = { deliveries: 0, events: 0 }
  let after: Cursor | null = null
  do {
    const pruned: Pruned = await store.prune({ what: 'events', now, retention, limit, after })
    sum.deliveries += pruned.deliveries
    sum.events += pruned.deleted
    after = pruned.after
  } while (after !== null)
  return sum
}

export function upkeepContract(promise: Promised): void {
  promise('ends what is pending for too long as dead letters, and nothing younger', async (store) => {
    const [endpoint, other] = [await withEndpoint(store), await withEndpoint(store)]
    const at = (receivedAt: number) => anArrival(endpoint, { event: { receivedAt, type: 'a', tenant: 'x' } })
    const arrivals = [at(t0 - 3), at(t0 + 9), at(t0 - 1), at(t0 - 2), at(t0)]
    await store.append([...arrivals, anArrival(other, { event: { receivedAt: t0 - 9 } })])
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const request = { endpointId: endpoint.id, bornBefore: t0, now: t0 + 5, limit: 2, after: null }
    const first = await store.expire(request)
    const named = (index: number) => ({
      deliveryId: ids[index],
      eventId: arrivals[index]!.event.id,
      tenant: 'x',
      type: 'a',
    })
    assert.deepEqual(first.deliveries, [named(0), named(3)])
    const second = await store.expire({ ...request, after: first.after })
    assert.deepEqual(second, { deliveries: [named(2)], after: null })
    const record = await store.getDelivery(ids[0]!)
    assert.ok(record?.delivery.status === 'dead_letter')
    assert.deepEqual([record.delivery.reason, record.delivery.settledAt], ['expired', t0 + 5])
    assert.deepEqual([await statusOf(store, ids[1]!), await statusOf(store, ids[4]!)], ['pending', 'pending'])
    assert.equal((await claimDue(store, other)).claims.length, 1)
  })

  promise('leaves what is in hand and what was brought back since, and goes on past it', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 6 }, () => anArrival(endpoint, { event: { receivedAt: t0 - 9 } }))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const take = async (id: string) => only((await claimDue(store, endpoint, { from: { deliveryIds: [id] } })).claims)
    await take(ids[0]!)
    for (const id of ids.slice(1, 4)) {
      const { delivery } = await take(id)
      const { leaseEndsAt: _, ...facts } = delivery
      const back = { ...facts, status: 'pending', dueAt: t0, version: delivery.version + 1, replayedAt: t0 } as const
      await store.commit([{ to: back, attempt: null, claimNext: null }])
    }
    assert.deepEqual(await expireAll(store, endpoint, t0, 1), ids.slice(4))
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(store, id))), [
      ...['processing', 'pending', 'pending', 'pending', 'dead_letter', 'dead_letter'],
    ])
  })

  promise('brings up the next in a lane whose head expired, or all of whose rows did', async (store) => {
    const endpoint = await withEndpoint(store)
    const inLane = (receivedAt: number) => anArrival(endpoint, { event: { receivedAt }, delivery: { lane: 'all' } })
    const arrivals = [inLane(t0 - 3), inLane(t0 - 2), inLane(t0 - 2), inLane(t0 + 1)]
    await store.append(arrivals)
    assert.equal((await expireAll(store, endpoint, t0, 2)).length, 3)
    const claim = only((await claimDue(store, endpoint, { now: t0 + 5 })).claims)
    assert.equal(claim.delivery.id, arrivals[3]!.deliveries[0]!.id)
  })

  promise('what came while the clock was wrong has no age, until it is brought back', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 3 }, (_, i) => anArrival(endpoint, { event: { receivedAt: 5_000 + i } }))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const from = { deliveryIds: [ids[1]!] }
    const { delivery } = only((await claimDue(store, endpoint, { from })).claims)
    const { leaseEndsAt: _, ...facts } = delivery
    const back = { ...facts, status: 'pending', dueAt: t0, version: delivery.version + 1, replayedAt: t0 } as const
    await store.commit([{ to: back, attempt: null, claimNext: null }])
    assert.deepEqual(await expireAll(store, endpoint, t0, 1), [])
    assert.deepEqual(await expireAll(store, endpoint, t0 + 1, 1), [ids[1]])
  })

  promise('an event that came while the clock was wrong and went to nobody is not taken for old', async (store) => {
    const event = anEvent({ receivedAt: 5_000 })
    await store.append([{ event, idempotency: null, deliveries: [] }])
    assert.deepEqual(await pruneAll(store, t0), { deliveries: 0, events: 0 })
    assert.ok(await store.getEvent(event.id))
  })

  promise('deletes deliveries when their time is over, and an event with the last of them', async (store) => {
    const endpoint = await withEndpoint(store)
    const event = anEvent()
    const deliveries = [aNewDelivery(endpoint), aNewDelivery(endpoint)]
    await store.append([{ event, idempotency: null, deliveries }, anArrival(endpoint)])
    const [one, two] = (await claimDue(store, endpoint, { limit: 2 })).claims as [Claim, Claim]
    await store.commit([ended(one, { status: 'delivered' as never }), ended(two, { settledAt: t0 + day })])
    const over = t0 + 10 + 7 * day
    assert.deepEqual(await pruneAll(store, over - 1), { deliveries: 0, events: 0 })
    assert.deepEqual(await pruneAll(store, over), { deliveries: 1, events: 0 })
    assert.deepEqual([await statusOf(store, one.delivery.id), (await store.getEvent(event.id))?.id], [null, event.id])
    assert.deepEqual(await pruneAll(store, t0 + 8 * day), { deliveries: 1, events: 1 })
    assert.equal(await store.getEvent(event.id), null)
    assert.equal((await store.listEvents({ limit: 10 })).items.length, 1, 'what is pending stays, with its event')
  })

  promise('looks at a bounded number of events and says where to go on', async (store) => {
    const arrivals = Array.from({ length: 5 }, (_, i) => ({
      event: anEvent({ receivedAt: t0 + i }),
      idempotency: null,
      deliveries: [],
    }))
    const request = { what: 'events' as const, now: t0 + 7 * day + 1, retention, limit: 3 }
    const none = { deleted: 0, deliveries: 0, after: null, youngestAt: null }
    assert.deepEqual(await store.prune({ ...request, after: null }), none)
    await store.append(arrivals)
    const first = await store.prune({ ...request, after: null })
    assert.deepEqual([first.deleted, first.youngestAt], [2, t0 + 2])
    const second = await store.prune({ ...request, after: first.after })
    assert.deepEqual(second, { ...none, youngestAt: t0 + 4 })
  })

  promise('looks at a bounded number of idempotency keys and deletes those that ended', async (store) => {
    const expiries = [t0, t0 + 9, t0 + 1, t0 + 9, t0 + 2]
    const keys = ['a:1', 'b', 'c"', 'd', 'e']
    const facts = { scope: 'acme', fingerprint: 'f' }
    await store.append(
      expiries.map((expiresAt, i) => ({
        event: anEvent(),
        idempotency: { ...facts, key: keys[i]!, expiresAt },
        deliveries: [],
      })),
    )
    const deleted: number[] = []
    let after: Cursor | null = null
    do {
      const pruned: Pruned = await store.prune({ what: 'keys', now: t0 + 2, limit: 2, after })
      deleted.push(pruned.deleted)
      after = pruned.after
    } while (after !== null)
    assert.deepEqual(deleted, [1, 1, 1])
    assert.equal((await store.prune({ what: 'keys', now: t0 + 9, limit: 10, after: null })).deleted, 2)
  })

  promise('prune never deletes what is live or younger than the rules, and all that is older', async (store) => {
    const endpoint = await withEndpoint(store)
    const facts = fc.record({
      status: fc.constantFrom<DeliveryStatus>('pending', 'processing', 'delivered', 'failed', 'dead_letter'),
      receivedDay: fc.integer({ min: 0, max: 20 }),
      settledAfter: fc.integer({ min: 0, max: 20 }),
    })
    const events = fc.array(fc.array(facts, { maxLength: 3 }), { maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(events, fc.integer({ min: 0, max: 50 }), async (plan, today) => {
        const now = t0 + today * day
        const rows = plan.map((deliveries) => {
          const receivedAt = t0 + (deliveries[0]?.receivedDay ?? 0) * day
          const made = deliveries.map((fact) => ({ ...fact, ...aNewDelivery(endpoint) }))
          return { event: anEvent({ receivedAt }), idempotency: null, deliveries: made }
        })
        await store.append(rows)
        const keptUntil = new Map<string, number>()
        for (const { event, deliveries } of rows) {
          for (const { id, status, settledAfter } of deliveries) {
            const settledAt = event.receivedAt + settledAfter * day
            if (status === 'pending' || status === 'processing') keptUntil.set(id, Number.POSITIVE_INFINITY)
            else if (status === 'dead_letter')
              keptUntil.set(id, Math.max(event.receivedAt + 14 * day, settledAt + 7 * day))
            else keptUntil.set(id, settledAt + 7 * day)
            if (status === 'pending') continue
            const claim = only((await claimDue(store, endpoint, { from: { deliveryIds: [id] } })).claims)
            if (status === 'processing') continue
            await store.commit([ended(claim, { status: status as never, settledAt, deliveredAt: settledAt } as object)])
          }
        }
        await pruneAll(store, now)
        for (const { event, deliveries } of rows) {
          for (const { id, status } of deliveries) {
            assert.equal(await statusOf(store, id), keptUntil.get(id)! > now ? status : null)
          }
          const ends = deliveries.map(({ id }) => keptUntil.get(id)!)
          const until = deliveries.length === 0 ? event.receivedAt + 7 * day : Math.max(...ends)
          assert.equal((await store.getEvent(event.id)) !== null, until > now)
        }
      }),
      { numRuns: 25 },
    )
  })

  promise('tells what waits at which endpoint, and how many dead letters there are', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    await withEndpoint(store)
    const lane = 'all'
    await store.append([
      anArrival(a, { event: { receivedAt: t0 + 3 }, delivery: { lane } }),
      anArrival(a, { event: { receivedAt: t0 + 2 }, delivery: { lane } }),
      anArrival(a, { event: { receivedAt: t0 - 9 }, delivery: { leaseEndsAt: t0 + 99 } }),
      anArrival(b, { delivery: { dueAt: t0 + 1e9 } }),
      anArrival(b),
    ])
    await store.commit((await claimDue(store, b)).claims.map((claim) => ended(claim)))
    const { backlog, deadLetters, deadLettersAt } = await store.stats()
    assert.deepEqual(backlog, [
      { endpointId: a.id, pending: 2, oldestAt: t0 + 2 },
      { endpointId: b.id, pending: 1, oldestAt: t0 },
    ])
    assert.equal(deadLetters, 1)
    assert.deepEqual(deadLettersAt, [{ endpointId: b.id, count: 1 }])
  })
}
