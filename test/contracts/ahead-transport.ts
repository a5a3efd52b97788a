import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, type TestContext, test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { laneOf } from '../../src/core/lanes.ts'
import type { Report } from '../../src/core/outcome.ts'
import type { AheadTransport } from '../../src/transports/transport.ts'
import type { Ending } from '../support/arrivals.ts'
import { anEvent } from '../support/builders.ts'
import { type AbsenceScene, aParcel, never, type OpenTransport, outcomeOf, soon } from './transport.ts'

/** The other side keeps the order of a lane: a delivery reaches it when the one before it has ended. */
export type AheadScene = AbsenceScene &
  Readonly<{
    transport: AheadTransport
    /** An endpoint whose deliveries are all in one lane. */
    aLane(): Endpoint
  }>

/** The promises of a transport that sends ahead, besides those of every transport. */
export function aheadTransportContract(name: string, open: OpenTransport<AheadScene>): void {
  describe(`${name}: the room ahead`, () => roomContract(open))
  describe(`${name}: what is sent ahead`, () => sendContract(open))
  describe(`${name}: the answers behind a delivery`, () => answersContract(open))
  describe(`${name}: what is recalled`, () => recallContract(open))
}

/** A lane whose head `a` is under way. */
async function withHead(t: TestContext, open: OpenTransport<AheadScene>) {
  const scene = await open(t)
  const { transport, next } = scene
  const lane = scene.aLane()
  const parcel = (deliveryId: string, bytes?: number) => ({
    ...aParcel(lane, deliveryId, bytes === undefined ? {} : { event: anEvent({ body: Buffer.alloc(bytes) }) }),
    lane: laneOf('endpoint', null),
  })
  const deliver = (deliveryId: string, attempt = 1): Promise<Report> =>
    transport.deliver({ ...parcel(deliveryId), attempt }, never)
  const sendAhead = (ids: readonly string[], behind: string): number =>
    transport.sendAhead(
      ids.map((id) => parcel(id)),
      behind,
    )
  /** The next that reaches the other side is this one, and ends there. */
  const ends = async (deliveryId: string, ending: Ending = 'ok'): Promise<void> => {
    const arrived = await next()
    assert.equal(arrived.deliveryId, deliveryId)
    arrived.answer(ending)
  }
  let trips = 0
  /** Both sides know what the other one did before, and of our lane nothing more has reached the other side. */
  const settled = async (): Promise<void> => {
    const deliveryId = `trip_${trips++}`
    const trip = transport.deliver(aParcel(scene.anEndpoint(), deliveryId), never)
    await ends(deliveryId)
    await trip
  }
  const answersBehind = (deliveryId: string): readonly string[] =>
    transport.answersBehind(lane, deliveryId).map((answer) => `${answer.deliveryId} ${outcomeOf(answer.report)}`)
  const head = deliver('a')
  const first = await next()
  return { ...scene, lane, parcel, deliver, sendAhead, ends, settled, answersBehind, head, first }
}

function roomContract(open: OpenTransport<AheadScene>): void {
  test('is less by what was sent ahead, until its answers are given', async (t) => {
    const { transport, lane, parcel, first, ends, settled, answersBehind } = await withHead(t, open)
    const before = transport.roomAhead(lane)
    assert.equal(transport.sendAhead([parcel('b', 100), parcel('c', 20)], 'a'), 2)
    const after = transport.roomAhead(lane)
    assert.deepEqual([before.count - after.count, before.bytes - after.bytes], [2, 120])
    first.answer('ok')
    await ends('b')
    await ends('c')
    await settled()
    answersBehind('a')
    const emptied = transport.roomAhead(lane)
    assert.ok(emptied.count >= before.count && emptied.bytes >= before.bytes)
  })

  test('is told of to those who asked for it', async (t) => {
    const { transport, lane, sendAhead, first } = await withHead(t, open)
    const { promise: told, resolve } = Promise.withResolvers<string>()
    transport.onRoom(resolve)
    transport.roomAhead(lane)
    sendAhead(['b'], 'a')
    assert.equal(await soon(told), 'not yet')
    first.answer('ok')
    assert.equal(await told, lane.id)
  })

  test('is none where nobody is', async (t) => {
    const { transport, lane, leave, sendAhead } = await withHead(t, open)
    await leave(lane)
    assert.deepEqual(transport.roomAhead(lane), { count: 0, bytes: 0 })
    assert.equal(sendAhead(['b'], 'a'), 0)
  })
}

