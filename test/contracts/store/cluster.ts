import assert from 'node:assert/strict'
import type { RelayLink } from '../../../src/core/relay.ts'
import type { LinkPut } from '../../../src/store/cluster-store.ts'
import { anArrival, t0 } from '../../support/builders.ts'
import { claimDue, type Promised, withEndpoint } from './promises.ts'

/** What a single member can rely on; several are tested where a store has several. */
export function clusterContract(promise: Promised): void {
  promise('a member is told the store’s time, which does not go back', async (store) => {
    const { now } = await store.join()
    assert.ok(Number.isSafeInteger(now) && now > Date.UTC(2024, 0, 1))
    assert.ok((await store.beat()).now >= now)
  })

  promise('the only member leads, and is not lost', async (store) => {
    const { id } = await store.join()
    const { members, leader, isLost } = await store.beat()
    assert.deepEqual({ members, leader, isLost }, { members: [id], leader: id, isLost: false })
  })

  promise('a lease is longer than the time between two beats', async (store) => {
    const { lease } = await store.join()
    if (lease !== null) assert.ok(lease.leaseMs >= 3 * lease.beatEveryMs)
  })

  promise('a hint does not come back to the member that gave it', async (store) => {
    const heard: string[] = []
    await store.join()
    store.onHint(({ endpointIds }) => heard.push(...endpointIds))
    store.hint('due', ['ep_1'])
    await store.beat()
    assert.deepEqual(heard, [])
  })

  promise('members are listed with what is known of them, and the handlers of their last beat', async (store) => {
    const { id, now } = await store.join()
    await store.beat({ handlers: ['ep_1', 'ep_2'], isWorking: true })
    const { handlersElsewhere } = await store.beat({ handlers: ['ep_1'], isWorking: true })
    assert.deepEqual(handlersElsewhere, [])
    const [member, ...others] = await store.listMembers()
    assert.deepEqual(others, [])
    const { host, version, since, beatMs, ...facts } = member!
    assert.deepEqual(facts, { id, pid: process.pid, isLeader: true, handlers: ['ep_1'] })
    assert.ok(host.length > 0 && /^\d+\.\d+/.test(version) && Math.abs(since - now) < 60_000)
    assert.ok(beatMs === null || beatMs >= 0)
  })

  promise('a hint of changed conditions does not come back to the member that gave it', async (store) => {
    const heard: string[] = []
    await store.join()
    store.onHint(({ conditionsOf }) => heard.push(...conditionsOf))
    store.hint('condition', ['ep_1'])
    await store.beat()
    assert.deepEqual(heard, [])
  })

  promise('a member may leave twice, and the store works on', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.join()
    await store.append([anArrival(endpoint)])
    await store.leave()
    await store.leave()
    await store.join()
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
  })
}

const facts: RelayLink = {
  ...{ connectedAt: t0, software: 'posthorn/1.2.0', protocol: 1, routes: ['github', 'shop'] },
  ...{ roundTripMs: null, lastAckAt: null, outstanding: 0 },
}

/** One that is new. */
const aLink = (relayId: string, session = 'one'): LinkPut => ({ relayId, session, epoch: null, facts })

/** Which member each hub is connected to. */
export function linkContract(promise: Promised): void {
  promise('a link is listed with its member and its facts until it is dropped', async (store) => {
    const { id: member } = await store.join()
    const [epoch] = await store.putLinks([aLink('rly_1')])
    assert.ok(typeof epoch === 'number')
    assert.deepEqual(await store.listLinks(), [{ relayId: 'rly_1', member, session: 'one', epoch, facts }])
    await store.dropLinks([{ relayId: 'rly_1', epoch }])
    assert.deepEqual(await store.listLinks(), [])
  })

  promise('the newest link of a relay takes the place of the one before, and has a larger epoch', async (store) => {
    await store.join()
    const [first] = await store.putLinks([aLink('rly_1')])
    const [second] = await store.putLinks([aLink('rly_1', 'two')])
    assert.ok((second ?? 0) > (first ?? Number.NaN))
    const [link, ...others] = await store.listLinks()
    assert.deepEqual([link?.session, link?.epoch, others], ['two', second, []])
  })

  promise('many links are put at once, and answered in their order', async (store) => {
    await store.join()
    const [kept] = await store.putLinks([aLink('rly_2')])
    const put = ['rly_3', 'rly_1', 'rly_2'].map((relayId) => aLink(relayId))
    const epochs = await store.putLinks(
      put.map((link) => (link.relayId === 'rly_2' ? { ...link, epoch: kept! } : link)),
    )
    assert.equal(epochs[2], kept)
    const listed = new Map((await store.listLinks()).map(({ relayId, epoch }) => [relayId, epoch]))
    assert.deepEqual([listed.get('rly_3'), listed.get('rly_1'), listed.get('rly_2')], epochs)
  })

  promise('the facts of a link can be renewed, which moves nothing', async (store) => {
    await store.join()
    const [epoch = null] = await store.putLinks([aLink('rly_1')])
    const { linksVersion } = await store.beat()
    const renewed = { ...facts, roundTripMs: 12, outstanding: 3 }
    assert.deepEqual(await store.putLinks([{ ...aLink('rly_1'), epoch, facts: renewed }]), [epoch])
    assert.deepEqual((await store.listLinks())[0]?.facts, renewed)
    assert.equal((await store.beat()).linksVersion, linksVersion)
  })

  promise('a link whose place was taken changes nothing any more, and is told so', async (store) => {
    await store.join()
    const [old = null] = await store.putLinks([aLink('rly_1')])
    const [taken] = await store.putLinks([aLink('rly_1', 'two')])
    assert.deepEqual(await store.putLinks([{ ...aLink('rly_1'), epoch: old }]), [null])
    await store.dropLinks([{ relayId: 'rly_1', epoch: old! }])
    assert.deepEqual(
      (await store.listLinks()).map(({ session, epoch }) => [session, epoch]),
      [['two', taken]],
    )
    await store.dropLinks([{ relayId: 'rly_1', epoch: taken! }])
    assert.deepEqual(await store.putLinks([{ ...aLink('rly_1'), epoch: taken! }]), [null])
  })

  promise('whoever beats hears that a hub has come or gone', async (store) => {
    await store.join()
    const versions = [(await store.beat()).linksVersion]
    const [epoch] = await store.putLinks([aLink('rly_1')])
    versions.push((await store.beat()).linksVersion)
    await store.dropLinks([{ relayId: 'rly_1', epoch: epoch! }])
    versions.push((await store.beat()).linksVersion)
    assert.deepEqual(
      versions,
      [...new Set(versions)].toSorted((a, b) => a - b),
    )
  })
}
