import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import type { EdgeLink } from '../support/scripted-edge.ts'
import { queueOf } from '../support/scripted-edge.ts'
import type { Answer, ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { HubScene, routeTo } from './hub-scene.ts'

type Stage = Readonly<{
  edge: { link(): Promise<EdgeLink> }
  link: EdgeLink
  target: ScriptedEndpoint
  /** Answers the one request that is under way at the target. */
  answer(answer: Answer): Promise<void>
}>

/** A hub with a target that answers only when it is told to. */
async function open(t: TestContext): Promise<Stage> {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const asked = queueOf<(answer: Answer) => void>()
  const target = await scene.target(() => new Promise((resolve) => asked.push(resolve)))
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  return { edge, link, target, answer: async (answer) => (await asked.take())(answer) }
}

function send(link: EdgeLink, delivery: string, behind: string | null, more: object = {}): void {
  link.deliver({ delivery, behind, lane: '', ...more })
}

/** All that was sent before has been read by then, and its answers have been sent. */
async function roundTrip(link: EdgeLink): Promise<void> {
  link.ws.ping()
  await once(link.ws, 'pong')
}

const names = (target: ScriptedEndpoint) => target.received.map(({ headers }) => headers['posthorn-delivery'])
const acked = (link: EdgeLink) => link.said.flatMap((one) => (one.kind === 'ack' ? [one.delivery] : []))
const returned = (link: EdgeLink) => link.said.flatMap((one) => (one.kind === 'returned' ? one.deliveries : []))

test('begins the next of a lane only when the one before has ended, delivered or permanent', async (t) => {
  const { link, target, answer } = await open(t)
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'c', 'b')
  await roundTrip(link)
  await target.next()
  assert.deepEqual(names(target), ['a'])
  await answer({ status: 200 })
  await link.ack()
  await answer({ status: 410 })
  await link.ack()
  assert.deepEqual(names(target).slice(0, 2), ['a', 'b'])
  await answer({})
  await link.ack()
  assert.deepEqual([names(target), acked(link), returned(link)], [['a', 'b', 'c'], ['a', 'b', 'c'], []])
})

test('begins what is behind one that ended before it came', async (t) => {
  const { link, answer } = await open(t)
  send(link, 'a', null)
  await answer({})
  await link.ack()
  send(link, 'b', 'a')
  await answer({})
  assert.equal((await link.ack()).delivery, 'b')
})

test('returns all that is behind one that did not end, at once and as it comes in, until one comes that is behind none', async (t) => {
  const { link, target, answer } = await open(t)
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'c', 'b')
  await answer({ status: 503 })
  assert.equal((await link.ack()).delivery, 'a')
  assert.deepEqual((await link.next('returned')).deliveries, ['b', 'c'])
  send(link, 'd', 'c')
  send(link, 'e', 'd')
  assert.deepEqual((await link.next('returned')).deliveries, ['d'])
  assert.deepEqual((await link.next('returned')).deliveries, ['e'])
  send(link, 'a', null, { attempt: 2 })
  send(link, 'b', 'a')
  await answer({})
  await link.ack()
  await answer({})
  await link.ack()
  assert.deepEqual(names(target), ['a', 'a', 'b'])
})

test('does not take an end of an earlier life for the end of the one before', async (t) => {
  const { link, target, answer } = await open(t)
  send(link, 'a', null)
  await answer({})
  await link.ack()
  send(link, 'a', null, { bornAt: 2 })
  send(link, 'b', 'a')
  await answer({ status: 500 })
  await link.ack()
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  send(link, 'b', 'a')
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  assert.deepEqual(names(target), ['a', 'a'])
})

test('returns what is behind one that it does not know', async (t) => {
  const { link, target } = await open(t)
  send(link, 'b', 'a')
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  assert.equal(target.connections(), 0)
})

test('keeps lanes and endpoints apart', async (t) => {
  const { link, target, answer } = await open(t)
  link.describe({ endpoint: 'ep_2' })
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'x', null, { lane: 'other' })
  send(link, 'y', null, { endpoint: 'ep_2' })
  for (const _ of ['a', 'x', 'y']) await target.next()
  assert.deepEqual(new Set(names(target)), new Set(['a', 'x', 'y']))
  for (const _ of ['a', 'x', 'y', 'b']) await answer({})
  for (const _ of ['a', 'x', 'y', 'b']) await link.ack()
})