function sendContract(open: OpenTransport<AheadScene>): void {
  test('is in its order, each after the end of the one before it', async (t) => {
    const { sendAhead, first, ends, settled } = await withHead(t, open)
    assert.equal(sendAhead(['b', 'c'], 'a'), 2)
    assert.equal(sendAhead(['d'], 'c'), 1)
    await settled()
    first.answer('ok')
    await ends('b')
    await ends('c')
    await ends('d')
    await settled()
  })

  test('is as many as there is room for', async (t) => {
    const { transport, lane, sendAhead, first, ends, settled, deliver } = await withHead(t, open)
    const { count } = transport.roomAhead(lane)
    const ids = Array.from({ length: count + 5 }, (_, n) => `n${n}`)
    assert.equal(sendAhead(ids, 'a'), count)
    assert.equal(transport.roomAhead(lane).count, 0)
    assert.equal(sendAhead(ids.slice(count), `n${count - 1}`), 0)
    first.answer('ok')
    for (const id of ids.slice(0, count)) await ends(id)
    await settled()
    const rest = deliver(`n${count}`)
    await ends(`n${count}`)
    assert.equal(outcomeOf(await rest), 'delivered')
  })

  test('ends before the first that is too large for the room', async (t) => {
    const { transport, lane, parcel, first, ends, settled } = await withHead(t, open)
    const { bytes } = transport.roomAhead(lane)
    assert.equal(transport.sendAhead([parcel('b'), parcel('c', bytes), parcel('d')], 'a'), 1)
    first.answer('ok')
    await ends('b')
    await settled()
  })

  test('is nothing behind what was not sent, and nothing that was sent before', async (t) => {
    const { sendAhead, first, ends, settled } = await withHead(t, open)
    assert.equal(sendAhead(['c'], 'b'), 0)
    assert.equal(sendAhead(['b'], 'a'), 1)
    assert.equal(sendAhead(['c', 'b'], 'b'), 1)
    first.answer('ok')
    await ends('b')
    await ends('c')
    await settled()
  })

  test('may be behind what has just ended', async (t) => {
    const { sendAhead, first, head, ends, settled, answersBehind } = await withHead(t, open)
    first.answer('ok')
    await head
    assert.equal(sendAhead(['b'], 'a'), 1)
    await ends('b')
    await settled()
    assert.deepEqual(answersBehind('a'), ['b delivered'])
  })

  test('is the try that its turn asks for, whether it was answered before or not', async (t) => {
    const { sendAhead, first, ends, settled, deliver, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c'], 'a')
    const b = deliver('b')
    first.answer('ok')
    await ends('b')
    assert.equal(outcomeOf(await b), 'delivered')
    await ends('c')
    await settled()
    const c = await soon(deliver('c'))
    assert.equal(c === 'not yet' ? c : outcomeOf(c), 'delivered')
    await settled()
    assert.deepEqual([answersBehind('a'), answersBehind('b')], [[], []])
  })

  test('does not run behind one that failed, and comes in its turn', async (t) => {
    const { sendAhead, first, ends, settled, deliver, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c', 'd'], 'a')
    first.answer('ok')
    await ends('b', 'fail')
    await settled()
    assert.deepEqual(answersBehind('a'), ['b unavailable'])
    assert.deepEqual(answersBehind('b'), [])
    for (const [deliveryId, attempt] of [['b', 2] as const, ['c', 1] as const]) {
      const turn = deliver(deliveryId, attempt)
      await ends(deliveryId)
      assert.equal(outcomeOf(await turn), 'delivered')
    }
    await settled()
  })

  test('is void when nobody is there any more; only the head was a try', async (t) => {
    const { transport, lane, sendAhead, first, head, leave, come, ends, settled, deliver, answersBehind } =
      await withHead(t, open)
    sendAhead(['b', 'c'], 'a')
    await leave(lane)
    assert.equal(outcomeOf(await head), 'unavailable')
    await come(lane)
    assert.deepEqual(answersBehind('a'), [])
    assert.ok(transport.roomAhead(lane).count > 0)
    assert.equal(sendAhead(['b'], 'a'), 0)
    await settled()
    const again = deliver('a', 2)
    first.answer('ok')
    assert.equal(outcomeOf(await again), 'delivered')
    const turn = deliver('b')
    await ends('b')
    assert.equal(outcomeOf(await turn), 'delivered')
    await settled()
  })
}

function answersContract(open: OpenTransport<AheadScene>): void {
  test('come in order, up to the first without one, and once', async (t) => {
    const { transport, lane, sendAhead, first, head, next, ends, settled, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c', 'd'], 'a')
    assert.deepEqual(answersBehind('a'), [])
    first.answer('ok')
    await head
    await ends('b')
    await ends('c')
    const d = await next()
    await settled()
    assert.deepEqual(answersBehind('b'), ['c delivered'], 'those right behind this one')
    const [b, ...others] = transport.answersBehind(lane, 'a')
    assert.ok(b !== undefined)
    assert.deepEqual([b.deliveryId, outcomeOf(b.report), others], ['b', 'delivered', []])
    assert.ok(b.tookMs >= 0)
    assert.deepEqual([answersBehind('a'), answersBehind('b'), answersBehind('c')], [[], [], []])
    d.answer('ok')
    await settled()
    assert.deepEqual(answersBehind('c'), ['d delivered'])
  })

  test('are those of several at once', async (t) => {
    const { sendAhead, first, ends, settled, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c', 'd'], 'a')
    first.answer('ok')
    await ends('b')
    await ends('c')
    await ends('d', 'fail')
    await settled()
    assert.deepEqual(answersBehind('a'), ['b delivered', 'c delivered', 'd unavailable'])
    assert.deepEqual(answersBehind('a'), [])
  })
}

function recallContract(open: OpenTransport<AheadScene>): void {
  test('does not run before its turn, and runs then', async (t) => {
    const { transport, lane, sendAhead, first, head, ends, settled, deliver, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c'], 'a')
    transport.recall(lane)
    first.answer('ok')
    assert.equal(outcomeOf(await head), 'delivered')
    await settled()
    assert.deepEqual(answersBehind('a'), [])
    for (const deliveryId of ['b', 'c']) {
      const turn = deliver(deliveryId)
      await ends(deliveryId)
      assert.equal(outcomeOf(await turn), 'delivered')
    }
  })

  test('has no answers any more, though they had come', async (t) => {
    const { transport, lane, sendAhead, first, ends, settled, deliver, answersBehind } = await withHead(t, open)
    sendAhead(['b'], 'a')
    first.answer('ok')
    await ends('b')
    await settled()
    transport.recall(lane)
    assert.deepEqual(answersBehind('a'), [])
    const turn = await deliver('b')
    assert.equal(outcomeOf(turn), 'delivered', 'what had ended there is not run again')
    await settled()
  })

  test('and is under way ends there: its turn has that answer', async (t) => {
    const { transport, lane, sendAhead, first, next, ends, settled, deliver, answersBehind } = await withHead(t, open)
    sendAhead(['b', 'c'], 'a')
    first.answer('ok')
    const b = await next()
    transport.recall(lane)
    const turn = deliver('b')
    await settled()
    b.answer('ok')
    assert.equal(outcomeOf(await turn), 'delivered')
    await settled()
    assert.deepEqual([answersBehind('a'), answersBehind('b')], [[], []])
    const follower = deliver('c')
    await ends('c')
    assert.equal(outcomeOf(await follower), 'delivered')
  })

  test('takes room until the other side has let go of it', async (t) => {
    const { transport, lane, sendAhead, first, next, settled } = await withHead(t, open)
    sendAhead(['b', 'c'], 'a')
    first.answer('ok')
    const b = await next()
    transport.recall(lane)
    await settled()
    assert.deepEqual(transport.roomAhead(lane), { count: 0, bytes: 0 })
    const { promise: told, resolve } = Promise.withResolvers<string>()
    transport.onRoom(resolve)
    b.answer('ok')
    assert.equal(await told, lane.id)
    assert.ok(transport.roomAhead(lane).count > 0)
  })

  test('is no longer there to send something behind it', async (t) => {
    const { transport, lane, sendAhead, first, ends, settled } = await withHead(t, open)
    sendAhead(['b'], 'a')
    transport.recall(lane)
    await settled()
    assert.equal(sendAhead(['c'], 'b'), 0)
    assert.equal(sendAhead(['b'], 'a'), 1)
    first.answer('ok')
    await ends('b')
    await settled()
  })

  test('is nothing of another lane', async (t) => {
    const { transport, aLane, sendAhead, first, ends, settled, answersBehind } = await withHead(t, open)
    sendAhead(['b'], 'a')
    transport.recall(aLane())
    first.answer('ok')
    await ends('b')
    await settled()
    assert.deepEqual(answersBehind('a'), ['b delivered'])
  })
}
