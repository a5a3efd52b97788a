import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, type TestContext, test } from 'node:test'
import type { Parcel } from '../../src/transports/transport.ts'
import { anEvent, t0 } from '../support/builders.ts'
import { down, ok } from '../support/scripted-hub.ts'
import { aParcel, aRelayEndpoint, never, openScene } from './relay-scene.ts'

/** A hub that has the head of a lane. */
async function connected(t: TestContext, hello = {}) {
  const scene = await openScene(t)
  const { transport, endpoint, relays } = scene
  const hub = await scene.connect(hello)
  const parcel = (deliveryId: string, given: Partial<Parcel> = {}) => aParcel(endpoint, { deliveryId, ...given })
  const deliver = (deliveryId: string, given: Partial<Parcel> = {}) =>
    transport.deliver(parcel(deliveryId, given), never)
  const sendAhead = (ids: readonly string[], behind: string) =>
    transport.sendAhead(
      ids.map((id) => parcel(id)),
      behind,
    )
  const next = async (count: number) => {
    const frames = []
    while (frames.length < count) frames.push(await hub.next('deliver'))
    return frames
  }
  const sent = () => hub.heard.filter(({ kind }) => kind === 'deliver').length
  const outstanding = () => transport.linkOf(relays[0]?.id ?? '')?.outstanding
  const answers = (behind: string) => transport.answersBehind(endpoint, behind).map(({ deliveryId }) => deliveryId)
  const head = deliver('a')
  const first = await hub.next('deliver')
  return { ...scene, hub, parcel, deliver, sendAhead, next, sent, outstanding, answers, head, first }
}

describe('what is sent ahead to a hub', () => {
  test('names the delivery before it, and its answers are given once and in order', async (t) => {
    const { hub, sendAhead, next, answers, head, first, transport, endpoint } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    sendAhead(['d'], 'c')
    const frames = await next(3)
    assert.deepEqual(
      frames.map((frame) => [frame.head.delivery, frame.head.behind, frame.head.lane]),
      [
        ['b', 'a', 'all'],
        ['c', 'b', 'all'],
        ['d', 'c', 'all'],
      ],
    )
    hub.ack(first)
    for (const frame of frames.slice(0, 2)) hub.ack(frame, { ...ok, body: frame.head.delivery }, { tookMs: 7 })
    await head
    await hub.settled()
    assert.deepEqual(transport.answersBehind(endpoint, 'a'), [
      { deliveryId: 'b', report: { ...ok, body: 'b' }, tookMs: 7 },
      { deliveryId: 'c', report: { ...ok, body: 'c' }, tookMs: 7 },
    ])
    assert.deepEqual(answers('a'), [])
    assert.deepEqual(answers('c'), [])
    for (const frame of frames.slice(2)) hub.ack(frame)
    await hub.settled()
    assert.deepEqual(answers('c'), ['d'])
  })

  test('is given up to the first that has no answer, even when later ones have', async (t) => {
    const { hub, sendAhead, next, answers, first } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    const [, c] = await next(2)
    hub.ack(first)
    assert.ok(c !== undefined)
    hub.ack(c)
    await hub.settled()
    assert.deepEqual(answers('a'), [])
  })

  test('is not written again when its turn comes: its answer is waited for, or there at once', async (t) => {
    const { hub, sendAhead, next, answers, first, deliver, sent, outstanding } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    const [b, c] = await next(2)
    assert.ok(b !== undefined && c !== undefined)
    hub.ack(first)
    await hub.settled()
    const second = deliver('b')
    hub.ack(b, down)
    assert.deepEqual(await second, down)
    hub.ack(c)
    await hub.settled()
    assert.deepEqual(await deliver('c'), ok)
    assert.deepEqual(answers('b'), [], 'given once')
    assert.equal(sent(), 3)
    assert.equal(outstanding(), 0)
  })

  test('is lost with the link; only what was at its turn was a try', async (t) => {
    const { hub, sendAhead, next, head, deliver, answers, connect } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    await next(2)
    const second = deliver('b')
    hub.ws.terminate()
    for (const report of [await head, await second]) {
      assert.equal(report.kind === 'unreachable' && report.code, 'LINK_LOST')
    }
    assert.deepEqual(answers('a'), [])
    const back = await connect()
    const again = deliver('a')
    const frame = await back.next('deliver')
    assert.equal(frame.head.behind, null)
    back.ack(frame)
    assert.deepEqual(await again, ok)
  })

  test('and returned untried at its turn is sent as the head that it is now', async (t) => {
    const { hub, sendAhead, next, first, deliver } = await connected(t)
    sendAhead(['b'], 'a')
    await next(1)
    hub.ack(first, down)
    await hub.settled()
    const report = deliver('b')
    hub.say({ kind: 'returned', deliveries: ['b'] })
    const frame = await hub.next('deliver')
    assert.deepEqual([frame.head.delivery, frame.head.behind], ['b', null])
    hub.say({ kind: 'returned', deliveries: ['b'] })
    assert.equal((await report).kind, 'interrupted', 'a head that comes back is not sent in circles')
  })

  test('and returned before its turn is written anew when it comes', async (t) => {
    const { hub, sendAhead, next, first, deliver, sent, outstanding, answers } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    await next(2)
    hub.ack(first, down)
    hub.say({ kind: 'returned', deliveries: ['b', 'c'] })
    await hub.settled()
    assert.equal(outstanding(), 0)
    assert.deepEqual(answers('a'), [])
    sendAhead(['d'], 'c')
    await hub.settled()
    assert.equal(sent(), 3, 'behind what the hub does not have there is no use in sending')
    const again = deliver('a')
    const frame = await hub.next('deliver')
    assert.equal(frame.head.behind, null)
    hub.ack(frame)
    assert.deepEqual(await again, ok)
  })

  test('may follow what the hub has just ended', async (t) => {
    const { hub, sendAhead, first, head } = await connected(t)
    hub.ack(first)
    await head
    sendAhead(['b'], 'a')
    assert.equal((await hub.next('deliver')).head.behind, 'a')
  })
})

