import assert from 'node:assert/strict'
import fc from 'fast-check'
import { isSettled, type Pending } from '../../../src/core/delivery.ts'
import { ended, expired, hurried } from '../../../src/core/lifecycle.ts'
import type { Change, ChangeResult, Claim, Upcoming } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, delivered, retryAt, t0 } from '../../support/builders.ts'
import { claimDue, lease, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const lane = 'all'

/** A lane of this length whose head is in hand, and the ids of its deliveries. */
async function aLane(store: Store, length: number, size = 10) {
  const endpoint = await withEndpoint(store)
  const arrivals = Array.from({ length }, () =>
    anArrival(endpoint, { delivery: { lane }, event: { body: new Uint8Array(size) } }),
  )
  await store.append(arrivals)
  const head = only((await claimDue(store, endpoint)).claims)
  const ids = arrivals.map((arrival) => arrival.deliveries[0]!.id)
  const ahead = (given: Partial<Parameters<Store['ahead']>[0]> = {}) =>
    store.ahead({ endpointId: endpoint.id, lane, after: head.delivery.id, limit: 100, bytesMax: 1_000_000, ...given })
  return { endpoint, arrivals, head, ids, ahead }
}

/** What was read ahead, as if it were in hand. */
function inTurn({ delivery, event }: Upcoming): Claim {
  const { dueAt: _, ...facts } = delivery
  return { delivery: { ...facts, status: 'processing', leaseEndsAt: 0 }, event, interruptions: 0 }
}

function follows(upcoming: Upcoming, given: Partial<Change> = {}, now = t0 + 10): Change {
  return { ...delivered(inTurn(upcoming), now), follows: true, ...given }
}

const kinds = (results: readonly ChangeResult[]) => results.map((result) => result.kind)
const idsOf = (found: readonly Upcoming[]) => found.map(({ delivery }) => delivery.id)

export function chainContract(promise: Promised): void {
  aheadPromises(promise)
  followPromises(promise)
  breakPromises(promise)

  promise(
    'keeps the order and one end each, and never sticks, whatever happens between read and commit',
    async (store) => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 30 }), (steps) => walk(store, steps)),
        { numRuns: 40 },
      )
    },
  )
}

function aheadPromises(promise: Promised): void {
  promise('reads what waits behind a delivery in the order of the lane, and claims nothing', async (store) => {
    const { endpoint, arrivals, ids, ahead } = await aLane(store, 4)
    const other = anArrival(endpoint, { delivery: { lane: 'key:b' } })
    const elsewhere = await withEndpoint(store)
    await store.append([other, anArrival(endpoint), anArrival(elsewhere, { delivery: { lane } })])
    const found = await ahead()
    assert.deepEqual(idsOf(found), ids.slice(1))
    assert.deepEqual(
      found.map(({ event }) => event),
      arrivals.slice(1).map(({ event }) => event),
    )
    const record = await store.getDelivery(ids[1]!)
    assert.deepEqual(found[0]?.delivery, record?.delivery)
    assert.deepEqual(idsOf(await ahead({ after: ids[2]! })), ids.slice(3))
    assert.deepEqual(await ahead({ after: ids[3]! }), [])
    assert.deepEqual(await ahead({ after: 'dlv_unknown' }), [])
  })

  promise('reads no more than was asked for', async (store) => {
    const { ids, ahead } = await aLane(store, 6, 1_000)
    assert.deepEqual(idsOf(await ahead({ limit: 2 })), ids.slice(1, 3))
    assert.deepEqual(idsOf(await ahead({ bytesMax: 3_000 })), ids.slice(1, 4))
    assert.deepEqual(idsOf(await ahead({ bytesMax: 2_999 })), ids.slice(1, 3))
    assert.deepEqual(idsOf(await ahead({ bytesMax: 999 })), [])
  })

  promise('reads nothing ahead that is in hand', async (store) => {
    const { head, ids, ahead } = await aLane(store, 3)
    await store.commit([{ ...delivered(head), claimNext: lease }])
    assert.deepEqual(await ahead(), [])
    assert.deepEqual(idsOf(await ahead({ after: ids[1]! })), [ids[2]])
  })
}

