import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Pending } from '../../../src/core/delivery.ts'
import type { Endpoint } from '../../../src/core/endpoint.ts'
import { ended, replayed } from '../../../src/core/lifecycle.ts'
import { type Claim, largeBytesMin } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, delivered, retryAt, t0 } from '../../support/builders.ts'
import { claimDue, endAll, lease, only, type Promised, withEndpoint } from './promises.ts'

export function laneContract(promise: Promised): void {
  const lane = 'key:a'
  const behind = async (store: Store, endpoint: Endpoint, count: number) => {
    const arrivals = Array.from({ length: count }, () =>
      anArrival(endpoint, { delivery: { lane, leaseEndsAt: lease } }),
    )
    const appended = await store.append(arrivals)
    assert.ok(appended.kind === 'kept')
    return { arrivals, claimed: appended.items.map((item) => item.claimed[0]) }
  }

  promise('lets only the head be claimed, at birth and later', async (store) => {
    const endpoint = await withEndpoint(store)
    const { claimed } = await behind(store, endpoint, 3)
    assert.deepEqual(claimed, [true, false, false])
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims, [])
    const other = await store.append([anArrival(endpoint, { delivery: { lane: 'key:b', leaseEndsAt: lease } })])
    assert.ok(other.kind === 'kept')
    assert.deepEqual(other.items[0]?.claimed, [true])
  })

  promise('a named delivery that is not the head of its lane cannot be claimed', async (store) => {
    const endpoint = await withEndpoint(store)
    const { arrivals } = await behind(store, endpoint, 2)
    const [head, second] = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const named = { from: { deliveryIds: [second!] }, now: lease, leaseEndsAt: lease + 1_000 }
    assert.deepEqual((await claimDue(store, endpoint, named)).claims, [])
    assert.equal((await store.getDelivery(second!))?.delivery.status, 'pending')
    const both = { ...named, from: { deliveryIds: [second!, head!] } }
    assert.equal(only((await claimDue(store, endpoint, both)).claims).delivery.id, head)
  })

  promise('the next that nobody claims is due when the head ended', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 2 }, () => anArrival(endpoint, { delivery: { lane } }))
    await store.append(arrivals)
    const head = only((await claimDue(store, endpoint)).claims)
    await store.commit([delivered(head, t0 + 500)])
    const next = (await store.getDelivery(arrivals[1]!.deliveries[0]!.id))?.delivery
    assert.ok(next?.status === 'pending')
    assert.equal(next.dueAt, t0 + 500)
  })

  promise(
    'the next is given to who ends the head and asks for it, whatever else ends in the lane at that moment',
    async (store) => {
      const endpoint = await withEndpoint(store)
      const { arrivals } = await behind(store, endpoint, 4)
      const [head, second, third, fourth] = arrivals.map(({ deliveries }) => deliveries[0]!.id)
      const first = only((await claimDue(store, endpoint, { from: { deliveryIds: [head!] }, now: lease })).claims)
      const cancelled = async (id: string) => {
        const record = (await store.getDelivery(id))!
        return { to: ended(record.delivery as Pending, 'cancelled', t0 + 500), attempt: null, claimNext: null }
      }
      const cancels = [await cancelled(third!), await cancelled(fourth!)]
      const answers = await Promise.all([
        store.commit(cancels.slice(0, 1)),
        store.commit([{ ...delivered(first), claimNext: lease }]),
        store.commit(cancels.slice(1)),
      ])
      const results = answers.map((answer) => only(answer))
      assert.deepEqual(
        results.map((result) => result.kind === 'applied' && (result.next?.delivery.id ?? null)),
        [null, second, null],
      )
    },
  )

  promise('no lane is without a head, whether that waits, is in hand or has ended', async (store) => {
    const endpoint = await withEndpoint(store)
    const { arrivals } = await behind(store, endpoint, 3)
    assert.equal(await store.headlessLanes(), 0)
    const deliveryIds = [arrivals[0]!.deliveries[0]!.id]
    const head = only((await claimDue(store, endpoint, { from: { deliveryIds }, now: lease })).claims)
    await store.commit([{ to: retryAt(head.delivery, t0 + 9e6), attempt: null, claimNext: null }])
    assert.equal(await store.headlessLanes(), 0)
    await endAll(store, endpoint)
    assert.equal(await store.headlessLanes(), 0)
  })

  promise('holds the lane while its head waits for a retry', async (store) => {
    const endpoint = await withEndpoint(store)
    const { arrivals } = await behind(store, endpoint, 2)
    const deliveryIds = [arrivals[0]!.deliveries[0]!.id]
    const head = only((await claimDue(store, endpoint, { from: { deliveryIds }, now: lease })).claims)
    await store.commit([{ to: retryAt(head.delivery, t0 + 9e6), attempt: null, claimNext: lease }])
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 + 8e6 })).claims, [])
    const again = only((await claimDue(store, endpoint, { now: t0 + 9e6, leaseEndsAt: t0 + 1e7 })).claims)
    assert.equal(again.delivery.id, head.delivery.id)
  })

  promise('brings the next up when the head ends, claimed if wanted', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 3 }, () => anArrival(endpoint, { delivery: { lane } }))
    await store.append(arrivals)
    const first = only((await claimDue(store, endpoint)).claims)
    const result = only(await store.commit([{ ...delivered(first), claimNext: lease }]))
    assert.ok(result.kind === 'applied' && result.next !== null)
    assert.equal(result.next.delivery.id, arrivals[1]!.deliveries[0]!.id)
    assert.deepEqual([...result.next.event.body], [...arrivals[1]!.event.body])
    const released = only(await store.commit([delivered(result.next)]))
    assert.deepEqual(released, { kind: 'applied', next: null, released: true })
    const third = only((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims)
    assert.equal(third.delivery.id, arrivals[2]!.deliveries[0]!.id)
    assert.deepEqual(only(await store.commit([delivered(third)])), { kind: 'applied', next: null, released: false })
  })

  promise('leaves a next one with a large body to a claim, which says what fits', async (store) => {
    const endpoint = await withEndpoint(store)
    const body = new Uint8Array(largeBytesMin)
    const arrivals = Array.from({ length: 2 }, () => anArrival(endpoint, { event: { body }, delivery: { lane } }))
    await store.append(arrivals)
    const first = only((await claimDue(store, endpoint)).claims)
    const result = only(await store.commit([{ ...delivered(first), claimNext: lease }]))
    assert.deepEqual(result, { kind: 'applied', next: null, released: true })
    const next = only((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims)
    assert.equal(next.delivery.id, arrivals[1]!.deliveries[0]!.id)
  })

  promise('keeps the order over a restart', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const { arrivals } = await behind(store, endpoint, 3)
    let current = await under.reopen()
    for (const arrival of arrivals) {
      const claim = only((await claimDue(current, endpoint, { now: t0 + 1_000 })).claims)
      assert.equal(claim.delivery.id, arrival.deliveries[0]!.id)
      await current.commit([delivered(claim)])
      current = await under.reopen()
    }
  })

  promise('sends what is replayed to the tail of its lane', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 3 }, () => anArrival(endpoint, { delivery: { lane } }))
    await store.append(arrivals)
    const first = only((await claimDue(store, endpoint)).claims)
    const end = delivered(first)
    await store.commit([end])
    const { deliveredAt: _, ...facts } = end.to
    const again = {
      ...facts,
      status: 'pending' as const,
      dueAt: t0,
      version: end.to.version + 1,
      replayedAt: t0 + 20,
    }
    await store.commit([{ to: again, attempt: null, claimNext: null }])
    const order: string[] = []
    for (let i = 0; i < 3; i++) {
      const claim = only((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims)
      order.push(claim.delivery.id)
      await store.commit([delivered(claim)])
    }
    const named = arrivals.map((arrival) => arrival.deliveries[0]!.id)
    assert.deepEqual(order, [named[1], named[2], named[0]])
  })

  promise('lets nothing that is accepted later overtake what is replayed', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = Array.from({ length: 5 }, () => anArrival(endpoint, { delivery: { lane } }))
    await store.append(arrivals)
    const named = arrivals.map((arrival) => arrival.deliveries[0]!.id)
    assert.equal((await endAll(store, endpoint)).length, 5)
    // One after another: the first is the head again, the others are behind it.
    for (const [index, id] of named.entries()) {
      const { delivery } = (await store.getDelivery(id))!
      assert.ok(delivery.status === 'failed')
      const to = replayed(delivery, t0 + 100 + index)
      assert.equal(only(await store.commit([{ to, attempt: null, claimNext: null }])).kind, 'applied')
    }
    // As after a clock that ran ahead: the next numbers are right behind the last ones, not far from them.
    const fresh = anArrival(endpoint, { delivery: { lane } })
    await store.append([fresh])
    const order = (await endAll(store, endpoint)).map((claim) => claim.delivery.id)
    assert.deepEqual(order, [...named, fresh.deliveries[0]!.id])
  })

  promise('never has two of a lane in hand, whatever happens', async (store) => {
    const endpoint = await withEndpoint(store)
    const step = fc.oneof(fc.constant('append'), fc.constant('claim'), fc.constant('deliver'), fc.constant('retry'))
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.nat(), async (steps, salt) => {
        const inHand: Claim[] = []
        const name = `key:${salt}-${Math.random()}`
        let now = t0
        for (const kind of steps) {
          now += 1
          if (kind === 'append') await store.append([anArrival(endpoint, { delivery: { lane: name, dueAt: now } })])
          if (kind === 'claim') {
            const { claims } = await claimDue(store, endpoint, { now, leaseEndsAt: t0 + 1e9 })
            inHand.push(...claims.filter((claim) => claim.delivery.lane === name))
          }
          assert.ok(inHand.length <= 1)
          const held = kind === 'deliver' || kind === 'retry' ? inHand.pop() : undefined
          if (held === undefined) continue
          const retry = { to: retryAt(held.delivery, now), attempt: null, claimNext: null }
          assert.equal(only(await store.commit([kind === 'deliver' ? delivered(held) : retry])).kind, 'applied')
        }
      }),
      { numRuns: 20 },
    )
  })
}