describe('what is recalled', () => {
  test('is asked back from the hub, and its answers count no more', async (t) => {
    const { hub, sendAhead, next, transport, endpoint, answers, first, outstanding } = await connected(t)
    sendAhead(['b', 'c', 'd'], 'a')
    const [b, c] = await next(3)
    assert.ok(b !== undefined && c !== undefined)
    hub.ack(first)
    hub.ack(b)
    await hub.settled()
    transport.recall(endpoint)
    assert.deepEqual(await hub.next('recall'), { kind: 'recall', endpoint: endpoint.id })
    assert.deepEqual(transport.roomAhead(endpoint), { count: 0, bytes: 0 }, 'while the hub has some of it')
    hub.ack(c)
    hub.say({ kind: 'returned', deliveries: ['d'] })
    await hub.settled()
    assert.deepEqual(answers('a'), [])
    assert.deepEqual(answers('b'), [])
    assert.equal(outstanding(), 0)
    assert.ok(transport.roomAhead(endpoint).count > 0)
  })

  test('and has its turn before the hub returned it, is written anew after that', async (t) => {
    const { hub, sendAhead, next, transport, endpoint, deliver, first, sent } = await connected(t)
    sendAhead(['b', 'c'], 'a')
    const [, c] = await next(2)
    hub.ack(first)
    await hub.settled()
    transport.recall(endpoint)
    const reports = [deliver('b'), deliver('c')]
    await hub.settled()
    assert.equal(sent(), 3)
    hub.say({ kind: 'returned', deliveries: ['b'] })
    assert.ok(c !== undefined)
    hub.ack(c, down)
    const frame = await hub.next('deliver')
    assert.deepEqual([frame.head.delivery, frame.head.behind], ['b', null])
    hub.ack(frame)
    assert.deepEqual(await Promise.all(reports), [ok, down], 'what it had begun counts')
  })

  test('costs the hub no word when there is nothing ahead', async (t) => {
    const { hub, transport, endpoint, first } = await connected(t)
    transport.recall(endpoint)
    hub.ack(first)
    await hub.settled()
    assert.equal(
      hub.heard.some(({ kind }) => kind === 'recall'),
      false,
    )
  })

  test('and replayed is another life of it', async (t) => {
    const { hub, sendAhead, next, deliver, first } = await connected(t)
    sendAhead(['b'], 'a')
    const [b] = await next(1)
    assert.ok(b !== undefined)
    hub.ack(first)
    hub.ack(b)
    await hub.settled()
    const replayed = deliver('b', { bornAt: t0 + 1 })
    const frame = await hub.next('deliver')
    assert.equal(frame.head.bornAt, t0 + 1)
    hub.ack(frame, down)
    assert.deepEqual(await replayed, down)
  })
})

