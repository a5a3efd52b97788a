import assert from 'node:assert/strict'
import { newborn } from '../../../src/core/delivery.ts'
import type { HttpEndpoint } from '../../../src/core/endpoint.ts'
import { bornBackfilled } from '../../../src/core/lifecycle.ts'
import type { Replay } from '../../../src/core/replay.ts'
import type { RecoverOnly } from '../../../src/core/selection.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, anEvent, anId, aReplay, t0 } from '../../support/builders.ts'
import { claimDue, endAll, ended, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const now = t0 + 1_000

function stepOf(endpoint: HttpEndpoint, id: string, limit: number) {
  const { types, tenant, ordering } = endpoint
  const newIds = Array.from({ length: limit }, () => anId('dlv'))
  return { id, limit, now, recover: { types, tenant, ordering }, newIds }
}

async function recover(
  store: Store,
  endpoint: HttpEndpoint,
  only: RecoverOnly,
  { since = t0, limit = 2, ...end }: { since?: number; until?: number; limit?: number } = {},
): Promise<Replay> {
  const { id } = await store.createReplay(aReplay({ kind: 'recover', endpointId: endpoint.id, since, only, ...end }))
  for (;;) {
    const { replay } = await store.stepReplay(stepOf(endpoint, id, limit))
    assert.ok(replay)
    if (replay.status !== 'running') return replay
  }
}

const eventAlone = (given: Parameters<typeof anEvent>[0] = {}) => ({
  event: anEvent(given),
  idempotency: null,
  deliveries: [],
})

export function recoveryContract(promise: Promised): void {
  promise('`failed` brings back the dead letters of one endpoint since an instant', async (store) => {
    const [endpoint, other] = [await withEndpoint(store), await withEndpoint(store)]
    const at = (receivedAt: number, where = endpoint) => anArrival(where, { event: { receivedAt } })
    const arrivals = [at(t0 - 5), at(t0), at(t0 + 5), at(t0 + 5, other)]
    await store.append(arrivals)
    for (const one of [endpoint, other]) await endAll(store, one)
    const { matched, requeued } = await recover(store, endpoint, 'failed')
    assert.deepEqual([matched, requeued], [2, 2])
    assert.deepEqual(await Promise.all(arrivals.map(({ deliveries }) => statusOf(store, deliveries[0]!.id))), [
      ...['failed', 'pending', 'pending', 'failed'],
    ])
  })

  promise('a recovery with an end leaves out what was received then or later', async (store) => {
    const endpoint = await withEndpoint(store)
    const at = (receivedAt: number) => anArrival(endpoint, { event: { receivedAt } })
    await store.append([at(t0), at(t0 + 5), at(t0 + 9)])
    await endAll(store, endpoint)
    await store.append([eventAlone({ receivedAt: t0 + 4 }), eventAlone({ receivedAt: t0 + 5 })])
    const until = t0 + 5
    assert.equal((await recover(store, endpoint, 'failed', { until })).requeued, 1)
    assert.equal((await recover(store, endpoint, 'missing', { until })).requeued, 1)
  })

  promise('`missing` makes deliveries of events that a new endpoint wants and never had', async (store) => {
    const [old, fresh] = [await withEndpoint(store), await withEndpoint(store, { types: ['order.*'], ordering: 'key' })]
    const wanted = [
      eventAlone({ key: 'a' }),
      anArrival(old, { event: { key: 'a' } }),
      eventAlone({ key: 'b', type: 'order.paid.late' }),
    ]
    const had = anArrival(fresh)
    await store.append([
      eventAlone({ receivedAt: t0 - 1 }),
      ...wanted,
      had,
      eventAlone({ type: 'invoice.paid' }),
      eventAlone({ tenant: 'acme' }),
    ])
    const { matched, requeued, skipped } = await recover(store, fresh, 'missing')
    assert.deepEqual([matched, requeued, skipped], [3, 3, 0])
    await endAll(store, fresh, (claim) => ended(claim, { status: 'delivered' as never }))
    const { items } = await store.listDeliveries({ endpointId: fresh.id, limit: 10 })
    const made = items.filter(({ delivery }) => delivery.id !== had.deliveries[0]!.id).reverse()
    assert.deepEqual(
      made.map(({ delivery }) => [delivery.eventId, delivery.lane, delivery.receivedAt, delivery.replayedAt]),
      wanted.map(({ event }) => [event.id, `key:${event.key}`, t0, now]),
    )
    assert.equal((await recover(store, fresh, 'missing')).matched, 0, 'nothing is missing any more')
  })

  promise('what was missing waits its turn in its lane, in the order of the events', async (store) => {
    const endpoint = await withEndpoint(store, { ordering: 'endpoint' })
    const missing = Array.from({ length: 5 }, () => eventAlone())
    await store.append(missing)
    const live = anArrival(endpoint, { delivery: { lane: 'all' } })
    await store.append([live])
    await recover(store, endpoint, 'missing')
    const order = await endAll(store, endpoint)
    assert.deepEqual(
      order.map(({ event }) => event.id),
      [live, ...missing].map(({ event }) => event.id),
    )
  })

  promise(
    '`all` sends again whatever has ended, with what is missing between, in the order of the events',
    async (store) => {
      const endpoint = await withEndpoint(store, { ordering: 'endpoint' })
      const lane = { delivery: { lane: 'all' } }
      const arrivals = [anArrival(endpoint, lane), eventAlone(), anArrival(endpoint, lane), anArrival(endpoint, lane)]
      await store.append(arrivals)
      const ends = [{ status: 'delivered' }, {}, { reason: 'cancelled' }].values()
      await endAll(store, endpoint, (claim) => ended(claim, ends.next().value as object))
      const live = anArrival(endpoint, lane)
      await store.append([live])
      const { matched, requeued } = await recover(store, endpoint, 'all')
      assert.deepEqual([matched, requeued], [3, 3])
      const order = await endAll(store, endpoint)
      assert.deepEqual(
        order.map(({ event }) => event.id),
        [live, ...arrivals.slice(0, 3)].map(({ event }) => event.id),
      )
    },
  )

  promise('what was missing is born as core says, at the head of its lane and behind it', async (store) => {
    const endpoint = await withEndpoint(store, { ordering: 'endpoint' })
    const arrivals = [eventAlone({ receivedAt: t0 + 1 }), eventAlone({ receivedAt: t0 + 2 })]
    await store.append(arrivals)
    await recover(store, endpoint, 'missing')
    for (const [index, { event }] of arrivals.entries()) {
      const { items } = await store.listDeliveries({ eventId: event.id, limit: 2 })
      const { delivery } = only(items)
      const ids = { id: delivery.id, eventId: event.id, endpointId: endpoint.id }
      const facts = newborn({ ...ids, lane: 'all', receivedAt: event.receivedAt })
      assert.deepEqual(delivery, bornBackfilled(facts, index > 0, now))
    }
  })

  promise('when the endpoint is removed, what is left of its recovery is skipped', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.append(Array.from({ length: 5 }, () => eventAlone()))
    const selection = { kind: 'recover', endpointId: endpoint.id, since: t0, only: 'missing' } as const
    const { id } = await store.createReplay(aReplay(selection))
    await store.stepReplay(stepOf(endpoint, id, 2))
    await store.removeEntry('endpoint', endpoint.id)
    const { replay } = await store.stepReplay({ ...stepOf(endpoint, id, 2), recover: null })
    assert.deepEqual([replay?.status, replay?.requeued, replay?.skipped], ['finished', 2, 3])
    assert.equal(await store.countSelection(selection, null), 0)
  })

  promise('a filter that matches rarely is worked off in bounded steps', async (store) => {
    const endpoint = await withEndpoint(store, { types: ['rare'] })
    const count = 12_000
    await store.append(Array.from({ length: count }, () => eventAlone({ type: 'common' })))
    await store.append([eventAlone({ type: 'rare' })])
    const selection = { kind: 'recover', endpointId: endpoint.id, since: t0, only: 'missing' } as const
    const { id, matched } = await store.createReplay(aReplay(selection))
    assert.equal(matched, 1)
    const first = await store.stepReplay(stepOf(endpoint, id, 10))
    assert.deepEqual([first.replay?.status, first.replay?.requeued], ['running', 0])
    let replay = first.replay
    while (replay?.status === 'running') replay = (await store.stepReplay(stepOf(endpoint, id, 10))).replay
    assert.equal(replay?.requeued, 1)
    assert.equal((await claimDue(store, endpoint, { now })).claims.length, 1)
  })
}
