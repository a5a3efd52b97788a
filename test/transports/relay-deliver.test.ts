import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import { anEvent, t0 } from '../support/builders.ts'
import { down, ok, ScriptedHub } from '../support/scripted-hub.ts'
import { aParcel, aRelay, aRelayEndpoint, never, openScene } from './relay-scene.ts'

async function connected(t: TestContext, hello = {}, timings = {}) {
  const scene = await openScene(t, { timings })
  const hub = await scene.connect(hello)
  const deliver = (given: Parameters<typeof aParcel>[1] = {}, signal = never) =>
    scene.transport.deliver(aParcel(scene.endpoint, given), signal)
  const parcelOf = (given: Parameters<typeof aParcel>[1] = {}) => aParcel(scene.endpoint, given)
  return { ...scene, hub, deliver, parcelOf }
}

const credit = (frames: number, bytes = 1_000_000) => ({ credit: { frames, bytes } })

describe('a delivery to a hub', () => {
  test('carries the event byte for byte, and what the hub needs to know of it', async (t) => {
    const { hub, deliver, endpoint } = await connected(t)
    const body = Buffer.from([0, 255, 10, 13, 128])
    const request = { source: 'gh', method: 'POST', query: 'a=b', headers: { 'x-github-event': 'push' } }
    const event = anEvent({ body, request, key: 'k', headers: { a: 'b' } })
    const report = deliver({ event, deliveryId: 'dlv_1', attempt: 3, bornAt: t0 + 5 })
    const { head, body: got } = await hub.next('deliver')
    assert.deepEqual(Buffer.from(got), body)
    const { body: _, dataOffset: __, ...facts } = event
    assert.deepEqual(head, {
      ...{ kind: 'deliver', delivery: 'dlv_1', endpoint: endpoint.id, bornAt: t0 + 5, attempt: 3 },
      ...{ lane: 'all', behind: null, event: facts },
    })
    hub.ack({ head, body }, down)
    assert.deepEqual(await report, down)
  })

  test('names the lane of its key, or none', async (t) => {
    const { hub, transport } = await connected(t)
    for (const [ordering, lane] of [['none', null] as const, ['key', 'key:k'] as const]) {
      const parcel = aParcel(aRelayEndpoint({ ordering }), { event: anEvent({ key: 'k' }) })
      const report = transport.deliver(parcel, never)
      const frame = await hub.next('deliver')
      assert.equal(frame.head.lane, lane)
      hub.ack(frame)
      await report
    }
  })

  test('comes after the rules of its endpoint, which are told once and when they change', async (t) => {
    const { hub, transport } = await connected(t)
    const endpoint = aRelayEndpoint({ classify: { '4xx': 'permanent' }, headers: { a: 'b' } })
    const changed = { ...endpoint, timeoutMs: 5_000 }
    for (const each of [endpoint, endpoint, changed]) {
      const report = transport.deliver(aParcel(each), never)
      hub.ack(await hub.next('deliver'))
      await report
    }
    const kinds = hub.heard.map(({ kind }) => kind)
    assert.deepEqual(kinds, ['welcome', 'endpoint', 'deliver', 'deliver', 'endpoint', 'deliver'])
    const { id, route, timeoutMs, classify, headers, secrets } = endpoint
    assert.deepEqual(hub.heard[1], { kind: 'endpoint', endpoint: id, route, timeoutMs, classify, headers, secrets })
  })

  test('is answered by the first answer alone; others, and those for nothing that was sent, are ignored', async (t) => {
    const { hub, deliver, transport, relays, logged } = await connected(t)
    const first = deliver({ deliveryId: 'dlv_1' })
    const frame = await hub.next('deliver')
    hub.say({ kind: 'ack', delivery: 'dlv_unknown', bornAt: t0, report: ok, tookMs: 0 })
    hub.say({ kind: 'returned', deliveries: ['dlv_unknown', 'dlv_other'] })
    hub.ack(frame, ok, { bornAt: t0 + 1 })
    hub.ack(frame, down)
    hub.ack(frame, ok)
    assert.deepEqual(await first, down)
    const second = deliver({ deliveryId: 'dlv_2' })
    hub.ack(await hub.next('deliver'))
    assert.deepEqual(await second, ok)
    assert.equal(transport.linkOf(relays[0]?.id ?? '')?.outstanding, 0)
    assert.equal(logged.filter(({ message }) => message === 'relay.answer_ignored').length, 1, 'told, and rarely')
  })

  test('is answered by no more than is kept of our own answers', async (t) => {
    const { hub, deliver, transport, parcelOf } = await connected(t)
    const report = deliver({ deliveryId: 'dlv_1' })
    transport.sendAhead([parcelOf({ deliveryId: 'dlv_2' })], 'dlv_1')
    const headers = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x-${index}`, 'y'.repeat(2_000)]))
    const long = { ...ok, headers, body: `${'z'.repeat(60_000)}\ud800` }
    for (const frame of [await hub.next('deliver'), await hub.next('deliver')])
      hub.ack(frame, long, { tookMs: 0.5e300 })
    const kept = await report
    assert.ok(kept.kind === 'answered')
    assert.equal(kept.body.length, 4_096)
    assert.equal(Object.keys(kept.headers).length, 64)
    assert.equal(kept.headers['x-0']?.length, 1_024)
    await hub.settled()
    const [behind] = transport.answersBehind(parcelOf().endpoint, 'dlv_1')
    assert.deepEqual([behind?.tookMs, behind?.report], [86_400_000, kept])
  })

  test('that is never answered is over a while after its timeout, and its late answer changes nothing', async (t) => {
    const { hub, transport } = await connected(t, {}, { ackGraceMs: 10 })
    const endpoint = aRelayEndpoint({ timeoutMs: 20 })
    const report = await transport.deliver(aParcel(endpoint, { deliveryId: 'dlv_1' }), never)
    assert.equal(report.kind === 'unreachable' && report.code, 'NO_ACK')
    const frame = await hub.next('deliver')
    hub.ack(frame)
    await hub.settled()
    const again = transport.deliver(aParcel(aRelayEndpoint(), { deliveryId: 'dlv_1', attempt: 2 }), never)
    const next = await hub.next('deliver')
    assert.equal(next.head.attempt, 2)
    hub.ack(next, down)
    assert.deepEqual(await again, down)
  })

  test('that was given up is sent again with its next try, and any answer to it counts', async (t) => {
    const { hub, transport, relays } = await connected(t, {}, { ackGraceMs: 10 })
    const parcel = aParcel(aRelayEndpoint({ timeoutMs: 20 }), { deliveryId: 'dlv_1' })
    await transport.deliver(parcel, never)
    const first = await hub.next('deliver')
    const again = transport.deliver({ ...parcel, endpoint: aRelayEndpoint(), attempt: 2 }, never)
    await hub.next('deliver')
    assert.equal(transport.linkOf(relays[0]?.id ?? '')?.outstanding, 1, 'the hub has it once')
    hub.ack(first)
    assert.deepEqual(await again, ok)
  })

  test('that a hub does not even read is not piled up for it with every try', async (t) => {
    const { hub, transport } = await connected(t, { credit: { frames: 100, bytes: 64_000_000 } }, { ackGraceMs: 1 })
    const endpoint = aRelayEndpoint({ timeoutMs: 20, ordering: 'none' })
    const event = anEvent({ body: Buffer.alloc(900_000) })
    const parcels = Array.from({ length: 20 }, (_, n) => aParcel(endpoint, { event, deliveryId: `dlv_${n}` }))
    hub.ws.pause()
    for (let attempt = 1; attempt <= 10; attempt++) {
      await Promise.all(parcels.map((parcel) => transport.deliver({ ...parcel, attempt }, never)))
    }
    const last = transport.deliver(aParcel(aRelayEndpoint(), { deliveryId: 'last' }), never)
    hub.ws.resume()
    const written: string[] = []
    while (written.at(-1) !== 'last') {
      const frame = await hub.next('deliver')
      written.push(frame.head.delivery)
      hub.ack(frame)
    }
    await last
    // What the system holds for the connection is not ours, and may make room for a few more.
    assert.ok(written.length <= 2 * parcels.length, `${written.length} frames for ${parcels.length} deliveries`)
  })

  test('that is large is not copied for each of the hubs that do not read it', async (t) => {
    const hubs: ScriptedHub[] = []
    t.after(() => hubs.map(({ ws }) => ws.terminate()))
    const relays = Array.from({ length: 20 }, (_, n) => aRelay({ name: `hub-${n}` }))
    const { transport, url } = await openScene(t, {}, relays)
    // More than the system holds for a connection.
    const event = anEvent({ body: randomBytes(16_000_000) })
    const limits = { frameBytesMax: 20_000_000, credit: { frames: 10, bytes: 20_000_000 } }
    for (const n of relays.keys()) hubs.push(await ScriptedHub.connect(url.replace(/0$/, String(n)), limits))
    const before = process.memoryUsage().arrayBuffers
    const control = new AbortController()
    const [first, ...others] = hubs.map((hub, n) => {
      hub.ws.pause()
      const endpoint = aRelayEndpoint({ relay: `hub-${n}` })
      return transport.deliver(aParcel(endpoint, { event, deliveryId: `dlv_${n}` }), control.signal)
    })
    const grown = process.memoryUsage().arrayBuffers - before
    assert.ok(grown < event.body.length, `${grown} bytes for ${hubs.length} hubs`)
    const [hub] = hubs
    hub?.ws.resume()
    const frame = await hub?.next('deliver')
    assert.ok(frame !== undefined && Buffer.from(frame.body).equals(event.body))
    hub?.ack(frame)
    assert.deepEqual(await first, ok)
    control.abort()
    await Promise.all(others)
  })

  test('of a new life waits for the end of the old one', async (t) => {
    const { hub, transport } = await connected(t, {}, { ackGraceMs: 10 })
    await transport.deliver(aParcel(aRelayEndpoint({ timeoutMs: 20 }), { deliveryId: 'dlv_1' }), never)
    const old = await hub.next('deliver')
    const replayed = transport.deliver(aParcel(aRelayEndpoint(), { deliveryId: 'dlv_1', bornAt: t0 + 9 }), never)
    await hub.settled()
    assert.equal(hub.heard.filter(({ kind }) => kind === 'deliver').length, 1)
    hub.ack(old, down)
    const fresh = await hub.next('deliver')
    assert.equal(fresh.head.bornAt, t0 + 9)
    hub.ack(fresh)
    assert.deepEqual(await replayed, ok)
  })

  test('is interrupted at once when we stop', async (t) => {
    const { hub, deliver } = await connected(t, credit(1))
    const stopping = new AbortController()
    const underway = deliver({}, stopping.signal)
    const waiting = deliver({}, stopping.signal)
    await hub.next('deliver')
    stopping.abort()
    assert.equal((await underway).kind, 'interrupted')
    assert.equal((await waiting).kind, 'interrupted')
    assert.equal((await deliver({}, stopping.signal)).kind, 'interrupted')
  })

  test('that a hub gives back at once, and again and again, does not keep us busy', async (t) => {
    const { hub, deliver, connect } = await connected(t, {}, { givenBackMs: 3_600_000 })
    for (const goes of ['drain', 'close'] as const) {
      const there = goes === 'drain' ? hub : await connect()
      let isOver = false
      const report = deliver({ deliveryId: 'dlv_1' }).finally(() => {
        isOver = true
      })
      await there.next('deliver')
      there.say({ kind: 'returned', deliveries: ['dlv_1'] })
      await there.settled()
      assert.equal(isOver, false, 'it would be sent again at once')
      if (goes === 'drain') there.say({ kind: 'drain' })
      else there.ws.close()
      assert.equal((await report).kind, 'interrupted', 'when the hub goes, another may have it')
    }
  })

  test('is in the lane in which it was kept, whatever the ordering is by now', async (t) => {
    const { hub, deliver } = await connected(t)
    for (const lane of [null, 'key:k', 'all']) {
      const report = deliver({ lane })
      const frame = await hub.next('deliver')
      assert.equal(frame.head.lane, lane)
      hub.ack(frame)
      await report
    }
  })

  test('that the hub gives back untried is given back untried', async (t) => {
    const { hub, deliver, transport, relays } = await connected(t, {}, { givenBackMs: 10 })
    const report = deliver({ deliveryId: 'dlv_1' })
    await hub.next('deliver')
    hub.say({ kind: 'returned', deliveries: ['dlv_1'] })
    assert.equal((await report).kind, 'interrupted')
    assert.equal(transport.linkOf(relays[0]?.id ?? '')?.outstanding, 0)
  })

  test('is lost with the link that it was written to', async (t) => {
    const { hub, deliver } = await connected(t)
    const report = deliver()
    await hub.next('deliver')
    hub.ws.terminate()
    const lost = await report
    assert.equal(lost.kind === 'unreachable' && lost.code, 'LINK_LOST')
    assert.match(lost.kind === 'unreachable' ? lost.message : '', /the link to the hub home was lost/)
    assert.equal((await deliver()).kind, 'interrupted', 'there is nobody now')
  })
})

describe('the credit of a hub', () => {
  test('is never exceeded in deliveries; what waits goes when there is an answer, in its order', async (t) => {
    const { hub, deliver } = await connected(t, credit(2))
    const reports = ['a', 'b', 'c', 'd'].map((deliveryId) => deliver({ deliveryId }))
    const first = await hub.next('deliver')
    await hub.next('deliver')
    await hub.settled()
    assert.equal(hub.heard.filter(({ kind }) => kind === 'deliver').length, 2)
    hub.ack(first)
    const third = await hub.next('deliver')
    assert.equal(third.head.delivery, 'c')
    hub.say({ kind: 'returned', deliveries: ['b'] })
    const fourth = await hub.next('deliver')
    assert.equal(fourth.head.delivery, 'd')
    hub.ack(third)
    hub.ack(fourth)
    const kinds = (await Promise.all(reports)).map(({ kind }) => kind)
    assert.deepEqual(kinds, ['answered', 'interrupted', 'answered', 'answered'])
  })

  test('is never exceeded in bytes', async (t) => {
    const { hub, deliver } = await connected(t, credit(100, 1_000))
    const event = () => anEvent({ body: Buffer.alloc(600) })
    const reports = [deliver({ event: event() }), deliver({ event: event() })]
    const first = await hub.next('deliver')
    await hub.settled()
    assert.equal(hub.heard.filter(({ kind }) => kind === 'deliver').length, 1)
    hub.ack(first)
    hub.ack(await hub.next('deliver'))
    assert.deepEqual(await Promise.all(reports), [ok, ok])
  })

  test('that does not come back in time costs what waits for it no try', async (t) => {
    const { hub, deliver, transport } = await connected(t, credit(1))
    deliver()
    await hub.next('deliver')
    const waiting = await transport.deliver(aParcel(aRelayEndpoint({ timeoutMs: 20 })), never)
    assert.equal(waiting.kind, 'interrupted')
  })

  test('leaves what waits for it untried when the link is lost', async (t) => {
    const { hub, deliver } = await connected(t, credit(1))
    const reports = [deliver(), deliver()]
    await hub.next('deliver')
    hub.ws.terminate()
    assert.deepEqual(
      (await Promise.all(reports)).map(({ kind }) => kind),
      ['unreachable', 'interrupted'],
    )
  })

  test('and its largest frame say what is too large, before it is sent', async (t) => {
    const cases = [{ frameBytesMax: 2_000 }, credit(10, 2_000)]
    for (const [index, hello] of cases.entries()) {
      const { hub, deliver } = await connected(t, hello)
      const report = await deliver({ event: anEvent({ body: Buffer.alloc(3_000) }) })
      assert.equal(report.kind, 'oversized', String(index))
      assert.match(report.kind === 'oversized' ? report.message : '', /takes at most 2000 bytes/)
      const fits = deliver({ event: anEvent({ body: Buffer.alloc(1_000) }) })
      hub.ack(await hub.next('deliver'))
      assert.deepEqual(await fits, ok)
    }
    const { deliver } = await connected(t, { frameBytesMax: 2_000 })
    const onlyWithHead = await deliver({ event: anEvent({ body: Buffer.alloc(1_900) }) })
    assert.equal(onlyWithHead.kind, 'oversized')
  })
})

describe('whom a delivery goes to', () => {
  test('the hub of its own tenant, whatever others are called', async (t) => {
    const relays = [aRelay({ tenant: 'acme' }), aRelay({ tenant: 'zeta' })]
    const scene = await openScene(t, {}, relays)
    const acme = await scene.connect()
    const endpoint = aRelayEndpoint({ tenant: 'zeta' })
    assert.equal(scene.transport.serves(endpoint), false)
    assert.equal((await scene.transport.deliver(aParcel(endpoint), never)).kind, 'interrupted')
    const ours = aRelayEndpoint({ tenant: 'acme' })
    assert.equal(scene.transport.serves(ours), true)
    const report = scene.transport.deliver(aParcel(ours), never)
    acme.ack(await acme.next('deliver'))
    assert.deepEqual(await report, ok)
  })

  test('nobody, when the hub has no such route or is about to go', async (t) => {
    const { hub, transport, endpoint } = await connected(t)
    assert.equal(transport.serves(aRelayEndpoint({ route: 'stripe' })), false)
    assert.equal(transport.serves(aRelayEndpoint({ relay: 'office' })), false)
    assert.equal(transport.serves(endpoint), true)
    const told: string[] = []
    transport.onServing((id) => told.push(id))
    const underway = transport.deliver(aParcel(endpoint), never)
    const frame = await hub.next('deliver')
    hub.say({ kind: 'drain' })
    await hub.settled()
    assert.equal(transport.serves(endpoint), false)
    assert.deepEqual(told.includes(endpoint.id), true)
    assert.equal((await transport.deliver(aParcel(endpoint), never)).kind, 'interrupted')
    hub.ack(frame)
    assert.deepEqual(await underway, ok, 'what had begun is answered')
  })
})
