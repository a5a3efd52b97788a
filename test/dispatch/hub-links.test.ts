import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { Relay, RelayLink } from '../../src/core/relay.ts'
import { HubLinks } from '../../src/dispatch/hub-links.ts'
import { openLog } from '../../src/log.ts'
import type { OwnLinks } from '../../src/transports/relay-gate.ts'
import { PostgresScene } from '../store/postgres-scene.ts'
import { aRelayEndpoint, t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'
import { noPostgres } from '../support/postgres.ts'
import { WatchedStore } from '../support/watched-store.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const lease = { leaseMs: 60_000, beatEveryMs: 2_000 }
const beatsPerRenewal = 5
const home: Relay = { id: 'rly_1', name: 'home', tenant: 'default', hash: 'x', createdAt: t0 }

const facts: RelayLink = {
  ...{ connectedAt: t0, software: 'posthorn/1.2.0', protocol: 1, routes: ['github'] },
  ...{ roundTripMs: null, lastAckAt: null, outstanding: 0 },
}

const log = openLog({ level: 'silent', format: 'json' })

/** One of the members, whose hubs are played. */
async function aMember(scene: PostgresScene) {
  const watched = new WatchedStore(await scene.store({ lease }))
  const { store } = watched
  const { id } = await store.join()
  const links = new Map<string, RelayLink>()
  const evicted: string[] = []
  const own: OwnLinks = {
    admit: () => assert.fail('nobody knocks'),
    linkOf: (relayId) => links.get(relayId) ?? null,
    evict(relayId, session) {
      evicted.push(session)
      links.delete(relayId)
      hubs.disconnected(relayId)
    },
  }
  const named = (_tenant: string, name: string) => (name === home.name ? home : null)
  const hubs = new HubLinks({ store, own, named, member: () => id, log })
  const moved: string[] = []
  hubs.onOtherHub((relayId) => moved.push(relayId))
  return {
    ...{ id, hubs, store, watched, evicted, moved, links },
    come(session = 'one', given: Partial<RelayLink> = {}): void {
      links.set(home.id, { ...facts, ...given })
      hubs.connected(home.id, session)
    },
    leave(): void {
      links.delete(home.id)
      hubs.disconnected(home.id)
    },
    /** As a hint or a beat brings it about. */
    hears: () => hubs.onLinks(),
    /** Until the store has just this. */
    stored: (...sessions: readonly string[]) =>
      eventually(`the store has ${sessions}`, async () => {
        const listed = (await store.listLinks()).map(({ session }) => session)
        return JSON.stringify(listed) === JSON.stringify(sessions) ? true : null
      }),
  }
}

async function twoMembers(t: TestContext) {
  const scene = await PostgresScene.open(t)
  return [await aMember(scene), await aMember(scene)] as const
}

describe('hubs of several members', limits, () => {
  it('are known to all of them, with where they are', async (t) => {
    const [a, b] = await twoMembers(t)
    const endpoint = aRelayEndpoint({ relay: home.name, route: 'github', tenant: home.tenant })
    a.come()
    await a.stored('one')
    await b.hears()
    assert.deepEqual(b.hubs.linkOf(home.id), { ...facts, member: a.id, isHere: false })
    assert.deepEqual(a.hubs.linkOf(home.id), { ...facts, member: a.id, isHere: true })
    assert.deepEqual([b.hubs.ownLinkOf(home.id), b.moved], [null, [home.id]])
    assert.deepEqual(
      [endpoint, { ...endpoint, route: 'other' }, { ...endpoint, relay: 'office' }].map((one) => b.hubs.serves(one)),
      [true, false, false],
    )
    assert.equal(a.hubs.serves(endpoint), false, 'here is not elsewhere')
    await b.hears()
    assert.equal(b.moved.length, 1, 'nothing has changed')
    a.leave()
    await a.stored()
    await b.hears()
    assert.deepEqual([b.hubs.linkOf(home.id), b.moved.length], [null, 2])
  })

  it('leave the older one when they have reached another, which is told by which session', async (t) => {
    const [a, b] = await twoMembers(t)
    a.come('one')
    await a.stored('one')
    b.come('two')
    await b.stored('two')
    await b.hears()
    assert.deepEqual(b.evicted, [])
    await a.hears()
    assert.deepEqual(a.evicted, ['two'])
    assert.equal(a.hubs.linkOf(home.id)?.member, b.id)
    await a.hears()
    assert.deepEqual(a.evicted, ['two'], 'once')
    await b.stored('two')
  })

  it('leave the older one by the right session if that hears of it by a renewal', async (t) => {
    const [a, b] = await twoMembers(t)
    a.come('one')
    await a.stored('one')
    b.come('two')
    await b.stored('two')
    a.links.set(home.id, { ...facts, outstanding: 1 })
    for (let beats = 0; beats < beatsPerRenewal; beats++) a.hubs.onBeat()
    await eventually('a lets go of it', async () => (a.evicted.length > 0 ? true : null))
    assert.deepEqual(a.evicted, ['two'])
  })

  it('leave one that hears of it only when they have gone from the other too', async (t) => {
    const [a, b] = await twoMembers(t)
    a.come()
    await a.stored('one')
    b.come()
    await eventually('b has it', async () => ((await b.store.listLinks())[0]?.member === b.id ? true : null))
    b.leave()
    await b.stored()
    a.links.set(home.id, { ...facts, outstanding: 1 })
    for (let beats = 0; beats < beatsPerRenewal; beats++) a.hubs.onBeat()
    await eventually('a lets go of it', async () => (a.evicted.length > 0 ? true : null))
    assert.deepEqual(a.evicted, ['one'], 'as if the same had come')
  })

  it('are told to the store as soon as it answers again, and a link that is over by then is not', async (t) => {
    const [a, b] = await twoMembers(t)
    a.watched.refuse('putLinks', 'dropLinks')
    a.come()
    await eventually('it was refused', async () => (a.watched.calls('putLinks') > 0 ? true : null))
    assert.deepEqual(await b.store.listLinks(), [])
    assert.equal(a.hubs.linkOf(home.id)?.isHere, true, 'it goes on here')
    a.watched.mend()
    a.hubs.onBeat()
    await a.stored('one')
    a.watched.refuse('dropLinks')
    a.leave()
    await eventually('it was refused', async () => (a.watched.calls('dropLinks') > 0 ? true : null))
    a.watched.mend()
    a.hubs.onBeat()
    await a.stored()
  })

  it('that come and go while the store is told of them are not kept', async (t) => {
    const [a] = await twoMembers(t)
    const release = a.watched.hold('putLinks')
    a.come('one')
    a.leave()
    a.come('two')
    a.leave()
    release()
    await eventually('what was put is dropped', async () => (a.watched.calls('dropLinks') > 0 ? true : null))
    await a.stored()
  })

  it('are not taken for older ones by an answer that was read before they came', async (t) => {
    const [a, b] = await twoMembers(t)
    b.come('old')
    await b.stored('old')
    const before = await a.store.listLinks()
    a.come('new')
    await a.stored('new')
    a.watched.onAnswer = (name, answer) => (name === 'listLinks' ? before : answer)
    await a.hears()
    assert.deepEqual([a.evicted, a.hubs.linkOf(home.id)?.isHere], [[], true])
    a.leave()
    assert.equal(a.hubs.linkOf(home.id), null)
  })

  it('are not where they were before they came here', async (t) => {
    const [a, b] = await twoMembers(t)
    b.come()
    await b.stored('one')
    await a.hears()
    a.come('two')
    await a.stored('two')
    assert.equal(a.hubs.linkOf(home.id)?.isHere, true)
    a.leave()
    assert.equal(a.hubs.linkOf(home.id), null)
  })

  it('are where the newest answer says, in whatever order answers come', async (t) => {
    const [a, b] = await twoMembers(t)
    const [read, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    a.watched.onAnswer = (_name, answer) => {
      read.resolve()
      return late.promise.then(() => answer)
    }
    const first = a.hubs.poll()
    await read.promise
    a.watched.onAnswer = (_name, answer) => answer
    b.come()
    await b.stored('one')
    await a.hubs.poll()
    late.resolve()
    await first
    assert.equal(a.hubs.linkOf(home.id)?.member, b.id)
  })

  it('have facts that change while they are connected: others know them after some beats', async (t) => {
    const [a, b] = await twoMembers(t)
    a.come()
    await a.stored('one')
    const puts = a.watched.calls('putLinks')
    for (let beats = 0; beats < beatsPerRenewal; beats++) a.hubs.onBeat()
    assert.equal(a.watched.calls('putLinks'), puts, 'nothing has changed')
    a.links.set(home.id, { ...facts, roundTripMs: 7 })
    for (let beats = 0; beats < beatsPerRenewal; beats++) a.hubs.onBeat()
    await eventually('b knows', async () => {
      await b.hubs.poll()
      return b.hubs.linkOf(home.id)?.roundTripMs === 7 ? true : null
    })
    assert.deepEqual([b.moved, a.evicted], [[home.id], []])
  })
})
