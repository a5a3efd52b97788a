import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Pending, Settled } from '../../../src/core/delivery.ts'
import type { HttpEndpoint } from '../../../src/core/endpoint.ts'
import { ended as endedAs, replayed } from '../../../src/core/lifecycle.ts'
import type { Replay } from '../../../src/core/replay.ts'
import type { Selection } from '../../../src/core/selection.ts'
import type { Change, Claim } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, anEvent, anId, aReplay, delivered, retryAt as retried, t0 } from '../../support/builders.ts'
import { claimDue, endAll, ended, only, type Promised, withEndpoint } from './promises.ts'

const now = t0 + 100
const later = t0 + 200
const underway = ['pending', 'processing'] as const

async function failed(store: Store, endpoint: HttpEndpoint, count: number, lane: string | null = null) {
  const arrivals = Array.from({ length: count }, () => anArrival(endpoint, { delivery: { lane } }))
  await store.append(arrivals)
  await endAll(store, endpoint)
  return arrivals.map((arrival) => arrival.deliveries[0]!.id)
}

/** A job that has requeued all dead letters of the endpoint. */
async function requeued(store: Store, endpoint: HttpEndpoint, limit = 100): Promise<string> {
  const selection: Selection = { kind: 'deliveries', filter: { endpointId: endpoint.id } }
  const { id } = await store.createReplay(aReplay(selection))
  await store.stepReplay({ id, limit, now, recover: null, newIds: [] })
  return id
}

const claimed = async (store: Store, endpoint: HttpEndpoint, limit = 100): Promise<readonly Claim[]> =>
  (await claimDue(store, endpoint, { now: later, leaseEndsAt: t0 + 1e9, limit })).claims

function retryAt({ delivery }: Claim, dueAt: number): Change {
  return { to: retried(delivery, dueAt), attempt: null, claimNext: null }
}

async function countsOf(store: Store, id: string) {
  const { status, requeued, delivered, failedAgain } = (await store.getReplay(id))!
  const waiting = await store.countDeliveries({ replayId: id, statuses: underway }, 1_000)
  return { status, requeued, delivered, failedAgain, waiting }
}

async function pendingOf(store: Store, deliveryId: string): Promise<Pending> {
  const { delivery } = (await store.getDelivery(deliveryId))!
  assert.equal(delivery.status, 'pending')
  return delivery as Pending
}

export function replayOutcomeContract(promise: Promised): void {
  countingPromises(promise)
  everyEndPromises(promise)
  ownershipPromises(promise)
  walkPromise(promise)
}