test('gives back on recall what has not begun, in a lane or in none, and goes on from what has', async (t) => {
  const { link, target, answer } = await open(t)
  link.describe({ endpoint: 'ep_2' })
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'c', 'b')
  send(link, 'x', null, { endpoint: 'ep_2' })
  send(link, 'y', 'x', { endpoint: 'ep_2' })
  link.send({ kind: 'recall', endpoint: 'ep_1' })
  assert.deepEqual((await link.next('returned')).deliveries, ['b', 'c'])
  send(link, 'd', 'a')
  for (const _ of ['a', 'x', 'd', 'y']) await answer({})
  for (const _ of ['a', 'x', 'd', 'y']) await link.ack()
  assert.deepEqual(returned(link), ['b', 'c'])
  assert.ok(!names(target).includes('b'))
})

test('has room for what has no lane again after a recall', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const gate = Promise.withResolvers<void>()
  const target = await scene.target(() => gate.promise.then(() => ({})))
  await scene.hub({ edge: edge.url, routes: routeTo(target), concurrency: 1 })
  const link = await edge.link()
  link.describe()
  for (const delivery of ['a', 'b', 'c']) link.deliver({ delivery })
  await target.next()
  link.send({ kind: 'recall', endpoint: 'ep_1' })
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  assert.deepEqual((await link.next('returned')).deliveries, ['c'])
  gate.resolve()
  await link.ack()
  link.deliver({ delivery: 'b' })
  assert.equal((await link.ack()).delivery, 'b')
})

test('starts a lane anew with one that is behind none, and gives back what still waited there', async (t) => {
  const { link, target, answer } = await open(t)
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'c', 'b')
  send(link, 'c', null)
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  send(link, 'd', 'c')
  // Whatever came of the one under way: the edge has on disk that it has ended.
  await answer({ status: 503 })
  await answer({})
  await answer({})
  for (const _ of ['a', 'c', 'd']) await link.ack()
  assert.deepEqual(names(target), ['a', 'c', 'd'])
})

test('does not queue twice what comes twice', async (t) => {
  const { link, target, answer } = await open(t)
  send(link, 'a', null)
  send(link, 'b', 'a')
  send(link, 'b', 'a')
  send(link, 'a', null)
  send(link, 'c', 'b')
  for (const _ of ['a', 'b', 'c']) await answer({})
  for (const _ of ['a', 'b', 'c']) await link.ack()
  await roundTrip(link)
  assert.deepEqual([names(target), acked(link), returned(link)], [['a', 'b', 'c'], ['a', 'b', 'c'], []])
})

test('forgets with the link what has not begun, finishes what has, and keeps the lane closed until then', async (t) => {
  const { edge, link, target, answer } = await open(t)
  send(link, 'a', null)
  send(link, 'b', 'a')
  await target.next()
  link.ws.terminate()
  const second = await edge.link()
  second.describe()
  // The edge has given up on a, and b is the first now.
  send(second, 'b', null)
  await roundTrip(second)
  assert.deepEqual(names(target), ['a'])
  await answer({})
  await answer({})
  assert.equal((await second.ack()).delivery, 'b')
  assert.deepEqual([names(target), acked(second)], [['a', 'b'], ['b']])
  send(second, 'a', null)
  assert.deepEqual([(await second.ack()).remembered, names(target)], [true, ['a', 'b']])
})

test('goes through a lane that it has done already without a word to the target', async (t) => {
  const { edge, link, target, answer } = await open(t)
  const chain = Array.from({ length: 50 }, (_, n) => `d${n}`)
  const sendAll = (to: EdgeLink): void => {
    for (const [n, name] of chain.entries()) send(to, name, chain[n - 1] ?? null)
  }
  sendAll(link)
  for (const _ of chain) await answer({})
  for (const _ of chain) await link.ack()
  link.ws.terminate()
  const second = await edge.link()
  second.describe()
  sendAll(second)
  for (const name of chain) {
    const { delivery, remembered } = await second.ack()
    assert.deepEqual([delivery, remembered], [name, true])
  }
  assert.equal(target.received.length, chain.length)
})
