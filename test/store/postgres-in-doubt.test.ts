import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { slotOf } from '../../src/store/postgres/lane-slots.ts'
import { findOut, newMark } from '../../src/store/postgres/mark.ts'
import { rowKeyOf } from '../../src/store/postgres/row-keys.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, lease, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import type { LinkProxy } from '../support/link-proxy.ts'
import { noPostgres } from '../support/postgres.ts'
import { randomFrom } from '../support/random.ts'
import { PostgresScene, told } from './postgres-scene.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const lane = 'key:a'
const inLane = { delivery: { lane, leaseEndsAt: lease } }
const eventRow = 'SELECT 1 FROM events WHERE id = $1'

type Scenery = Readonly<{ scene: PostgresScene; link: LinkProxy; store: Store; endpoint: HttpEndpoint }>

async function scenery(t: Parameters<typeof PostgresScene.open>[0]): Promise<Scenery> {
  const scene = await PostgresScene.open(t)
  const link = await scene.link()
  const store = await scene.store({ link })
  return { scene, link, store, endpoint: await withEndpoint(store) }
}

function cut(link: LinkProxy): void {
  link.cut('rst')
  link.shape({ dark: [] })
}

async function slotHolder(scene: PostgresScene, endpoint: HttpEndpoint) {
  const [row] = await scene.query<{ no: number }>('SELECT no FROM endpoints WHERE id = $1', [endpoint.id])
  const holder = await scene.other()
  await holder.query('BEGIN')
  await holder.query('SELECT FROM lane_slots WHERE slot = $1 FOR NO KEY UPDATE', [slotOf(row!.no, lane)])
  return holder
}

