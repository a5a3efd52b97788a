import assert from 'node:assert/strict'
import type { Attempt } from '../../../src/core/attempt.ts'
import { type Claim, largeBytesMin } from '../../../src/store/pipeline-store.ts'
import { aNewDelivery, anArrival, anEvent, anId, delivered, retryAt, t0 } from '../../support/builders.ts'
import { claimDue, lease, only, type Promised, withEndpoint } from './promises.ts'

export function claimContract(promise: Promised): void {
  promise('gives due work, longest due first, and nothing that is not due', async (store) => {
    const endpoint = await withEndpoint(store)
    const at = (dueAt: number) => anArrival(endpoint, { delivery: { dueAt } })
    const [late, early, future] = [at(t0 + 1), at(t0 - 5), at(t0 + 500)]
    await store.append([late, early, future])
    const { claims, nextDueAt } = await claimDue(store, endpoint)
    assert.deepEqual(
      claims.map((claim) => claim.delivery.id),
      [early.deliveries[0]!.id, late.deliveries[0]!.id],
    )
    assert.equal(nextDueAt, t0 + 500)
    assert.deepEqual(
      claims.map((claim) => claim.event.id),
      [early.event.id, late.event.id],
    )
  })

  promise('gives each delivery to one claimer only', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 50 }, () => anArrival(endpoint)))
    const answers = await Promise.all(Array.from({ length: 10 }, () => claimDue(store, endpoint, { limit: 20 })))
    const claimed = answers.flatMap((answer) => answer.claims.map((claim) => claim.delivery.id))
    assert.equal(claimed.length, 50)
    assert.equal(new Set(claimed).size, 50)
  })

  promise('respects the limits of count and bytes, and says what the first would need', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 5 }, () => anArrival(endpoint, { event: { body: new Uint8Array(1_000) } })))
    const { claims, tooLarge, nextDueAt } = await claimDue(store, endpoint, { bytesMax: 999 })
    assert.deepEqual([claims, tooLarge], [[], 1_000])
    assert.ok(nextDueAt !== null && nextDueAt <= t0 + 1, 'it is still due')
    const two = await claimDue(store, endpoint, { bytesMax: 2_999 })
    assert.deepEqual([two.claims.length, two.tooLarge], [2, null])
    assert.equal((await claimDue(store, endpoint, { limit: 1 })).claims.length, 1)
  })

  promise('a large body is one object for all who claim it, whoever had it first', async (store, under) => {
    const [a, b, c] = [await withEndpoint(store), await withEndpoint(store), await withEndpoint(store)]
    const body = new Uint8Array(largeBytesMin).fill(7)
    const arrival = anArrival(a, { event: { body } })
    const others = [b, c].map((each) => ({ ...arrival.deliveries[0]!, id: anId('dlv'), endpointId: each.id }))
    await store.append([{ ...arrival, deliveries: [...arrival.deliveries, ...others] }])
    assert.equal(only((await claimDue(store, a)).claims).event.body, body, 'what was appended is in memory')
    const again = await under.reopen()
    const [second, third] = await Promise.all([claimDue(again, b), claimDue(again, c)])
    assert.deepEqual(only(second.claims).event.body, body)
    assert.equal(only(third.claims).event.body, only(second.claims).event.body)
    const first = only((await claimDue(again, a)).claims)
    assert.equal(first.event.body, only(second.claims).event.body)
  })

  promise('keeps endpoints apart', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    await store.append([anArrival(a), anArrival(b)])
    const { claims } = await claimDue(store, a)
    assert.equal(only(claims).delivery.endpointId, a.id)
  })

  promise('refuses the commit of one that lost its lease, and flags what comes back', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint)])
    const first = only((await claimDue(store, endpoint)).claims)
    assert.equal(first.interruptions, 0)
    assert.deepEqual((await claimDue(store, endpoint, { now: lease - 1 })).claims, [])
    const second = only((await claimDue(store, endpoint, { now: lease, leaseEndsAt: lease + 60_000 })).claims)
    assert.equal(second.interruptions, 1)
    assert.equal(only(await store.commit([delivered(first)])).kind, 'stale')
    assert.equal(only(await store.commit([delivered(second)])).kind, 'applied')
    assert.equal(only(await store.commit([delivered(second)])).kind, 'stale')
  })

  promise('a renewed lease lasts longer, unless it was lost before', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint)])
    const { delivery } = only((await claimDue(store, endpoint)).claims)
    await store.renew([{ deliveryId: delivery.id, version: delivery.version, leaseEndsAt: lease + 1_000 }])
    assert.deepEqual((await claimDue(store, endpoint, { now: lease })).claims, [])
    await store.renew([{ deliveryId: delivery.id, version: delivery.version - 1, leaseEndsAt: lease + 9_000 }])
    assert.equal((await claimDue(store, endpoint, { now: lease + 1_000 })).claims.length, 1)
  })

  promise('a lease is renewed only while its delivery is in hand', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint)])
    const { delivery } = only((await claimDue(store, endpoint)).claims)
    const to = retryAt(delivery, t0 + 5_000)
    await store.commit([{ to, attempt: null, claimNext: null }])
    await store.renew([{ deliveryId: to.id, version: to.version, leaseEndsAt: lease }])
    assert.deepEqual((await store.getDelivery(to.id))?.delivery, to)
    assert.equal((await claimDue(store, endpoint, { now: t0 + 5_000 })).claims.length, 1)
  })

  promise('keeps retries, outcomes and the attempt log over a restart', async (store, under) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint), anArrival(endpoint)])
    const [one, two] = (await claimDue(store, endpoint)).claims as [Claim, Claim]
    const attempt: Attempt = {
      number: 1,
      startedAt: t0 + 3,
      tookMs: 7,
      outcome: 'unavailable',
      statusCode: 503,
      error: 'HTTP 503',
      responseHeaders: { 'retry-after': '5' },
      responseBody: 'no \u{1f4ef}',
      errorClass: 'PaymentError',
      dependency: 'payments-api',
      stack: 'Error: no\n    at handler',
    }
    const retry = { to: retryAt(one.delivery, t0 + 5_000), attempt, claimNext: null }
    assert.deepEqual(
      (await store.commit([retry, delivered(two)])).map((result) => result.kind),
      ['applied', 'applied'],
    )
    const again = await under.reopen()
    assert.deepEqual((await again.getDelivery(one.delivery.id))?.delivery, retry.to)
    assert.deepEqual(await again.listAttempts(one.delivery.id), [attempt])
    assert.equal((await again.getDelivery(two.delivery.id))?.delivery.status, 'delivered')
    assert.deepEqual((await claimDue(again, endpoint, { now: t0 + 4_999 })).claims, [])
    assert.equal((await claimDue(again, endpoint, { now: t0 + 5_000 })).claims.length, 1)
  })

  promise('a new owner gets at once what the old one had in hand, flagged', async (store, under) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint, { delivery: { leaseEndsAt: lease } }), anArrival(endpoint)])
    await claimDue(store, endpoint)
    const again = await under.reopen()
    const { claims } = await claimDue(again, endpoint)
    assert.deepEqual(
      claims.map((claim) => claim.interruptions > 0),
      [true, true],
    )
  })

  promise('takes a named delivery before it is due', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrival = anArrival(endpoint, { delivery: { dueAt: t0 + 99_000 } })
    await store.append([arrival])
    const deliveryIds = [arrival.deliveries[0]!.id, 'dlv_unknown']
    assert.equal((await claimDue(store, endpoint, { from: { deliveryIds } })).claims.length, 1)
  })

  promise('tells for every endpoint with work when the first is due', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    await withEndpoint(store)
    await store.append([
      anArrival(a, { delivery: { dueAt: t0 + 7 } }),
      anArrival(a, { delivery: { dueAt: t0 + 3 } }),
      anArrival(b, { delivery: { leaseEndsAt: t0 + 50 } }),
    ])
    assert.deepEqual(await store.backlog(t0), [{ endpointId: a.id, nextDueAt: t0 + 3 }])
    const later = await store.backlog(t0 + 50)
    assert.deepEqual(new Set(later.map((entry) => entry.endpointId)), new Set([a.id, b.id]))
  })

  promise('pulls due times of a clock that ran ahead back', async (store) => {
    const endpoint = await withEndpoint(store)
    const at = (dueAt: number) => anArrival(endpoint, { delivery: { dueAt } })
    await store.append([at(t0), at(t0 + 1e9), at(t0 + 5)])
    const tried = (await claimDue(store, endpoint, { limit: 1 })).claims[0]!
    await store.commit([{ to: retryAt(tried.delivery, t0 + 1e9), attempt: null, claimNext: null }])
    const request = { endpointId: endpoint.id, latestDueAt: t0 + 1_000, untriedDueAt: t0 + 10 }
    assert.equal(await store.pullBack(request), 2)
    assert.equal(await store.pullBack(request), 0)
    assert.equal((await claimDue(store, endpoint, { now: t0 + 10 })).claims.length, 2, 'what no failure put off')
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 + 999 })).claims, [])
    const last = only((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims)
    assert.equal(last.delivery.id, tried.delivery.id)
    assert.equal(last.delivery.retryAfter, t0 + 1_000)
  })

  promise('pulls each of many endpoints back as asked, and says how many', async (store) => {
    const endpoints = [await withEndpoint(store), await withEndpoint(store), await withEndpoint(store)]
    const at = (place: number, dueAt: number) => anArrival(endpoints[place]!, { delivery: { dueAt } })
    await store.append([at(0, t0 + 1e9), at(1, t0 + 1e9), at(1, t0 + 1e9), at(2, t0 + 1e9)])
    const requests = [2, 0, 1].map((place) => ({
      endpointId: endpoints[place]!.id,
      latestDueAt: t0,
      untriedDueAt: t0 + place,
    }))
    const failed = { ...requests[0]!, lastError: 'LINK_LOST' }
    const counts = await Promise.all([failed, ...requests].map((request) => store.pullBack(request)))
    assert.deepEqual(counts, [0, 1, 1, 2])
    for (const [place, endpoint] of endpoints.entries()) {
      assert.deepEqual((await claimDue(store, endpoint, { now: t0 + place - 1 })).claims, [])
      assert.equal((await claimDue(store, endpoint, { now: t0 + place })).claims.length, place === 1 ? 2 : 1)
    }
  })

  promise('pulls back all that is due too late, however many there are', async (store) => {
    const endpoint = await withEndpoint(store)
    const count = 10_500
    const deliveries = Array.from({ length: count }, (_, n) => aNewDelivery(endpoint, { dueAt: t0 + 1e6 + (n % 7) }))
    await store.append([{ event: anEvent(), idempotency: null, deliveries }])
    const request = { endpointId: endpoint.id, latestDueAt: t0 + 500, untriedDueAt: t0 }
    assert.equal(await store.pullBack(request), count)
    assert.equal((await claimDue(store, endpoint, { now: t0, limit: 2 * count })).claims.length, count)
  })

  promise('pulls only those back whose last error begins as asked', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 4 }, () => anArrival(endpoint)))
    const { claims } = await claimDue(store, endpoint)
    const errors = ['LINK_LOST: the hub is gone', 'HTTP 503', 'after LINK_LOST', null]
    await store.commit(
      claims.map(({ delivery }, index) => ({
        to: { ...retryAt(delivery, t0 + 9_000), lastError: errors[index] ?? null },
        attempt: null,
        claimNext: null,
      })),
    )
    const request = { endpointId: endpoint.id, latestDueAt: t0 + 20, untriedDueAt: t0 + 20, lastError: 'LINK_LOST' }
    assert.equal(await store.pullBack(request), 1)
    const { delivery } = only((await claimDue(store, endpoint, { now: t0 + 20 })).claims)
    assert.equal(delivery.id, claims[0]!.delivery.id)
    assert.equal(delivery.retryAfter, t0 + 20)
    assert.equal((await claimDue(store, endpoint, { now: t0 + 9_000 })).claims.length, 3)
  })
}