function followPromises(promise: Promised): void {
  promise('ends a head and what follows it in one call', async (store) => {
    const { endpoint, head, ids, ahead } = await aLane(store, 4)
    const behind = await ahead()
    const results = await store.commit([delivered(head), ...behind.map((one) => follows(one))])
    assert.deepEqual(
      results,
      ids.map(() => ({ kind: 'applied', next: null, released: false })),
    )
    for (const id of ids) assert.equal(await statusOf(store, id), 'delivered')
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 + 1e9 })).claims, [])
  })

  promise('brings up the next behind the last that followed, claimed if that one wants it', async (store) => {
    const { endpoint, head, ids, ahead } = await aLane(store, 5)
    const [a, b, c] = (await ahead()) as [Upcoming, Upcoming, Upcoming]
    const first = await store.commit([{ ...delivered(head), claimNext: lease }, follows(a, { claimNext: lease })])
    assert.deepEqual(first[0], { kind: 'applied', next: null, released: false })
    assert.ok(first[1]?.kind === 'applied' && first[1].next !== null)
    assert.equal(first[1].next.delivery.id, b.delivery.id)
    const second = await store.commit([{ ...delivered(first[1].next), claimNext: lease }, follows(c)])
    assert.deepEqual(second[1], { kind: 'applied', next: null, released: true })
    const last = only((await claimDue(store, endpoint, { now: t0 + 1_000 })).claims)
    assert.equal(last.delivery.id, ids[4])
  })

  promise('logs the attempt of what follows, and its error', async (store) => {
    const { head, ahead } = await aLane(store, 2)
    const upcoming = only(await ahead())
    const end = delivered(inTurn(upcoming))
    const attempt = { number: 1, startedAt: t0 + 3, tookMs: 7, outcome: 'delivered', statusCode: 200 } as const
    const logged = {
      ...attempt,
      error: null,
      responseHeaders: {},
      responseBody: 'ok',
      errorClass: null,
      dependency: null,
      stack: null,
    }
    await store.commit([delivered(head), { ...end, attempt: logged, follows: true }])
    assert.deepEqual(await store.listAttempts(upcoming.delivery.id), [logged])
    assert.deepEqual((await store.getDelivery(upcoming.delivery.id))?.delivery, end.to)
  })

  promise('what follows and has to be tried again holds the lane as its head', async (store) => {
    const { endpoint, head, ids, ahead } = await aLane(store, 3)
    const [a, b] = (await ahead()) as [Upcoming, Upcoming]
    const retry = { to: retryAt(inTurn(a).delivery, t0 + 5_000), attempt: null, claimNext: lease, follows: true }
    const results = await store.commit([delivered(head), retry, follows(b)])
    assert.deepEqual(kinds(results), ['applied', 'applied', 'stale'])
    assert.deepEqual((await claimDue(store, endpoint, { now: t0 + 4_999 })).claims, [])
    const again = only((await claimDue(store, endpoint, { now: t0 + 5_000 })).claims)
    assert.equal(again.delivery.id, ids[1])
    assert.deepEqual(await store.getDelivery(ids[2]!).then((record) => record?.delivery), b.delivery)
  })
}

function breakPromises(promise: Promised): void {
  const changedMeanwhile: readonly (readonly [what: string, to: (delivery: Pending) => Change['to']])[] = [
    ['cancelled', (delivery) => ended(delivery, 'cancelled', t0 + 5)],
    ['expired', (delivery) => expired(delivery, t0 + 5)],
    ['hurried', (delivery) => hurried(delivery, t0 + 5)],
  ]
  for (const [what, to] of changedMeanwhile) {
    promise(`a chain ends before one that was ${what} meanwhile, and the next comes up as always`, async (store) => {
      const { head, ids, ahead } = await aLane(store, 4)
      const behind = (await ahead()) as [Upcoming, Upcoming, Upcoming]
      await store.commit([{ to: to(behind[1].delivery), attempt: null, claimNext: null }])
      const chain = behind.map((one) => follows(one, { claimNext: lease }))
      const results = await store.commit([{ ...delivered(head), claimNext: lease }, ...chain])
      assert.deepEqual(kinds(results), ['applied', 'applied', 'stale', 'stale'])
      const last = results[1]
      assert.ok(last?.kind === 'applied' && last.next !== null)
      assert.equal(last.next.delivery.id, what === 'hurried' ? ids[2] : ids[3])
    })
  }

  promise('what follows a head that was lost or did not end changes nothing', async (store) => {
    const { endpoint, head, ahead } = await aLane(store, 2)
    const one = only(await ahead())
    const lost = { ...delivered(head), to: { ...delivered(head).to, version: head.delivery.version + 7 } }
    assert.deepEqual(kinds(await store.commit([lost, follows(one)])), ['stale', 'stale'])
    const retry = { to: retryAt(head.delivery, t0 + 10), attempt: null, claimNext: null }
    assert.deepEqual(kinds(await store.commit([retry, follows(one)])), ['applied', 'stale'])
    const again = only((await claimDue(store, endpoint, { now: t0 + 10 })).claims)
    assert.equal(again.delivery.id, head.delivery.id)
    assert.equal(await statusOf(store, one.delivery.id), 'pending')
  })

  promise('nothing follows without the end of its own head right before it', async (store) => {
    const { endpoint, head, ahead } = await aLane(store, 3)
    const [a, b] = (await ahead()) as [Upcoming, Upcoming]
    assert.deepEqual(kinds(await store.commit([follows(a)])), ['stale'])
    const other = anArrival(endpoint)
    await store.append([other])
    const stranger = only((await claimDue(store, endpoint)).claims)
    assert.deepEqual(kinds(await store.commit([delivered(stranger), follows(a)])), ['applied', 'stale'])
    assert.deepEqual(kinds(await store.commit([delivered(head), follows(b)])), ['applied', 'stale'])
    const { claims } = await claimDue(store, endpoint, { now: t0 + 1_000 })
    assert.equal(only(claims).delivery.id, a.delivery.id, 'released as always')
  })
}