describe('a write whose answer gets lost', limits, () => {
  it('rejects when it never reached the server, and is not kept later', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const arrival = anArrival(endpoint)
    link.shape({ dark: ['up'] })
    const appending = told(store.append([arrival]))
    // It is on its way as soon as the connection is asked to carry it.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    cut(link)
    assert.deepEqual(await appending, { kept: false, code: 'store_unavailable' })
    const again = anArrival(endpoint)
    assert.equal((await store.append([again])).kind, 'kept')
    assert.equal(await store.getEvent(arrival.event.id), null)
    assert.notEqual(await store.getEvent(again.event.id), null)
    assert.equal(store.health().writable, true)
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM events'), [{ count: 1 }])
  })

  it('resolves as it would have when it was kept: who was claimed, and who waits', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const arrivals = Array.from({ length: 3 }, () => anArrival(endpoint, inLane))
    link.shape({ dark: ['down'] })
    const appending = store.append(arrivals)
    await scene.untilRows(1, eventRow, [rowKeyOf('evt', arrivals[0]!.event.id)])
    cut(link)
    const appended = await appending
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(
      appended.items.map(({ claimed }) => claimed[0]),
      [true, false, false],
    )
  })

  it('resolves with what was stale and with the next of the lane', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const arrivals = [anArrival(endpoint, inLane), anArrival(endpoint, inLane), anArrival(endpoint)]
    await store.append(arrivals)
    const [headId, nextId, otherId] = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    const head = { delivery: (await store.getDelivery(headId!))!.delivery } as never
    const other = only((await claimDue(store, endpoint, { from: { deliveryIds: [otherId!] } })).claims)
    const change = { ...delivered(head), claimNext: lease }
    const outdated = { ...delivered(other), to: { ...delivered(other).to, version: 9 } }
    link.shape({ dark: ['down'] })
    const committing = store.commit([change, outdated])
    await scene.untilRows(1, 'SELECT 1 FROM ended WHERE id = $1', [rowKeyOf('dlv', headId!)])
    cut(link)
    const [first, second] = await committing
    assert.equal(second?.kind, 'stale')
    assert.ok(first?.kind === 'applied' && first.next !== null)
    assert.equal(first.next.delivery.id, nextId)
    assert.equal(first.next.delivery.leaseEndsAt, lease)
    const results = await store.commit([delivered(first.next, t0 + 20)])
    assert.equal(results[0]?.kind, 'applied')
  })

  it('resolves when the next of its lane could not be read at once', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    await store.append([anArrival(endpoint, inLane), anArrival(endpoint, inLane)])
    const heads = await claimDue(store, endpoint, { now: lease + 1, leaseEndsAt: lease * 2 })
    const holder = await scene.other()
    // What it does first with the new head is to read it, and that waits here.
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE events IN ACCESS EXCLUSIVE MODE')
    const committing = store.commit([{ ...delivered(only(heads.claims)), claimNext: lease * 2 }])
    await scene.untilBlocked(1)
    assert.equal(await scene.terminateBlocked(), 1)
    link.cut('rst')
    await holder.query('ROLLBACK')
    const [result] = await committing
    assert.ok(result?.kind === 'applied' && result.next !== null)
    const after = await told(store.append([anArrival(endpoint)]))
    if (!after.kept) assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
  })

  it('resolves with the next of its lane while claims of others hold up all others', async (t) => {
    const { scene, store, endpoint } = await scenery(t)
    await store.append([anArrival(endpoint, inLane), anArrival(endpoint, inLane)])
    const head = only((await claimDue(store, endpoint, { now: lease + 1, leaseEndsAt: lease * 2 })).claims)
    const waiting = Array.from({ length: 8 }, () => anArrival(endpoint))
    await store.append(waiting)
    const holder = await scene.other()
    await holder.query('BEGIN')
    await holder.query('SELECT FROM live WHERE lane IS NULL FOR UPDATE')
    const claims = waiting.map(({ deliveries }) =>
      told(claimDue(store, endpoint, { from: { deliveryIds: [deliveries[0]!.id] } })),
    )
    await scene.untilBlocked(4)
    const [result] = await store.commit([{ ...delivered(head), claimNext: lease * 2 }])
    assert.ok(result?.kind === 'applied' && result.next !== null)
    assert.equal((await store.commit([delivered(result.next)]))[0]?.kind, 'applied')
    await holder.query('COMMIT')
    await Promise.all(claims)
  })

  it('resolves when it waited for a lock without its client, and then went through', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const holder = await slotHolder(scene, endpoint)
    const appending = told(store.append([anArrival(endpoint, inLane)]))
    await scene.untilBlocked(1)
    cut(link)
    // The server has not noticed: the call waits for the slot, and whoever wants to know what became of it for the call.
    await scene.untilBlocked(2)
    assert.equal(store.health().writable, false)
    assert.deepEqual(await told(store.append([anArrival(endpoint, inLane)])), {
      kept: false,
      code: 'store_unavailable',
    })
    await holder.query('COMMIT')
    const outcome = await appending
    assert.ok(outcome.kept && outcome.result.kind === 'kept')
    assert.deepEqual(outcome.result.items[0]?.claimed, [true])
    assert.equal((await store.append([anArrival(endpoint, inLane)])).kind, 'kept')
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM events'), [{ count: 2 }])
    assert.equal(store.health().writable, true)
  })

  it('rejects when it waited for a lock and was ended there', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const holder = await slotHolder(scene, endpoint)
    const appending = told(store.append([anArrival(endpoint, inLane)]))
    await scene.untilBlocked(1)
    assert.equal(await scene.terminateBlocked(), 1)
    assert.deepEqual(await appending, { kept: false, code: 'store_unavailable' })
    link.cut('rst')
    await holder.query('COMMIT')
    // The cut may be noticed before the next call, or by it.
    const again = await told(store.append([anArrival(endpoint, inLane)]))
    if (!again.kept) assert.equal((await store.append([anArrival(endpoint, inLane)])).kind, 'kept')
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM events'), [{ count: 1 }])
  })

  for (const lost of [1, 2]) {
    it(`is told as it was when the asking for it breaks off too, ${lost} times`, async (t) => {
      const { scene, link, store, endpoint } = await scenery(t)
      const holder = await scene.other()
      await holder.query('BEGIN')
      await holder.query('SELECT FROM marks ORDER BY stream FOR UPDATE')
      const arrival = anArrival(endpoint)
      const appending = told(store.append([arrival]))
      await scene.untilBlocked(1)
      await scene.terminateBlocked()
      // Now it is asked what became of it. The server does, and the answers get lost.
      await scene.untilBlocked(1)
      if (lost === 2) {
        link.cut('rst')
        await scene.untilBlocked(2)
      }
      link.shape({ dark: ['down'] })
      await holder.query('COMMIT')
      await scene.untilRows(2, 'SELECT 1 FROM marks WHERE seq > 0')
      await scene.untilNoneBlocked()
      cut(link)
      assert.deepEqual(await appending, { kept: false, code: 'store_unavailable' })
      assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
      assert.equal(await store.getEvent(arrival.event.id), null)
    })
  }

  it('is asked for too late: the mark of what was written since stays', async (t) => {
    const scene = await PostgresScene.open(t)
    await scene.store()
    const client = await scene.other()
    const stream = await newMark(client, scene.schema, 0)
    const at = async (seq: number) => {
      await client.query('UPDATE marks SET seq = $2 WHERE stream = $1', [stream, seq])
      const found = await findOut(client, scene.schema, stream, 3)
      const [row] = await scene.query<{ seq: string }>('SELECT seq FROM marks WHERE stream = $1', [stream])
      return [found.kind, Number(row!.seq)]
    }
    assert.deepEqual(await at(2), ['not_kept', 4])
    assert.deepEqual(await at(3), ['kept', 3])
    assert.deepEqual(await at(4), ['not_kept', 4])
    assert.deepEqual(await at(5), ['gone', 5])
  })

  it('is told as it was through many cuts under load', async (t) => {
    const { scene, link, store, endpoint } = await scenery(t)
    const random = randomFrom(20)
    const kept = new Map<string, boolean>()
    const rejected = new Set<string>()
    let isOver = false
    const publish = async (at: number) => {
      for (let count = 0; !isOver; count++) {
        const isLaned = (at + count) % 2 === 0
        const arrival = anArrival(endpoint, isLaned ? { delivery: { lane: `key:${at}`, leaseEndsAt: lease } } : {})
        const outcome = await told(store.append([arrival]))
        const id = arrival.event.id
        if (!outcome.kept) rejected.add(id)
        else if (outcome.result.kind === 'kept') kept.set(id, outcome.result.items[0]!.claimed[0]!)
        if (!outcome.kept) await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    const publishers = Array.from({ length: 16 }, (_, at) => publish(at))
    for (let cuts = 0; cuts < 20; cuts++) {
      const direction = random() < 0.5 ? 'up' : 'down'
      const enough = link.passed(direction) + random() * 60_000
      const acknowledged = kept.size
      await link.until(() => link.passed(direction) > enough && kept.size > acknowledged)
      if (random() < 0.5) link.shape({ dark: [direction] })
      if (random() < 0.5) await new Promise((resolve) => setImmediate(resolve))
      link.cut(random() < 0.5 ? 'rst' : 'fin', random())
      link.shape({ dark: [] })
    }
    isOver = true
    await Promise.all(publishers)
    const rows = await scene.query<{ key: string; owned: boolean }>(
      'SELECT e.id::text AS key, l.owner IS NOT NULL AS owned FROM events e LEFT JOIN live l ON l.event_id = e.id',
    )
    const found = new Map(rows.map(({ key, owned }) => [key.replaceAll('-', ''), owned]))
    for (const [id, claimed] of kept) assert.equal(found.get(rowKeyOf('evt', id)!), claimed, `${id} is there as told`)
    for (const id of rejected) assert.equal(found.has(rowKeyOf('evt', id)!), false, `${id} was rejected`)
    assert.equal(rows.length, kept.size, 'each is there once')
    t.diagnostic(`${kept.size} kept, ${rejected.size} rejected`)
    assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
  })
})
