import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { exitCodes } from '../../src/cli/failure.ts'
import { eventually } from '../support/eventually.ts'
import { noPostgres } from '../support/postgres.ts'
import { type Edge, memberOf, openRelayMembers, type RelayShown } from '../support/relay-members.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'

// A hub and several processes, each of which it may be connected to. A failed try waits for an hour in all of these, so that
// what goes on in spite of one has not waited.

const { shutOut } = exitCodes
const limits = { skip: noPostgres() ?? false, concurrency: 2, timeout: 120_000 }

/** A counter of this process's own. */
async function linksOf({ server }: Edge, event: string): Promise<number> {
  const page = await (await fetch(`${server.url}/metrics`)).text()
  return Number(new RegExp(`^posthorn_relay_links_total\\{event="${event}"\\} (\\d+)$`, 'm').exec(page)?.[1])
}

async function gauge({ server }: Edge, name: string): Promise<number> {
  const page = await (await fetch(`${server.url}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(page)?.[1])
}

const connected = 'posthorn_relays_connected'

describe('a hub of several processes', limits, () => {
  it('moves from one to another in the middle of traffic to both, and the order stays', async (t) => {
    const scene = await openRelayMembers(t)
    const { a, b, door } = scene
    scene.lead(a)
    const hub = scene.startHub()
    const crowds = [scene.crowd(a), scene.crowd(b, 3, 500_000)]
    await scene.more(60)
    scene.lead(b)
    assert.equal(door.cut('rst'), 1)
    await scene.more(60)
    await scene.at(b, a, b)
    scene.lead(a)
    assert.equal(door.cut('fin'), 1)
    await scene.more(60)
    await scene.assertKept(b, { crowds, hubKills: 0, breaks: 2 })
    await scene.at(a, a, b)
    assert.deepEqual([await gauge(a, connected), await gauge(b, connected)], [1, 0])
    const shown = async (edge: Edge) => {
      // What changes while a link lasts is known at its own end first, and what waits is counted now and then.
      const {
        roundTripMs: _,
        lastAckAt: __,
        queued: ___,
        oldestAt: ____,
        ...rest
      } = await edge.call<RelayShown>('GET', '/v1/relays/home')
      return rest
    }
    assert.deepEqual(await shown(a), await shown(b))
    assert.equal(hub.child.exitCode, null)
  })

  it('leaves a half-open link behind, which ends as soon as it is at another', async (t) => {
    const scene = await openRelayMembers(t)
    const { a, b } = scene
    scene.lead(a)
    scene.startHub()
    const crowds = [scene.crowd(a), scene.crowd(b, 3, 500_000)]
    await scene.more(40)
    scene.lead(b)
    a.way.shape({ dark: ['up', 'down'] })
    await scene.more(80)
    await scene.assertKept(a, { crowds, hubKills: 0, breaks: 1 })
    await scene.at(b, a, b)
    assert.deepEqual([await linksOf(a, 'silent'), await linksOf(a, 'lost')], [0, 1])
    assert.deepEqual([await gauge(a, connected), await gauge(b, connected)], [0, 1])
  })

  it('goes on at another when its own is killed', async (t) => {
    const scene = await openRelayMembers(t)
    const { a, b } = scene
    scene.lead(a)
    scene.startHub()
    const crowds = [scene.crowd(b)]
    await scene.more(40)
    scene.lead(b)
    await a.server.kill()
    await scene.more(80)
    await scene.assertKept(b, { crowds, hubKills: 0, breaks: 1 })
    await scene.at(b, b)
  })

  it('goes on at another when its own is stopped, and at the next when that one is', async (t) => {
    const scene = await openRelayMembers(t)
    const { a, b } = scene
    scene.lead(a)
    const hub = scene.startHub()
    const crowd = scene.crowd(b)
    await scene.more(40)
    scene.lead(b)
    assert.equal(await a.server.stop(), 0)
    await scene.more(40)
    const c = await scene.start()
    await scene.meet(b, c)
    const later = scene.crowd(c, 3, 500_000)
    await scene.more(20)
    await crowd.finish()
    scene.lead(c)
    assert.equal(await b.server.stop(), 0)
    await scene.more(40)
    await scene.assertKept(c, { crowds: [crowd, later], hubKills: 0, breaks: 2 })
    await scene.at(c, c)
    assert.equal(hub.child.exitCode, null)
  })

  it('is thrown out by a newer one with the same key, and by a revocation, at whichever process that is', async (t) => {
    const scene = await openRelayMembers(t)
    const { a, b } = scene
    const first = scene.startHub({ at: a, real: true })
    await scene.at(a, a, b)
    const second = scene.startHub({ at: b, real: true, memory: 'second.db' })
    assert.equal(await first.ended, shutOut)
    assert.match(first.said(), /another hub|same key/i)
    await scene.at(b, a, b)
    const crowd = scene.crowd(a)
    await scene.more(20)
    await crowd.finish()
    assert.equal(await linksOf(a, 'replaced'), 1)
    await a.call('DELETE', '/v1/relays/home')
    assert.equal(await second.ended, shutOut)
    assert.match(second.said(), /revoked/)
    assert.equal(await linksOf(b, 'revoked'), 1)
  })

  it('is away when it is at none of them, which is told once, and once that it is back', async (t) => {
    const held = Promise.withResolvers<number>()
    const scene = await openRelayMembers(t, () => held.promise, { POSTHORN_RELAY_AWAY_AFTER: '1s' })
    await using ops = await openScriptedEndpoint()
    const { a, b } = scene
    const [leader, other] = (await memberOf(a, a))?.leader ? [a, b] : [b, a]
    const { id } = await a.call<{ id: string }>('POST', '/v1/endpoints', { url: ops.url, types: ['posthorn.relay.*'] })
    await eventually('b knows it', () => b.call<object>('GET', `/v1/endpoints/${id}`).catch(() => null))
    const told = async () => JSON.parse((await ops.next()).body.toString()).type
    const hub = scene.startHub({ at: other })
    await scene.at(other, leader, other)
    const crowd = scene.crowd(leader, 2)
    await crowd.acknowledged(3)
    await crowd.finish()
    const waitsFor = async (edge: Edge) => {
      const path = `/v1/deliveries?endpoint=${scene.endpointId}&status=pending`
      const { items } = await edge.call<{ items: { waitsFor: string }[] }>('GET', path)
      return [...new Set(items.map((item) => item.waitsFor))]
    }
    assert.deepEqual([await waitsFor(leader), await waitsFor(other)], [['lane'], ['lane']])
    await hub.kill()
    assert.equal(await told(), 'posthorn.relay.away')
    assert.deepEqual([await waitsFor(leader), await waitsFor(other)], [['hub'], ['hub']])
    assert.deepEqual([await gauge(leader, 'posthorn_relays_away'), await gauge(other, 'posthorn_relays_away')], [1, 0])
    held.resolve(200)
    scene.startHub({ at: other })
    await scene.at(other, leader, other)
    // What is gathered is told at the end.
    assert.equal(await leader.server.stop(), 0)
    assert.equal(await told(), 'posthorn.relay.back')
    await scene.assertKept(other, { crowds: [crowd], hubKills: 1, breaks: 1 })
    assert.equal(ops.received.length, 2)
  })
})