type Step = Readonly<{
  kind: 'append' | 'cancel' | 'expire' | 'chain' | 'retry' | 'reread'
  which: number
  claims: boolean
}>

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('append', 'append', 'cancel', 'expire', 'chain', 'chain', 'retry', 'reread'),
  which: fc.nat(6),
  claims: fc.boolean(),
})

/** Plays a dispatcher that reads ahead and commits chains of what it has read, while others change the lane. */
async function walk(store: Store, steps: readonly Step[]): Promise<void> {
  const endpoint = await withEndpoint(store)
  const accepted: string[] = []
  const ends: string[] = []
  let now = t0
  let head: Claim | null = null
  let read: readonly Upcoming[] = []
  const commit = async (changes: readonly Change[]): Promise<void> => {
    head = null
    const results = await store.commit(changes)
    results.forEach((result, index) => {
      const { to } = changes[index]!
      if (result.kind === 'stale') return
      if (isSettled(to.status)) ends.push(to.id)
      if (result.next !== null) {
        assert.equal(head, null, 'one call brings up one')
        head = result.next
      }
    })
  }
  const turn = async ({ kind, which, claims }: Step): Promise<void> => {
    now += 1
    const claimNext = claims ? t0 + 1e9 : null
    if (kind === 'append') {
      const arrivals = Array.from({ length: 1 + which }, () => anArrival(endpoint, { delivery: { lane, dueAt: now } }))
      await store.append(arrivals)
      accepted.push(...arrivals.map((arrival) => arrival.deliveries[0]!.id))
    } else if (kind === 'cancel' || kind === 'expire') {
      const delivery = (await store.getDelivery(accepted[accepted.length - 1 - which] ?? ''))?.delivery
      if (delivery?.status !== 'pending') return
      const to = kind === 'cancel' ? ended(delivery, 'cancelled', now) : expired(delivery, now)
      assert.equal(only(await store.commit([{ to, attempt: null, claimNext: null }])).kind, 'applied')
      ends.push(delivery.id)
    } else {
      head ??= (await claimDue(store, endpoint, { now, leaseEndsAt: t0 + 1e9 })).claims[0] ?? null
      if (head === null) return
      const { delivery } = head as Claim
      if (kind === 'reread') {
        const request = { endpointId: endpoint.id, lane, after: delivery.id, limit: 1 + which, bytesMax: 1e6 }
        read = await store.ahead(request)
      } else if (kind === 'retry') {
        await commit([{ to: retryAt(delivery, now), attempt: null, claimNext }])
      } else {
        // What was read behind another head is no chain of this one: the store has to see it.
        const chain = read.slice(0, which).map((one) => follows(one, { claimNext }, now))
        read = read.slice(which + 1)
        await commit([{ ...delivered(head, now), claimNext }, ...chain])
      }
    }
  }
  for (const one of steps) await turn(one)
  for (let left = accepted.length; left > 0; left -= 1) await turn({ kind: 'chain', which: 0, claims: true })
  assert.deepEqual(ends.toSorted(), accepted.toSorted(), 'every delivery has one end')
  await inOrder(store, accepted, ends)
}

/** Nothing was delivered before the end of what was accepted before it. */
async function inOrder(store: Store, accepted: readonly string[], ends: readonly string[]): Promise<void> {
  const place = new Map(ends.map((id, index) => [id, index]))
  let last = -1
  for (const id of accepted) {
    if ((await statusOf(store, id)) !== 'delivered') continue
    assert.ok(place.get(id)! > last, `${id} was delivered too early`)
    last = place.get(id)!
  }
}