function countingPromises(promise: Promised): void {
  promise('counts what became of the requeued, and settles a finished job with the last outcome', async (store) => {
    const endpoint = await withEndpoint(store)
    await failed(store, endpoint, 3)
    const id = await requeued(store, endpoint)
    const start = { status: 'finished', requeued: 3, delivered: 0, failedAgain: 0, waiting: 3 }
    assert.deepEqual(await countsOf(store, id), start)
    const [a, b, c] = (await claimed(store, endpoint)) as [Claim, Claim, Claim]
    await store.commit([delivered(a, later), ended(b, { settledAt: later + 5 })])
    assert.deepEqual(await countsOf(store, id), { ...start, delivered: 1, failedAgain: 1, waiting: 1 })
    await store.commit([delivered(c, later + 9)])
    assert.deepEqual(await countsOf(store, id), {
      ...start,
      status: 'settled',
      delivered: 2,
      failedAgain: 1,
      waiting: 0,
    })
    const { updatedAt, endedAt, settledAt } = (await store.getReplay(id))!
    assert.deepEqual([updatedAt, endedAt, settledAt], [later + 9, now, later + 9])
  })

  promise('is settled when the last of its outcomes came, in whatever order they are written', async (store) => {
    for (const ends of [[later + 3, later + 7] as const, [later + 7, later + 3] as const]) {
      const endpoint = await withEndpoint(store)
      await failed(store, endpoint, 2)
      const id = await requeued(store, endpoint)
      const [a, b] = (await claimed(store, endpoint)) as [Claim, Claim]
      await store.commit([delivered(a, ends[0]), delivered(b, ends[1])])
      assert.equal((await store.getReplay(id))?.settledAt, later + 7)
    }
  })

  promise('a retry that goes on is no outcome, and neither is a stale change', async (store) => {
    const endpoint = await withEndpoint(store)
    await failed(store, endpoint, 1)
    const id = await requeued(store, endpoint)
    const claim = only(await claimed(store, endpoint))
    await store.commit([retryAt(claim, later)])
    assert.deepEqual((await store.commit([delivered(claim, later)]))[0]?.kind, 'stale')
    assert.deepEqual(await countsOf(store, id), {
      ...{ status: 'finished', requeued: 1, delivered: 0, failedAgain: 0, waiting: 1 },
    })
  })

  promise('a running job counts too, and is settled at once if nothing is left to learn at its end', async (store) => {
    const endpoint = await withEndpoint(store)
    await failed(store, endpoint, 2)
    const id = await requeued(store, endpoint, 1)
    await store.commit([delivered(only(await claimed(store, endpoint)), later)])
    assert.deepEqual(await countsOf(store, id), {
      ...{ status: 'running', requeued: 1, delivered: 1, failedAgain: 0, waiting: 0 },
    })
    await store.removeEntry('endpoint', endpoint.id)
    const { replay } = await store.stepReplay({ id, limit: 10, now: later, recover: null, newIds: [] })
    assert.deepEqual([replay?.status, replay?.skipped, replay?.settledAt], ['settled', 1, later])
  })

  promise('a cancelled job stays cancelled and learns the outcomes of what it requeued', async (store) => {
    const endpoint = await withEndpoint(store)
    await failed(store, endpoint, 3)
    const id = await requeued(store, endpoint, 2)
    await store.changeReplay(id, 'running', 'cancelled', now)
    assert.equal((await store.getReplay(id))?.settledAt, null)
    await store.commit((await claimed(store, endpoint)).map((claim) => delivered(claim, later)))
    const { status, requeued: count, delivered: good, settledAt } = (await store.getReplay(id))!
    assert.deepEqual([status, count, good, settledAt], ['cancelled', 2, 2, later])
  })

  promise('what is made for a new endpoint is counted like what is requeued', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 2 }, () => ({ event: anEvent(), idempotency: null, deliveries: [] })))
    const selection = { kind: 'recover', endpointId: endpoint.id, since: t0, only: 'missing' } as const
    const { id } = await store.createReplay(aReplay(selection))
    const { types, tenant, ordering } = endpoint
    const newIds = [anId('dlv'), anId('dlv'), anId('dlv')]
    await store.stepReplay({ id, limit: 3, now, recover: { types, tenant, ordering }, newIds })
    const [a, b] = (await claimed(store, endpoint)) as [Claim, Claim]
    await store.commit([delivered(a, later), ended(b)])
    assert.deepEqual(await countsOf(store, id), {
      ...{ status: 'settled', requeued: 2, delivered: 1, failedAgain: 1, waiting: 0 },
    })
  })

  promise('lists the jobs whose outcomes are not all known, and deletes none of them', async (store, under) => {
    const [a, b] = [await withEndpoint(store), await withEndpoint(store)]
    for (const endpoint of [a, b]) await failed(store, endpoint, 1)
    const [open, known] = [await requeued(store, a), await requeued(store, b)]
    await store.commit([delivered(only(await claimed(store, b)), later)])
    const again = await under.reopen()
    const waiting = async () => (await again.listReplays({ waiting: true, limit: 10 })).items.map(({ id }) => id)
    assert.deepEqual(await waiting(), [open])
    assert.equal((await again.prune({ what: 'replays', before: later, limit: 10, after: null })).deleted, 0)
    assert.equal((await again.prune({ what: 'replays', before: later + 1, limit: 10, after: null })).deleted, 1)
    assert.deepEqual([await again.getReplay(known), await waiting()], [null, [open]])
  })
}

