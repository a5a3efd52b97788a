import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Endpoint } from '../../../src/core/endpoint.ts'
import type { Reason } from '../../../src/core/outcome.ts'
import type { Replay } from '../../../src/core/replay.ts'
import type { Selection } from '../../../src/core/selection.ts'
import type { Claim } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, aReplay, t0 } from '../../support/builders.ts'
import { claimDue, endAll, ended, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const deadLetters: Selection = { kind: 'deliveries', filter: {} }

const idsOf = (arrivals: readonly ReturnType<typeof anArrival>[]) =>
  arrivals.map((arrival) => arrival.deliveries[0]!.id)

/** Steps until the job has ended. */
async function runToEnd(store: Store, id: string, limit = 10, now = t0 + 100): Promise<Replay> {
  for (;;) {
    const { replay } = await store.stepReplay({ id, limit, now, recover: null, newIds: [] })
    assert.ok(replay)
    if (replay.status !== 'running') return replay
  }
}

async function failed(store: Store, endpoint: Endpoint, count: number, given: Parameters<typeof anArrival>[1] = {}) {
  const arrivals = Array.from({ length: count }, () => anArrival(endpoint, given))
  await store.append(arrivals)
  await endAll(store, endpoint)
  return idsOf(arrivals)
}

export function replayContract(promise: Promised): void {
  promise('brings dead letters back, oldest first, a few at a time', async (store) => {
    const endpoint = await withEndpoint(store)
    const ids = await failed(store, endpoint, 5)
    const created = await store.createReplay(aReplay(deadLetters, { note: 'after the outage', rate: 3 }))
    assert.equal(created.matched, 5)
    const now = t0 + 100
    const step = { id: created.id, limit: 3, now, recover: null, newIds: [] }
    const first = await store.stepReplay(step)
    assert.deepEqual(first.replay, { ...created, requeued: 3, updatedAt: now })
    assert.deepEqual(first.endpointIds, [endpoint.id])
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(store, id))), [
      'pending',
      'pending',
      'pending',
      'failed',
      'failed',
    ])
    const { delivery } = (await store.getDelivery(ids[0]!))!
    assert.deepEqual(
      [delivery.attempts, delivery.triesInBudget, delivery.replayedAt, delivery.lastError],
      [1, 0, now, 'HTTP 503'],
    )
    const end = await runToEnd(store, created.id)
    assert.deepEqual(end, { ...created, status: 'finished', requeued: 5, updatedAt: now, endedAt: now })
    assert.deepEqual(await store.getReplay(created.id), end)
    assert.equal((await claimDue(store, endpoint, { now })).claims.length, 5)
  })

  promise('leaves out what was cancelled, deleted, delivered or is under way, unless asked for', async (store) => {
    const endpoint = await withEndpoint(store)
    const ends: readonly object[] = [
      { reason: 'cancelled' },
      { reason: 'endpoint_deleted' },
      { status: 'delivered' },
      { status: 'dead_letter', reason: 'expired' },
    ]
    const arrivals = [...ends, 'pending'].map(() => anArrival(endpoint))
    await store.append(arrivals)
    const { claims } = await claimDue(store, endpoint, { limit: ends.length })
    await store.commit(claims.map((claim, index) => ended(claim, ends[index])))
    const matched = async (filter: object) => store.countSelection({ kind: 'deliveries', filter }, null)
    assert.equal(await matched({}), 1)
    assert.equal(await matched({ reason: 'cancelled' as Reason }), 1)
    assert.equal(await matched({ statuses: ['delivered', 'dead_letter'] }), 2)
    assert.equal(await matched({ statuses: ['pending'] }), 0)
    const { id } = await store.createReplay(aReplay(deadLetters))
    assert.equal((await runToEnd(store, id)).requeued, 1)
    assert.deepEqual(await Promise.all(idsOf(arrivals).map((one) => statusOf(store, one))), [
      ...['failed', 'failed', 'delivered', 'pending', 'pending'],
    ])
  })

  promise('a job of one tenant never touches what belongs to another', async (store) => {
    const endpoint = await withEndpoint(store)
    const [mine] = await failed(store, endpoint, 1, { event: { tenant: 'acme' } })
    const [other] = await failed(store, endpoint, 1, { event: { tenant: 'other' } })
    const { id, matched } = await store.createReplay(aReplay(deadLetters, { tenant: 'acme' }))
    assert.equal(matched, 1)
    await runToEnd(store, id)
    assert.deepEqual([await statusOf(store, mine!), await statusOf(store, other!)], ['pending', 'failed'])
    assert.equal(await store.countSelection({ kind: 'deliveries', filter: { tenant: 'other' } }, 'acme'), 0)
  })

  promise('what belongs to a removed endpoint is skipped and stays', async (store) => {
    const [kept, removed] = [await withEndpoint(store), await withEndpoint(store)]
    const [back] = await failed(store, kept, 1)
    const [left] = await failed(store, removed, 1)
    await store.removeEntry('endpoint', removed.id)
    const { id } = await store.createReplay(aReplay(deadLetters))
    const { requeued, skipped, status } = await runToEnd(store, id)
    assert.deepEqual([requeued, skipped, status], [1, 1, 'finished'])
    assert.deepEqual([await statusOf(store, back!), await statusOf(store, left!)], ['pending', 'failed'])
  })

  promise('what becomes a dead letter after the job was made is not its business', async (store) => {
    const endpoint = await withEndpoint(store)
    await failed(store, endpoint, 2)
    const { id } = await store.createReplay(aReplay(deadLetters))
    const later = await failed(store, endpoint, 3)
    assert.equal((await runToEnd(store, id, 1)).requeued, 2)
    assert.equal(await statusOf(store, later[0]!), 'failed')
  })

  promise('what fails again while the job runs is not brought back a second time', async (store) => {
    const endpoint = await withEndpoint(store)
    const ids = await failed(store, endpoint, 3)
    const { id } = await store.createReplay(aReplay(deadLetters))
    await store.stepReplay({ id, limit: 2, now: t0 + 100, recover: null, newIds: [] })
    assert.equal((await endAll(store, endpoint)).length, 2)
    assert.equal((await runToEnd(store, id)).requeued, 3)
    assert.deepEqual(await Promise.all(ids.map((one) => statusOf(store, one))), ['failed', 'failed', 'pending'])
  })

  promise('pauses, goes on and is cancelled, but only from the status that was seen', async (store) => {
    const endpoint = await withEndpoint(store)
    const ids = await failed(store, endpoint, 2)
    const { id } = await store.createReplay(aReplay(deadLetters))
    const step = { id, limit: 1, now: t0 + 50, recover: null, newIds: [] }
    assert.equal((await store.changeReplay(id, 'running', 'paused', t0 + 40))?.status, 'paused')
    assert.deepEqual((await store.stepReplay(step)).endpointIds, [])
    assert.equal(await statusOf(store, ids[0]!), 'failed')
    assert.equal((await store.changeReplay(id, 'running', 'cancelled', t0 + 41))?.status, 'paused')
    assert.equal((await store.changeReplay(id, 'paused', 'running', t0 + 42))?.status, 'running')
    assert.equal((await store.stepReplay(step)).replay?.requeued, 1)
    const cancelled = await store.changeReplay(id, 'running', 'cancelled', t0 + 60)
    assert.deepEqual([cancelled?.status, cancelled?.endedAt], ['cancelled', t0 + 60])
    assert.equal((await store.stepReplay(step)).replay?.requeued, 1)
    assert.equal(await statusOf(store, ids[1]!), 'failed')
    assert.equal(await store.changeReplay('rpl_nonsense', 'running', 'paused', t0), null)
    assert.deepEqual(await store.stepReplay({ ...step, id: 'rpl_nonsense' }), { replay: null, endpointIds: [] })
  })

  promise('lists jobs newest first, and deletes those that ended long ago', async (store, under) => {
    const [a, b, c] = [aReplay(deadLetters), aReplay(deadLetters, { tenant: 'acme' }), aReplay(deadLetters)]
    for (const replay of [a, b, c]) await store.createReplay(replay)
    await store.changeReplay(a.id, 'running', 'cancelled', t0 + 5)
    await store.changeReplay(b.id, 'running', 'cancelled', t0 + 6)
    const again = await under.reopen()
    const listed = async (query: object = {}) =>
      (await again.listReplays({ limit: 10, ...query })).items.map(({ id }) => id)
    assert.deepEqual(await listed(), [c.id, b.id, a.id])
    assert.deepEqual(await listed({ tenant: 'acme' }), [b.id])
    assert.deepEqual(await listed({ status: 'running' }), [c.id])
    const page = await again.listReplays({ limit: 2 })
    assert.deepEqual(await listed({ cursor: page.next }), [a.id])
    assert.equal((await again.prune({ what: 'replays', before: t0 + 6, limit: 10, after: null })).deleted, 1)
    assert.deepEqual(await listed(), [c.id, b.id])
    assert.equal(await again.getReplay(a.id), null)
  })

  promise('interrupted anywhere, it brings back each one exactly once', async (_, under) => {
    const plan = fc.record({
      // What there is: dead letters, some of them not meant, and what is under way.
      kinds: fc.array(fc.constantFrom('dead', 'dead', 'cancelled', 'waiting', 'delivered'), {
        minLength: 1,
        maxLength: 14,
      }),
      // What happens: steps of some size, that fail again or not, with crashes between and during them.
      moves: fc.array(fc.constantFrom('step', 'fail again', 'crash', 'crash in a step'), {
        minLength: 4,
        maxLength: 8,
      }),
      limit: fc.integer({ min: 1, max: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(plan, async ({ kinds, moves, limit }) => {
        let store = await under.reopen()
        const endpoint = await withEndpoint(store)
        const arrivals = kinds.map(() => anArrival(endpoint))
        const ids = idsOf(arrivals)
        await store.append(arrivals)
        for (const [index, kind] of kinds.entries()) {
          if (kind === 'waiting') continue
          const claim = only((await claimDue(store, endpoint, { from: { deliveryIds: [ids[index]!] } })).claims)
          const end = kind === 'cancelled' ? { reason: kind } : kind === 'delivered' ? { status: kind } : {}
          await store.commit([ended(claim, end as object)])
        }
        const selection: Selection = { kind: 'deliveries', filter: { endpointId: endpoint.id } }
        const { id, matched } = await store.createReplay(aReplay(selection))
        const meant = ids.filter((_id, index) => kinds[index] === 'dead')
        assert.equal(matched, meant.length)
        const again = new Set<string>()
        let now = t0 + 100
        for (const move of moves) {
          now += 1
          const step = { id, limit, now, recover: null, newIds: [] }
          if (move === 'step') await store.stepReplay(step)
          if (move === 'crash in a step') store.stepReplay(step).catch(() => {})
          if (move.startsWith('crash')) {
            const crashed = store
            store = await under.reopen()
            await crashed.close()
          }
          if (move === 'fail again') {
            const { claims } = await claimDue(store, endpoint, { now, leaseEndsAt: now + 1e9 })
            // What was waiting arrives; what was brought back fails once more.
            const back = (claim: Claim) => claim.delivery.replayedAt !== null
            const arrives = { status: 'delivered' } as object
            await store.commit(claims.map((claim) => ended(claim, back(claim) ? { settledAt: now } : arrives)))
            for (const claim of claims) if (back(claim)) again.add(claim.delivery.id)
          }
        }
        const end = await runToEnd(store, id, limit, now + 1)
        assert.deepEqual([end.requeued, end.skipped], [meant.length, 0])
        for (const [index, one] of ids.entries()) {
          const { delivery } = (await store.getDelivery(one))!
          assert.equal(delivery.replayedAt !== null, kinds[index] === 'dead', kinds[index] ?? '')
          if (again.has(one)) assert.equal(delivery.status, 'failed', 'one that failed again is not brought back again')
        }
      }),
      { numRuns: 10 },
    )
  })

  promise(
    'in an ordered lane the replayed keep their order among themselves, and the live keep theirs',
    async (store) => {
      const moves = fc.array(fc.constantFrom('step', 'live', 'deliver'), { maxLength: 12 })
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 8 }),
          fc.integer({ min: 1, max: 3 }),
          moves,
          async (count, limit, plan) => {
            const endpoint = await withEndpoint(store)
            const lane = 'all'
            const dead = await failed(store, endpoint, count, { delivery: { lane } })
            const live: string[] = []
            const order: string[] = []
            const deliver = async () => {
              const { claims } = await claimDue(store, endpoint, { now: t0 + 1_000 })
              assert.ok(claims.length <= 1)
              for (const claim of claims) {
                order.push(claim.delivery.id)
                await store.commit([ended(claim, { status: 'delivered' as never })])
              }
              return claims.length > 0
            }
            const selection: Selection = { kind: 'deliveries', filter: { endpointId: endpoint.id } }
            const { id } = await store.createReplay(aReplay(selection))
            for (const move of plan) {
              if (move === 'step') await store.stepReplay({ id, limit, now: t0 + 100, recover: null, newIds: [] })
              if (move === 'deliver') await deliver()
              if (move !== 'live') continue
              const arrival = anArrival(endpoint, { delivery: { lane } })
              await store.append([arrival])
              live.push(arrival.deliveries[0]!.id)
            }
            await runToEnd(store, id, limit)
            while (await deliver());
            assert.deepEqual(
              order.filter((one) => dead.includes(one)),
              dead,
            )
            assert.deepEqual(
              order.filter((one) => live.includes(one)),
              live,
            )
            assert.equal(order.length, dead.length + live.length)
          },
        ),
        { numRuns: 20 },
      )
    },
  )
}