describe('the room ahead', () => {
  test('leaves some of the credit to those whose turn it is', async (t) => {
    const { sendAhead, next, transport, endpoint, deliver, hub, sent } = await connected(t, {
      credit: { frames: 16, bytes: 1_000_000 },
    })
    const { count } = transport.roomAhead(endpoint)
    assert.equal(count, 13, '16 less the two for turns and the one that is there')
    sendAhead(
      Array.from({ length: 30 }, (_, index) => `n${index}`),
      'a',
    )
    await next(count)
    assert.deepEqual(transport.roomAhead(endpoint).count, 0)
    deliver('turn-1')
    deliver('turn-2')
    await next(2)
    await hub.settled()
    assert.equal(sent(), 1 + count + 2)
  })

  test('is none at all for a hub that takes one at a time', async (t) => {
    const { transport, endpoint } = await connected(t, { credit: { frames: 1, bytes: 1_000 } })
    assert.deepEqual(transport.roomAhead(endpoint).count, 0)
  })

  test('is bounded by bytes too, and ends before what is too large', async (t) => {
    const { transport, parcel, hub, sent } = await connected(t, {
      credit: { frames: 100, bytes: 8_000 },
      frameBytesMax: 5_000,
    })
    const event = (bytes: number) => ({ event: anEvent({ body: Buffer.alloc(bytes) }) })
    const parcels = [parcel('b', event(3_000)), parcel('c', event(3_000)), parcel('d', event(3_000))]
    transport.sendAhead(parcels, 'a')
    await hub.settled()
    assert.equal(sent(), 1 + 2)
    transport.sendAhead([parcel('e', event(4_900)), parcel('f')], 'c')
    await hub.settled()
    assert.equal(sent(), 1 + 2)
  })

  test('is shared among the endpoints of a hub', async (t) => {
    const { transport, endpoint, sendAhead, next } = await connected(t, { credit: { frames: 80, bytes: 1_000_000 } })
    const alone = transport.roomAhead(endpoint).count
    sendAhead(['b'], 'a')
    await next(1)
    const other = transport.roomAhead(aRelayEndpoint()).count
    assert.ok(other > 0 && other <= alone / 2 + 1, `${other} of ${alone}`)
  })

  test('is nothing where nobody is, and nothing is sent there', async (t) => {
    const { transport, endpoint } = await openScene(t)
    assert.deepEqual(transport.roomAhead(endpoint), { count: 0, bytes: 0 })
    transport.sendAhead([aParcel(endpoint)], 'a')
    assert.deepEqual(transport.answersBehind(endpoint, 'a'), [])
    transport.recall(endpoint)
  })

  test('is told of to those who asked, once there is enough of it', async (t) => {
    const { transport, endpoint, sendAhead, next, hub, first } = await connected(t, {
      credit: { frames: 16, bytes: 1_000_000 },
    })
    const { promise, resolve } = Promise.withResolvers<string>()
    const told: string[] = []
    transport.onRoom((id) => {
      told.push(id)
      resolve(id)
    })
    const { count } = transport.roomAhead(endpoint)
    sendAhead(
      Array.from({ length: count }, (_, index) => `n${index}`),
      'a',
    )
    const frames = await next(count)
    hub.ack(first)
    await hub.settled()
    assert.deepEqual(told, [], 'room for one is not worth a word')
    for (const frame of frames) hub.ack(frame)
    assert.equal(await promise, endpoint.id)
    await hub.settled()
    assert.equal(told.length, 1)
  })
})