function everyEndPromises(promise: Promised): void {
  const ends: readonly (readonly [
    how: string,
    end: (store: Store, at: HttpEndpoint, id: string) => Promise<unknown>,
  ])[] = [
    [
      'expires',
      (store, { id }) => store.expire({ endpointId: id, bornBefore: later, now: later, limit: 9, after: null }),
    ],
    [
      'loses its endpoint',
      async (store, { id: endpointId }) => {
        await store.removeEntry('endpoint', endpointId)
        await store.endPending({ endpointId, reason: 'endpoint_deleted', now: later, limit: 9 })
      },
    ],
    [
      'is cancelled',
      async (store, _, id) => {
        const to = endedAs(await pendingOf(store, id), 'cancelled', later)
        await store.commit([{ to, attempt: null, claimNext: null }])
      },
    ],
    [
      'is discarded right after it failed',
      async (store, endpoint) => {
        await store.commit((await claimed(store, endpoint)).map((claim) => ended(claim)))
        assert.equal(await store.discard({}, 9, later), 1)
      },
    ],
  ]
  for (const [how, end] of ends) {
    promise(`one that ${how} has failed again`, async (store) => {
      const endpoint = await withEndpoint(store)
      const id = only(await failed(store, endpoint, 1))
      const job = await requeued(store, endpoint)
      await end(store, endpoint, id)
      assert.deepEqual(await countsOf(store, job), {
        ...{ status: 'settled', requeued: 1, delivered: 0, failedAgain: 1, waiting: 0 },
      })
    })
  }

  promise('a chain that ends in one commit is counted delivery by delivery', async (store) => {
    const endpoint = await withEndpoint(store)
    const [head] = await failed(store, endpoint, 3, 'all')
    const id = await requeued(store, endpoint)
    const claim = only(await claimed(store, endpoint))
    const lane = { endpointId: endpoint.id, lane: 'all', after: head!, limit: 9, bytesMax: 1_000_000 }
    const behind = await store.ahead(lane)
    const chain = behind.map(({ delivery: { dueAt: _, ...facts }, event }) => {
      const inHand: Claim = { delivery: { ...facts, status: 'processing', leaseEndsAt: 0 }, event, interruptions: 0 }
      return { ...delivered(inHand, later), follows: true }
    })
    await store.commit([delivered(claim, later), ...chain])
    assert.deepEqual(await countsOf(store, id), {
      ...{ status: 'settled', requeued: 3, delivered: 3, failedAgain: 0, waiting: 0 },
    })
  })
}

function ownershipPromises(promise: Promised): void {
  const brought = async (store: Store, id: string) => {
    const { delivery } = (await store.getDelivery(id))!
    await store.commit([{ to: replayed(delivery as Settled, now), attempt: null, claimNext: null }])
  }

  promise('only the first end after the requeue is the outcome: what a person retries is theirs', async (store) => {
    const endpoint = await withEndpoint(store)
    const id = only(await failed(store, endpoint, 1))
    const job = await requeued(store, endpoint)
    await endAll(store, endpoint)
    await brought(store, id)
    assert.equal(await store.countDeliveries({ replayId: job }, 9), 0)
    await endAll(store, endpoint, (claim) => delivered(claim, later))
    const { delivered: good, failedAgain } = (await store.getReplay(job))!
    assert.deepEqual([good, failedAgain], [0, 1])
  })

  promise('a second job that requeues what failed again counts it as its own', async (store) => {
    const endpoint = await withEndpoint(store)
    const ids = await failed(store, endpoint, 2)
    const first = await requeued(store, endpoint)
    const [a, b] = (await claimed(store, endpoint)) as [Claim, Claim]
    await store.commit([delivered(a, later), ended(b)])
    const second = await requeued(store, endpoint)
    await endAll(store, endpoint, (claim) => delivered(claim, later))
    const counts = async (id: string) => {
      const { status, requeued, delivered, failedAgain } = (await store.getReplay(id)) as Replay
      return [status, requeued, delivered, failedAgain]
    }
    assert.deepEqual(
      [await counts(first), await counts(second)],
      [
        ...[
          ['settled', 2, 1, 1],
          ['settled', 1, 1, 0],
        ],
      ],
    )
    const listed = async (replayId: string) =>
      (await store.listDeliveries({ replayId, limit: 9 })).items.map(({ delivery }) => delivery.id)
    assert.deepEqual([await listed(first), await listed(second)], [[ids[0]], [ids[1]]])
    assert.deepEqual(await listed('rpl_unknown'), [])
  })
}

