import assert from 'node:assert/strict'
import type { Appended, AppendedItem, Arrival } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, t0 } from '../../support/builders.ts'
import { only, type Promised, withEndpoint } from './promises.ts'

const day = 86_400_000
const retention = { deliveredMs: day, failedMs: day, deadLetterMs: day, eventMs: day }
const origin = { scope: 'outbox', id: '7' }

function itemsOf(appended: Appended): readonly AppendedItem[] {
  assert.ok(appended.kind === 'kept', appended.kind)
  return appended.items
}

async function appendOne(store: Store, arrival: Arrival): Promise<AppendedItem> {
  return only(itemsOf(await store.append([arrival])))
}

function keyed(fingerprint: string) {
  return { scope: 'tenant:default', key: 'k', fingerprint, expiresAt: t0 + 1_000 }
}

async function countEvents(store: Store): Promise<number> {
  return (await store.listEvents({ limit: 100 })).items.length
}

export function originContract(promise: Promised): void {
  promise('answers what was read a second time with the first event, whatever it holds now', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const first = anArrival(endpoint, { origin })
    assert.equal((await appendOne(store, first)).duplicate, false)
    const again = await under.reopen()
    const second = await appendOne(again, anArrival(endpoint, { origin, event: { type: 'other' } }))
    assert.deepEqual(second, { eventId: first.event.id, deliveries: 1, duplicate: true, claimed: [], ended: [] })
    assert.equal(await countEvents(again), 1)
  })

  promise('knows an origin within its scope only', async (store) => {
    const endpoint = await withEndpoint(store)
    await appendOne(store, anArrival(endpoint, { origin }))
    for (const other of [
      { scope: 'outbox', id: '8' },
      { scope: 'other', id: '7' },
    ]) {
      assert.equal((await appendOne(store, anArrival(endpoint, { origin: other }))).duplicate, false)
    }
  })

  promise('answers two of the same origin in one batch with one event', async (store) => {
    const endpoint = await withEndpoint(store)
    const arrivals = [anArrival(endpoint, { origin }), anArrival(endpoint), anArrival(endpoint, { origin })]
    const items = itemsOf(await store.append(arrivals))
    assert.deepEqual(
      items.map(({ duplicate }) => duplicate),
      [false, false, true],
    )
    assert.equal(items[2]?.eventId, arrivals[0]?.event.id)
    assert.equal(await countEvents(store), 2)
  })

  promise('looks at the origin before the key: what was read again is no conflict and uses no key', async (store) => {
    const endpoint = await withEndpoint(store)
    await appendOne(store, anArrival(endpoint, { origin, idempotency: keyed('a') }))
    const items = itemsOf(
      await store.append([
        anArrival(endpoint, { origin, idempotency: keyed('b') }),
        anArrival(endpoint, { origin, idempotency: { ...keyed('b'), key: 'unused' } }),
        anArrival(endpoint, { idempotency: { ...keyed('c'), key: 'unused' } }),
      ]),
    )
    assert.deepEqual(
      items.map(({ duplicate }) => duplicate),
      [true, true, false],
    )
  })

  promise(
    'keeps the origin of a repeated key: it stands for the first event for as long as that is kept',
    async (store) => {
      const endpoint = await withEndpoint(store)
      const first = anArrival(endpoint, { idempotency: keyed('a') })
      await appendOne(store, first)
      assert.equal((await appendOne(store, anArrival(endpoint, { origin, idempotency: keyed('a') }))).duplicate, true)
      const later = anArrival(endpoint, { origin, event: { receivedAt: t0 + 2_000 } })
      assert.equal((await appendOne(store, later)).eventId, first.event.id)
    },
  )

  promise('keeps no origin of a call that is a conflict', async (store) => {
    const endpoint = await withEndpoint(store)
    await appendOne(store, anArrival(endpoint, { idempotency: keyed('a') }))
    const conflict = await store.append([
      anArrival(endpoint, { origin }),
      anArrival(endpoint, { idempotency: keyed('b') }),
    ])
    assert.deepEqual(conflict, { kind: 'conflict', conflicts: [1] })
    assert.equal((await appendOne(store, anArrival(endpoint, { origin }))).duplicate, false)
  })

  promise('forgets an origin with its event', async (store) => {
    const [first, second] = [anArrival(await withEndpoint(store), { origin }), { origin, idempotency: null }]
    await store.append([{ ...first, deliveries: [] }])
    const prune = (now: number) => store.prune({ what: 'events', now, retention, limit: 10, after: null })
    assert.equal((await prune(t0 + day - 1)).deleted, 0)
    const repeat = anArrival(await withEndpoint(store), second)
    assert.equal((await appendOne(store, repeat)).duplicate, true)
    assert.equal((await prune(t0 + day + 1)).deleted, 1)
    assert.equal((await appendOne(store, repeat)).duplicate, false)
  })
}
