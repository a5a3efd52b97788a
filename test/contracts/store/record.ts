import assert from 'node:assert/strict'
import { typeMatcher } from '../../../src/core/routing.ts'
import { aNewDelivery, anArrival, anEvent, anId, aReplay, retryAt, t0 } from '../../support/builders.ts'
import { claimDue, ended, only, type Promised, withEndpoint } from './promises.ts'

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

  promise('filters by several statuses, by ids and by what is left out, in one order', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 6 }, () => anArrival(endpoint))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const ends = [{}, { status: 'dead_letter', reason: 'expired' }, { reason: 'cancelled' }, { status: 'delivered' }]
    const { claims } = await claimDue(store, endpoint, { limit: 5 })
    await store.commit(claims.slice(0, 4).map((claim, index) => ended(claim, ends[index] as object)))
    const found = async (query: object) => {
      const { items } = await store.listDeliveries({ limit: 10, ...query })
      return items.map(({ delivery }) => ids.indexOf(delivery.id))
    }
    assert.deepEqual(await found({ statuses: ['failed', 'dead_letter'] }), [2, 1, 0])
    assert.deepEqual(await found({ statuses: ['failed', 'dead_letter'], endpointId: endpoint.id, limit: 2 }), [2, 1])
    assert.deepEqual(await found({ statuses: ['failed', 'failed'] }), [2, 0])
    assert.deepEqual(await found({ statuses: ['pending', 'processing', 'dead_letter'] }), [5, 4, 1])
    assert.deepEqual(await found({ statuses: ['delivered', 'pending'] }), [5, 3])
    assert.deepEqual(await found({ statuses: ['delivered', 'pending'], endpointId: endpoint.id }), [5, 3])
    assert.deepEqual(await found({ statuses: [] }), [])
    assert.deepEqual(await found({ exceptReasons: ['cancelled', 'expired'] }), [5, 4, 3, 0])
    assert.deepEqual(await found({ ids: [ids[4], ids[0], 'dlv_nonsense'] }), [4, 0])
    assert.deepEqual(await found({ ids: [ids[4], ids[0]], statuses: ['failed'] }), [0])
    const page = await store.listDeliveries({ limit: 2, statuses: ['failed', 'dead_letter'] })
    assert.deepEqual(await found({ statuses: ['failed', 'dead_letter'], cursor: page.next }), [0])
  })

  promise('finds deliveries and events by the key of the event, in their order and page by page', async (store) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    const keyed = (key: string | null, tenant = 'default') => anArrival(a, { event: { key, tenant } })
    const arrivals = [keyed('order-42'), keyed('order-4'), keyed(null), keyed('order-42', 'acme'), keyed('order-42')]
    const both = { ...arrivals[4]!, deliveries: [aNewDelivery(a), aNewDelivery(b)] }
    await store.append([...arrivals.slice(0, 4), both])
    // A delivery that was made later, of the oldest event.
    const later = aReplay({ kind: 'recover', endpointId: b.id, since: t0, only: 'missing' })
    const { id } = await store.createReplay(later)
    const recover = { types: ['*'], tenant: 'default', ordering: 'none' } as const
    const newIds = Array.from({ length: 10 }, () => anId('dlv'))
    await store.stepReplay({ id, limit: 10, now: t0 + 5, recover, newIds })
    const found = async (query: object) => (await store.listDeliveries({ limit: 10, ...query })).items
    const mine = await found({ key: 'order-42', tenant: 'default' })
    assert.deepEqual(
      mine.map(({ delivery }) => delivery.id),
      [newIds[0], both.deliveries[1]!.id, both.deliveries[0]!.id, arrivals[0]!.deliveries[0]!.id],
    )
    assert.equal((await found({ key: 'order-42' })).length, 5)
    assert.equal((await found({ key: 'order-42', endpointId: b.id, statuses: ['pending'] })).length, 2)
    assert.deepEqual(await found({ key: 'order' }), [])
    assert.equal(await store.countDeliveries({ key: 'order-42' }, 100), 5)
    const first = await store.listDeliveries({ key: 'order-42', tenant: 'default', limit: 3 })
    assert.deepEqual(await found({ key: 'order-42', tenant: 'default', cursor: first.next }), mine.slice(3))
    const events = await store.listEvents({ key: 'order-42', tenant: 'default', limit: 10 })
    assert.deepEqual(
      events.items.map((event) => event.id),
      [both.event.id, arrivals[0]!.event.id],
    )
  })

  promise('finds deliveries and events by a pattern of types, as endpoints do', async (store) => {
    const endpoint = await withEndpoint(store)
    const types = [
      'order.created',
      'order.paid.late',
      'order',
      'invoice.created',
      'a.x.c.z',
      'a.x.y.c.z',
      'posthorn.b.c',
    ]
    await store.append(types.map((type) => anArrival(endpoint, { event: { type } })))
    const patterns = ['order.*', '*.created', 'a.*.c.*', '*', 'order', 'posthorn.*', 'order.cre*ted']
    for (const pattern of patterns) {
      const wanted = types.filter(typeMatcher([pattern])).reverse()
      const { items } = await store.listDeliveries({ type: pattern, statuses: ['pending'], limit: 10 })
      assert.deepEqual(
        items.map((item) => item.type),
        wanted,
        pattern,
      )
      const events = await store.listEvents({ type: pattern, limit: 10 })
      assert.deepEqual(
        events.items.map((item) => item.type),
        wanted,
        pattern,
      )
    }
  })

  promise(
    'finds deliveries by the class of the last HTTP status, and by nothing that only looks like one',
    async (store) => {
      const endpoint = await withEndpoint(store)
      const arrivals = Array.from({ length: 6 }, () => anArrival(endpoint))
      await store.append(arrivals)
      const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
      const { claims } = await claimDue(store, endpoint)
      const codes = [404, 503, 200, null, 422]
      await store.commit(
        claims.slice(0, 5).map((claim, index) => {
          const statusCode = codes[index]!
          const log = {
            number: 1,
            startedAt: t0,
            tookMs: 1,
            outcome: 'permanent',
            error: 'no',
            errorClass: null,
            dependency: null,
            stack: null,
          } as const
          const attempt = { ...log, statusCode, responseHeaders: null, responseBody: null }
          const status = (statusCode === 200 ? 'delivered' : 'failed') as never
          return { ...ended(claim, { status, lastError: 'HTTP 404' }), attempt }
        }),
      )
      const found = async (query: object) => {
        const { items } = await store.listDeliveries({ limit: 10, ...query })
        return items.map(({ delivery }) => ids.indexOf(delivery.id))
      }
      assert.deepEqual(await found({ statusClasses: ['4xx'] }), [4, 0])
      assert.deepEqual(await found({ statusClasses: ['5xx', '2xx'] }), [2, 1])
      assert.deepEqual(await found({ statusClasses: ['4xx', '5xx'], statuses: ['failed'] }), [4, 1, 0])
      assert.deepEqual(await found({ statusClasses: ['3xx'] }), [])
      // Tried again since: what counts is the last attempt.
      const [again] = (await store.listDeliveries({ ids: [ids[0]!], limit: 1 })).items
      const facts = { ...again!.delivery, version: again!.delivery.version + 1, attempts: 2 }
      const attempt = {
        number: 2,
        startedAt: t0,
        tookMs: 1,
        outcome: 'unavailable',
        statusCode: 500,
        error: 'no',
      } as const
      const log = {
        ...attempt,
        responseHeaders: null,
        responseBody: null,
        errorClass: null,
        dependency: null,
        stack: null,
      }
      await store.commit([{ to: facts, attempt: log, claimNext: null }])
      assert.deepEqual(await found({ statusClasses: ['4xx'] }), [4])
      assert.deepEqual(await found({ statusClasses: ['5xx'] }), [1, 0])
    },
  )

  promise('shows how a source took an event in', async (store) => {
    const request = { source: 'main', method: 'POST', query: 'a=1', headers: { 'x-github-event': 'push' } }
    const [taken, sent] = [anEvent({ request }), anEvent()]
    await store.append([taken, sent].map((event) => ({ event, idempotency: null, deliveries: [] })))
    assert.deepEqual((await store.getEvent(taken.id))?.request, request)
    const { items } = await store.listEvents({ limit: 10 })
    assert.deepEqual(
      items.map((item) => item.request),
      [null, request],
    )
  })

  promise('finds ids by their beginning, within a tenant', async (store) => {
    const endpoint = await withEndpoint(store)
    const acme = anArrival(endpoint, { event: { tenant: 'acme' } })
    await store.append([acme, anArrival(endpoint, { event: { tenant: 'other' } })])
    const beginningOf = (id: string, digits: number) => id.slice(0, id.indexOf('_') + 1 + digits)
    const events = (await store.listEvents({ limit: 10 })).items.map(({ id }) => id)
    const deliveries = (await store.listDeliveries({ limit: 10 })).items.map(({ delivery }) => delivery.id)
    for (const [ids, mine] of [
      [events, acme.event.id],
      [deliveries, acme.deliveries[0]!.id],
    ] as const) {
      const beginning = beginningOf(mine, 8)
      assert.deepEqual(await store.findIds({ beginning, limit: 10 }), [...ids].reverse())
      assert.deepEqual(await store.findIds({ beginning, limit: 1 }), [ids.at(-1)])
      assert.deepEqual(await store.findIds({ beginning, tenant: 'acme', limit: 10 }), [mine])
      assert.deepEqual(await store.findIds({ beginning, tenant: 'nobody', limit: 10 }), [])
      for (const digits of [11, 15, 22]) {
        assert.deepEqual(await store.findIds({ beginning: beginningOf(mine, digits), limit: 10 }), [mine])
      }
      const wrong = `${beginningOf(mine, 20)}${mine.charAt(mine.length - 3) === '0' ? '1' : '0'}`
      assert.deepEqual(await store.findIds({ beginning: wrong, limit: 10 }), [], 'the random part counts as well')
    }
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

  promise('lists the newest 500 attempts of a delivery, oldest first', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint)])
    const claim = only((await claimDue(store, endpoint)).claims)
    const seen = { startedAt: t0, tookMs: 1, outcome: 'unavailable', statusCode: 503, error: 'HTTP 503' } as const
    const nothing = { responseHeaders: null, responseBody: null, errorClass: null, dependency: null, stack: null }
    let to = retryAt(claim.delivery, t0 + 5)
    for (let number = 1; number <= 502; number += 1) {
      await store.commit([{ to, attempt: { number, ...seen, ...nothing }, claimNext: null }])
      to = { ...to, version: to.version + 1 }
    }
    const numbers = (await store.listAttempts(to.id)).map(({ number }) => number)
    assert.deepEqual(
      numbers,
      Array.from({ length: 500 }, (_, index) => index + 3),
    )
  })

  promise('closing writes what is under way first', async (store, under) => {
    // More than is written at once, so that some of it waits when the store is told to close.
    const arrivals = Array.from({ length: 10_000 }, () => ({ event: anEvent(), idempotency: null, deliveries: [] }))
    const calls = arrivals.map((arrival) => store.append([arrival]))
    const closed = store.close()
    const answers = await Promise.all(calls)
    assert.ok(answers.every(({ kind }) => kind === 'kept'))
    await closed
    const again = await under.reopen()
    for (const { event } of [arrivals[0]!, arrivals.at(-1)!])
      assert.equal((await again.getEvent(event.id))?.id, event.id)
  })

  promise('closing rejects reads that wait as shutting_down, and waits for none of them', async (store) => {
    const arrival = anArrival(await withEndpoint(store))
    await store.append([arrival])
    const reads = Array.from({ length: 300 }, () => store.getEvent(arrival.event.id))
    const settled = Promise.allSettled(reads)
    await store.close()
    const results = await settled
    // Those that were with the database already may have their answer.
    for (const result of results) if (result.status === 'rejected') assert.equal(result.reason.code, 'shutting_down')
    assert.equal(results.at(-1)?.status, 'rejected')
    await assert.rejects(store.getEvent(arrival.event.id), { code: 'shutting_down' })
  })

  promise('closes twice without harm, and refuses work afterwards', async (store) => {
    await store.close()
    await store.close()
    await assert.rejects(store.append([]), { code: 'shutting_down' })
  })
}
