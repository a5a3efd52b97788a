import assert from 'node:assert/strict'
import fc from 'fast-check'
import { type DeliveryFilter, type DeliveryStatus, deadStatuses, type GroupBy } from '../../../src/core/delivery.ts'
import type { Reason } from '../../../src/core/outcome.ts'
import type { Claim } from '../../../src/store/pipeline-store.ts'
import { anArrival, t0 } from '../../support/builders.ts'
import { claimDue, endAll, ended, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const allOfIt = Number.MAX_SAFE_INTEGER
/** When `ended` lets deliveries end. */
const settled = t0 + 10

export function deadLetterContract(promise: Promised): void {
  promise('counts what matches, and stops at the maximum', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    await store.append([...Array.from({ length: 5 }, () => anArrival(a)), anArrival(b)])
    await endAll(store, a)
    assert.equal(await store.countDeliveries({}, allOfIt), 6)
    assert.equal(await store.countDeliveries({ statuses: deadStatuses }, allOfIt), 5)
    assert.equal(await store.countDeliveries({ statuses: ['failed', 'pending'] }, allOfIt), 6)
    assert.equal(await store.countDeliveries({ statuses: ['failed', 'pending'] }, 3), 3)
    assert.equal(await store.countDeliveries({ endpointId: b.id, statuses: deadStatuses }, allOfIt), 0)
    assert.equal(await store.countDeliveries({ statuses: deadStatuses, exceptReasons: ['exhausted'] }, allOfIt), 0)
    assert.equal(await store.countDeliveries({ statuses: [] }, allOfIt), 0)
  })

  promise('groups dead letters by error, with what differs folded, largest first', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    const arrivals = [a, a, a, b, b].map((endpoint) => anArrival(endpoint))
    await store.append(arrivals)
    const ids = arrivals.map((arrival) => arrival.deliveries[0]!.id)
    const ends = new Map<string, Partial<{ lastError: string | null; reason: Reason; settledAt: number }>>([
      [ids[0]!, { lastError: 'connect ECONNREFUSED 10.0.0.1:80', settledAt: t0 + 30 }],
      [ids[1]!, { lastError: 'HTTP 404', reason: 'permanent_status' }],
      [ids[2]!, { lastError: 'connect ECONNREFUSED 10.0.0.2:81', settledAt: t0 + 20 }],
      [ids[3]!, { lastError: 'connect ECONNREFUSED 10.0.0.3:82', settledAt: t0 + 40, reason: 'breaker_open' }],
      [ids[4]!, { lastError: null, reason: 'expired' }],
    ])
    for (const endpoint of [a, b]) {
      await endAll(store, endpoint, (claim) => ended(claim, ends.get(claim.delivery.id) as object))
    }
    const groups = await store.groupDeadLetters({}, 'error', 10)
    assert.deepEqual(groups[0], {
      common: 'connect ECONNREFUSED <address>',
      count: 3,
      endpoints: 2,
      firstAt: t0 + 20,
      lastAt: t0 + 40,
      reasons: ['breaker_open', 'exhausted'],
      sample: ids[3],
    })
    assert.deepEqual(new Set(groups.slice(1).map(({ common }) => common)), new Set(['HTTP 404', 'expired']))
    assert.equal((await store.groupDeadLetters({}, 'error', 1)).length, 1)
    assert.equal(only(await store.groupDeadLetters({ endpointId: a.id, error: 'econn' }, 'error', 10)).count, 2)
    assert.deepEqual(await store.groupDeadLetters({ statuses: ['pending'] }, 'error', 10), [])
  })

  promise('groups dead letters by endpoint, by type and by reason', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    const facts = [
      [a, 'order.paid', 'exhausted'],
      [a, 'order.created', 'exhausted'],
      [a, 'order.paid', 'gone'],
      [b, 'order.paid', 'exhausted'],
    ] as const
    const arrivals = facts.map(([endpoint, type]) => anArrival(endpoint, { event: { type } }))
    await store.append(arrivals)
    const reasons = new Map(arrivals.map(({ deliveries }, index) => [deliveries[0]!.id, facts[index]![2]]))
    for (const endpoint of [a, b]) {
      await endAll(store, endpoint, (claim) => ended(claim, { reason: reasons.get(claim.delivery.id)! }))
    }
    const counts = async (by: GroupBy, filter: DeliveryFilter = {}) =>
      (await store.groupDeadLetters(filter, by, 10)).map(({ common, count }) => [common, count])
    assert.deepEqual(await counts('endpoint'), [
      [a.id, 3],
      [b.id, 1],
    ])
    assert.deepEqual(await counts('type'), [
      ['order.paid', 3],
      ['order.created', 1],
    ])
    assert.deepEqual(await counts('reason'), [
      ['exhausted', 3],
      ['gone', 1],
    ])
    assert.deepEqual(await counts('type', { endpointId: b.id }), [['order.paid', 1]])
    const [first] = await store.groupDeadLetters({}, 'endpoint', 1)
    assert.deepEqual([first!.reasons, first!.endpoints], [['exhausted', 'gone'], 1])
  })

  promise('finds what waits, newest first and page by page, and ends just that as cancelled', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 5 }, (_, n) => anArrival(endpoint, { event: { type: n < 4 ? 'a' : 'b' } }))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const inHand = only((await claimDue(store, endpoint, { limit: 1 })).claims).delivery.id
    assert.equal(inHand, ids[0])
    assert.deepEqual(await store.findWaiting({ type: 'a' }, null, 2), [ids[3], ids[2]])
    assert.deepEqual(await store.findWaiting({ type: 'a' }, ids[2]!, 2), [ids[1]])
    assert.deepEqual(await store.findWaiting({ statuses: ['processing'], type: 'b' }, null, 9), [ids[4]])
    const named = [ids[2]!, inHand, 'dlv_nonsense', ids[2]!]
    const ended = await store.cancelWaiting(named, t0 + 7)
    const { event } = arrivals[2]!
    const facts = { eventId: event.id, endpointId: endpoint.id, tenant: 'default', type: 'a' }
    assert.deepEqual(ended, [{ deliveryId: ids[2], ...facts }])
    const { delivery } = (await store.getDelivery(ids[2]!))!
    assert.ok(delivery.status === 'failed')
    assert.deepEqual([delivery.reason, delivery.settledAt, delivery.retryAfter], ['cancelled', t0 + 7, null])
    assert.equal(await statusOf(store, inHand), 'processing')
  })

  promise('the next of a lane is due when all before it are cancelled, in whatever order', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 4 }, () => anArrival(endpoint, { delivery: { lane: 'all' } }))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const ended = await store.cancelWaiting([ids[0]!, ids[2]!, ids[1]!], t0 + 1)
    assert.equal(ended.length, 3)
    assert.equal(only((await claimDue(store, endpoint)).claims).delivery.id, ids[3])
  })

  promise('keeps different statuses apart, in an incident too', async (store) => {
    const endpoint = await withEndpoint(store)
    const codes = [400, 404, 422, 401, ...Array(500).fill(503), ...Array(10).fill(400)]
    await store.append(codes.map(() => anArrival(endpoint)))
    const errors = codes.map((code) => `HTTP ${code}`).values()
    await endAll(store, endpoint, (claim) => ended(claim, { lastError: errors.next().value as string }))
    const groups = await store.groupDeadLetters({}, 'error', 10)
    assert.deepEqual(Object.fromEntries(groups.map(({ common, count }) => [common, count])), {
      'HTTP 503': 500,
      'HTTP 400': 11,
      'HTTP 401': 1,
      'HTTP 404': 1,
      'HTTP 422': 1,
    })
  })

  promise('discards the oldest first, with their attempts, and nothing twice', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 5 }, () => anArrival(endpoint))
    await store.append(arrivals)
    const attempt = { number: 1, startedAt: t0, tookMs: 1, outcome: 'permanent', statusCode: 400, error: 'no' } as const
    const log = {
      ...attempt,
      responseHeaders: null,
      responseBody: null,
      errorClass: null,
      dependency: null,
      stack: null,
    }
    await endAll(store, endpoint, (claim) => ({ ...ended(claim), attempt: log }))
    const ids = arrivals.map((arrival) => arrival.deliveries[0]!.id)
    assert.equal(await store.discard({}, 2, settled), 2)
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(store, id))), [
      null,
      null,
      'failed',
      'failed',
      'failed',
    ])
    assert.deepEqual(await store.listAttempts(ids[0]!), [])
    assert.equal((await store.listAttempts(ids[2]!)).length, 1)
    assert.equal((await store.getEvent(arrivals[0]!.event.id))?.id, arrivals[0]!.event.id, 'the event stays')
    assert.equal(await store.discard({ ids: [ids[4]!, ids[0]!] }, 10, settled), 1)
    assert.equal(await store.discard({}, 10, settled), 2)
    assert.equal(await store.discard({}, 10, settled), 0)
  })

  promise('discards what became a dead letter after a newer one was discarded', async (store) => {
    const endpoint = await withEndpoint(store)
    const [older, newer] = [anArrival(endpoint), anArrival(endpoint)]
    await store.append([older, newer])
    const fail = async ({ deliveries }: typeof older) => {
      const from = { deliveryIds: [deliveries[0]!.id] }
      await store.commit([ended(only((await claimDue(store, endpoint, { from })).claims))])
    }
    await fail(newer)
    assert.equal(await store.discard({}, 1, settled), 1)
    await fail(older)
    assert.equal(await store.discard({}, 1, settled), 1)
    assert.equal(await store.discard({}, 1, settled), 0)
  })

  promise(
    'discards nothing that became a dead letter later than was meant, however it looked before',
    async (store) => {
      const endpoint = await withEndpoint(store)
      const [meant, later] = [anArrival(endpoint), anArrival(endpoint)]
      await store.append([meant, later])
      const [first, second] = (await claimDue(store, endpoint)).claims as [Claim, Claim]
      await store.commit([ended(first), ended(second, { settledAt: settled + 1 })])
      assert.equal(await store.discard({}, 10, settled), 1)
      assert.equal(await store.discard({}, 10, settled), 0)
      assert.equal(await statusOf(store, second.delivery.id), 'failed')
      assert.equal(await store.discard({}, 10, settled + 1), 1)
    },
  )

  promise('discard only touches dead letters that match, whatever there is', async (store) => {
    const endpoints = [await withEndpoint(store), await withEndpoint(store)]
    const facts = fc.record({
      endpoint: fc.nat({ max: 1 }),
      type: fc.constantFrom('a', 'b'),
      tenant: fc.constantFrom('x', 'y'),
      status: fc.constantFrom<DeliveryStatus>('pending', 'processing', 'delivered', 'failed', 'dead_letter'),
      reason: fc.constantFrom<Reason>('exhausted', 'cancelled'),
    })
    const filters = fc.record(
      {
        endpointId: fc.constantFrom(...endpoints.map(({ id }) => id)),
        type: fc.constantFrom('a', 'b'),
        tenant: fc.constantFrom('x', 'y'),
        reason: fc.constantFrom<Reason>('exhausted', 'cancelled'),
        statuses: fc.subarray<DeliveryStatus>(['pending', 'delivered', 'failed', 'dead_letter'], { minLength: 1 }),
      },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(facts, { maxLength: 12 }), filters, async (given, filter: DeliveryFilter) => {
        const rows = given.map((fact) => {
          const endpoint = endpoints[fact.endpoint]!
          const arrival = anArrival(endpoint, { event: { type: fact.type, tenant: fact.tenant } })
          return { ...fact, endpointId: endpoint.id, arrival, id: arrival.deliveries[0]!.id }
        })
        await store.append(rows.map((row) => row.arrival))
        for (const row of rows.filter(({ status }) => status !== 'pending')) {
          const from = { deliveryIds: [row.id] }
          const claim = only((await claimDue(store, endpoints[row.endpoint]!, { from })).claims) as Claim
          if (row.status !== 'processing')
            await store.commit([ended(claim, { status: row.status as never, reason: row.reason })])
        }
        const isMeant = (row: (typeof rows)[number]) =>
          (row.status === 'failed' || row.status === 'dead_letter') &&
          (filter.statuses ?? deadStatuses).includes(row.status) &&
          row.endpointId === (filter.endpointId ?? row.endpointId) &&
          row.type === (filter.type ?? row.type) &&
          row.tenant === (filter.tenant ?? row.tenant) &&
          row.reason === (filter.reason ?? row.reason)
        await store.discard({ ...filter, ids: rows.map((row) => row.id) }, allOfIt, settled)
        const left = await Promise.all(rows.map((row) => statusOf(store, row.id)))
        assert.deepEqual(
          left,
          rows.map((row) => (isMeant(row) ? null : row.status)),
        )
      }),
      { numRuns: 25 },
    )
  })
}