type Move = 'step' | 'deliver' | 'fail' | 'retry later' | 'cancel one' | 'by hand' | 'crash' | 'crash in a commit'

/** What the job should say, kept by hand. */
function walkPromise(promise: Promised): void {
  promise(
    'whatever happens, also a crash, requeued is always delivered, failed again and waiting',
    async (_, under) => {
      const moves = fc.constantFrom<Move>(
        ...([
          'step',
          'step',
          'deliver',
          'fail',
          'retry later',
          'cancel one',
          'by hand',
          'crash',
          'crash in a commit',
        ] as const),
      )
      const plans = fc.record({
        count: fc.integer({ min: 1, max: 8 }),
        lane: fc.constantFrom(null, 'all'),
        moves: fc.array(moves, { minLength: 4, maxLength: 12 }),
      })
      await fc.assert(
        fc.asyncProperty(plans, async (plan) => {
          const store = await under.reopen()
          const endpoint = await withEndpoint(store)
          const ids = await failed(store, endpoint, plan.count, plan.lane)
          const { id } = await store.createReplay(aReplay({ kind: 'deliveries', filter: { endpointId: endpoint.id } }))
          let current = store
          for (const move of plan.moves) current = await moved(current, move, { endpoint, ids, job: id, under })
          await checkCounts(current, id)
          await endAll(current, endpoint, (claim) => delivered(claim, later))
          const job = await checkCounts(current, id)
          if (job.endedAt !== null) assert.equal(job.status, 'settled')
        }),
        { numRuns: 12 },
      )
    },
  )
}

async function checkCounts(store: Store, id: string): Promise<Replay> {
  const replay = (await store.getReplay(id))!
  const waiting = await store.countDeliveries({ replayId: id, statuses: underway }, 1_000)
  const { requeued, delivered, failedAgain } = replay
  assert.equal(requeued, delivered! + failedAgain! + waiting)
  assert.equal(replay.settledAt !== null, replay.endedAt !== null && waiting === 0)
  return replay
}

type Scene = Readonly<{
  endpoint: HttpEndpoint
  ids: readonly string[]
  job: string
  under: Parameters<Parameters<Promised>[1]>[1]
}>

async function moved(store: Store, move: Move, { endpoint, ids, job, under }: Scene): Promise<Store> {
  const records = await Promise.all(ids.map((id) => store.getDelivery(id)))
  const commitOne = (to: Pending | Settled) => store.commit([{ to, attempt: null, claimNext: null }])
  switch (move) {
    case 'step':
      await store.stepReplay({ id: job, limit: 2, now, recover: null, newIds: [] })
      return store
    case 'deliver':
    case 'fail':
    case 'retry later': {
      const claims = await claimed(store, endpoint, 2)
      const change = { deliver: delivered, fail: (claim: Claim) => ended(claim), 'retry later': retryAt }[move]
      await store.commit(claims.map((claim) => change(claim, later)))
      return store
    }
    case 'cancel one': {
      const waiting = records.find((record) => record?.delivery.status === 'pending')
      if (waiting != null) await commitOne(endedAs(waiting.delivery as Pending, 'cancelled', later))
      return store
    }
    case 'by hand': {
      const dead = records.find((record) => record?.delivery.status === 'failed')
      if (dead != null) await commitOne(replayed(dead.delivery as Settled, now))
      return store
    }
    case 'crash':
    case 'crash in a commit': {
      const claims = move === 'crash' ? [] : await claimed(store, endpoint, 2)
      store.commit(claims.map((claim) => delivered(claim, later))).catch(() => {})
      const again = await under.reopen()
      await store.close()
      return again
    }
  }
}
