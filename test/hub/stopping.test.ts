import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { closeCodes } from '../../src/transports/relay/protocol.ts'
import { HubScene, routeTo } from './hub-scene.ts'

test('says that it goes, returns what has not begun, answers what has, and closes', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const gate = Promise.withResolvers<void>()
  const target = await scene.target(() => gate.promise.then(() => ({})))
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target), timing: { graceMs: 10_000 } })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'a', lane: '' })
  link.deliver({ delivery: 'b', lane: '', behind: 'a' })
  await target.next()
  const stopped = hub.stop()
  await link.next('drain')
  assert.deepEqual((await link.next('returned')).deliveries, ['b'])
  link.deliver({ delivery: 'c' })
  assert.deepEqual((await link.next('returned')).deliveries, ['c'])
  gate.resolve()
  assert.equal((await link.ack()).delivery, 'a')
  assert.equal((await link.closed).code, closeCodes.goingAway)
  await stopped
  await hub.stop()
  assert.deepEqual([await hub.ended, edge.visits(), target.received.length], [{ kind: 'stopped' }, 1, 1])
})

test('leaves a target that does not answer when its time is over, without an answer of its own', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target(['hang'])
  const memoryFile = await scene.newFile()
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target), memoryFile, timing: { graceMs: 20 } })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'a' })
  await target.next()
  await hub.stop()
  await link.closed
  assert.deepEqual(
    link.said.map(({ kind }) => kind),
    ['drain'],
  )
  // It was no end: the next one tries it.
  target.answer([{}])
  await scene.hub({ edge: edge.url, routes: routeTo(target), memoryFile })
  const again = await edge.link()
  again.describe()
  again.deliver({ delivery: 'a' })
  assert.equal((await again.ack()).remembered, undefined)
})

test('stops while it waits to come back, while it connects, before it was started, and without an edge that answers', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  edge.refuse(503)
  const waiting = await scene.hub({ edge: edge.url, timing: { backoffMsMin: 600_000, backoffMsMax: 600_000 } })
  await waiting.event('disconnected')
  await waiting.stop()
  edge.refuse(null)
  const connecting = await scene.hub({ edge: edge.url })
  await connecting.stop()
  const fresh = await scene.openHub({ edge: edge.url })
  await fresh.stop()
  fresh.start()
  const deaf = await scene.hub({ edge: edge.url })
  let link = await edge.link()
  await deaf.event('connected')
  while (link.ws.readyState !== link.ws.OPEN) link = await edge.link()
  link.socket.pause()
  await deaf.stop()
  for (const hub of [waiting, connecting, fresh, deaf]) assert.deepEqual(await hub.ended, { kind: 'stopped' })
})

test('writes down what ended after the link was lost and the hub was told to stop', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const gate = Promise.withResolvers<void>()
  const target = await scene.target(() => gate.promise.then(() => ({})))
  const memoryFile = await scene.newFile()
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target), memoryFile, timing: { graceMs: 10_000 } })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'a' })
  await target.next()
  const stopped = hub.stop()
  await link.next('drain')
  link.ws.terminate()
  gate.resolve()
  await stopped
  await scene.hub({ edge: edge.url, routes: routeTo(target), memoryFile })
  const again = await edge.link()
  again.describe()
  again.deliver({ delivery: 'a' })
  assert.deepEqual([(await again.ack()).remembered, target.received.length], [true, 1])
})

test('lets go at once of what it was doing when another hub has taken its place', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target(['hang'])
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target), timing: { graceMs: 600_000 } })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'a' })
  await target.next()
  link.ws.close(closeCodes.replaced)
  assert.equal((await hub.ended).kind, 'replaced')
})

test('goes on working for an edge that drains, and comes back when it has gone', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const gate = Promise.withResolvers<void>()
  const target = await scene.target(() => gate.promise.then(() => ({})))
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'a' })
  await target.next()
  link.send({ kind: 'drain' })
  link.ws.ping()
  await once(link.ws, 'pong')
  gate.resolve()
  assert.equal((await link.ack()).delivery, 'a')
  link.ws.close(closeCodes.restarting)
  await edge.link()
})

test('a listener that throws does not end it', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  const onEvent = (): never => {
    throw new Error('a defect of who watches')
  }
  await scene.hub({ edge: edge.url, routes: routeTo(target), onEvent })
  const link = await edge.link()
  link.describe()
  for (const delivery of ['a', 'b']) {
    link.deliver({ delivery })
    assert.equal((await link.ack()).delivery, delivery)
  }
})
