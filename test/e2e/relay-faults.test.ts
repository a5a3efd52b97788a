import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { exitCodes } from '../../src/cli/failure.ts'
import { Crowd } from '../support/crowd.ts'
import { type LedgerSink, openLedgerSink, type SinkScript } from '../support/ledger-sink.ts'
import { randomFrom } from '../support/random.ts'
import { type RelayRun, relayLedger } from '../support/relay-ledger.ts'
import { openRelayScene, type RelayScene, shortWaits } from '../support/relay-scene.ts'

// What can go wrong between an edge and its hub, with real processes. `RELAY_SEED` repeats a run's points.

const { shutOut } = exitCodes
const retry = { strategy: 'exponential', baseDelay: '20ms', multiplier: 2, maxDelay: '200ms', jitter: 0 }
const senders = 6
/** So much waits at most for the target: more makes a run longer, and nothing worse. */
const backlogMax = 60

describe('the relay loses nothing, keeps the order and repeats nothing', { concurrency: 2 }, () => {
  it('when the link is cut at random under load', async (t) => {
    const { scene, sink, crowd, random } = await underLoad(t)
    scene.startHub()
    const cuts = 12
    for (let cut = 0; cut < cuts; cut++) {
      await sink.until(more(sink.arrived, 1 + Math.floor(random() * 60)))
      scene.proxy.shape({ roundTripMs: Math.floor(random() * 40), dark: cut % 3 === 0 ? ['up'] : [] })
      await pause(random() * 60)
      scene.proxy.cut(random() < 0.5 ? 'rst' : 'fin', random())
      scene.proxy.shape({ dark: [] })
    }
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: cuts })
  })

  it('when the edge is killed', async (t) => {
    const { scene, sink, crowd, random } = await underLoad(t)
    scene.startHub()
    for (let kill = 0; kill < 2; kill++) {
      await sink.until(more(sink.arrived, 1 + Math.floor(random() * 80)))
      await scene.restartEdge('kill')
    }
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 2 })
  })

  it('when the hub is killed, but for the try it had in hand', async (t) => {
    const { scene, sink, crowd, random } = await underLoad(t)
    let hub = scene.startHub()
    const kills = 3
    for (let kill = 0; kill < kills; kill++) {
      await sink.until(more(sink.arrived, 1 + Math.floor(random() * 80)))
      await hub.kill()
      hub = scene.startHub()
    }
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: kills, breaks: kills })
  })

  it('when both are killed at once', async (t) => {
    const { scene, sink, crowd, random } = await underLoad(t)
    const hub = scene.startHub()
    await sink.until(more(sink.arrived, 20 + Math.floor(random() * 80)))
    await Promise.all([hub.kill(), scene.killEdge()])
    scene.startHub()
    await scene.startEdge()
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 1, breaks: 1 })
  })

  it('when the edge is restarted in good order', async (t) => {
    const { scene, sink, crowd } = await underLoad(t)
    scene.startHub()
    await sink.until(more(sink.arrived, 40))
    await scene.restartEdge('stop')
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 1 })
  })

  it('when the hub is stopped in good order', async (t) => {
    const { scene, sink, crowd } = await underLoad(t)
    const hub = scene.startHub()
    await sink.until(more(sink.arrived, 40))
    assert.equal(await hub.stop(), 0)
    scene.startHub()
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 1 })
  })

  it('when the link is half-open: the hub notices and comes back', async (t) => {
    const { scene, sink, crowd } = await underLoad(t)
    const hub = scene.startHub()
    await sink.until(more(sink.arrived, 20))
    const before = scene.proxy.accepted()
    scene.proxy.shape({ dark: ['up', 'down'] })
    await scene.proxy.until(() => scene.proxy.accepted() > before)
    scene.proxy.shape({ dark: [] })
    await sink.until(more(sink.arrived, 20))
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 1 })
    assert.equal(hub.child.exitCode, null)
  })

  it('when the local target is down for a while', async (t) => {
    const { scene, sink, crowd } = await underLoad(t)
    const hub = scene.startHub()
    await sink.until(more(sink.arrived, 20))
    await sink.down()
    await hub.says(/ECONNREFUSED/)
    await sink.up()
    await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 0 })
    assert.equal(hub.child.exitCode, null)
  })
})

describe('a hub and its edge', { concurrency: 2 }, () => {
  it('an ack that was lost is answered from memory: nothing is delivered twice', async (t) => {
    const { scene, sink, crowd } = await underLoad(t, () => 200)
    scene.startHub()
    await sink.until(more(sink.arrived, 30))
    await crowd.finish()
    await scene.settled()
    // Acks vanish, deliveries still come.
    scene.proxy.shape({ dark: ['up'] })
    const { length } = sink.arrived
    const later = [1, 2, 3, 4, 5].map((n) => scene.send({ n, key: 'later' }))
    await sink.until(() => sink.arrived.length > length)
    assert.equal(scene.proxy.cut('rst'), 1)
    scene.proxy.shape({ dark: [] })
    for (const { id } of await Promise.all(later)) {
      const { attempts } = await scene.delivery(id, ({ status }) => status === 'delivered')
      assert.ok(attempts <= 2)
    }
    assert.equal(sink.arrived.length, length + later.length)
    assert.equal(new Set(sink.arrived.map(({ webhookId }) => webhookId)).size, sink.arrived.length)
  })

  it('revoking the key cuts the link, the hub says so and ends, and what comes later waits', async (t) => {
    const { scene, sink, crowd } = await underLoad(t, () => 200)
    const hub = scene.startHub({ timing: undefined })
    await sink.until(more(sink.arrived, 5))
    await scene.call('DELETE', '/v1/relays/home')
    assert.equal(await hub.ended, shutOut)
    assert.match(hub.said(), /revoked/)
    await crowd.finish()
    const { id } = await scene.send({ n: 0, key: 'late' })
    const waiting = await scene.delivery(id, () => true)
    assert.deepEqual([waiting.status, waiting.attempts], ['pending', 0])
    const again = scene.startHub({ timing: undefined })
    assert.equal(await again.ended, shutOut)
    assert.equal((await scene.delivery(id, () => true)).status, 'pending')
  })

  it('the newest of two hubs with the same key wins; the other says why and stays away', async (t) => {
    const { scene, sink, crowd } = await underLoad(t, () => 200)
    const first = scene.startHub({ timing: undefined })
    await sink.until(more(sink.arrived, 5))
    await crowd.finish()
    await scene.settled()
    const second = scene.startHub({ timing: undefined, memory: 'second.db' })
    assert.equal(await first.ended, shutOut)
    assert.match(first.said(), /another hub|same key/i)
    await scene.connected()
    const later = openCrowd(t, scene, sink, 500_000)
    await sink.until(more(sink.arrived, 30))
    await assertKept(t, scene, { sink, crowds: [crowd, later], hubKills: 0, breaks: 1 })
    assert.equal(second.child.exitCode, null)
    assert.equal(scene.proxy.accepted(), 2)
  })
})

async function underLoad(t: TestContext, script: SinkScript = fitful) {
  const seed = Number(process.env.RELAY_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`RELAY_SEED=${seed}`)
  const sink = await openLedgerSink({ home: 'endpoint' }, script)
  t.after(() => sink.close())
  const scene = await openRelayScene(t, { target: `${sink.url}/home`, endpoint: { retry }, timing: shortWaits })
  const crowd = openCrowd(t, scene, sink)
  return { scene, sink, crowd, random: randomFrom(seed) }
}

function openCrowd(t: TestContext, scene: RelayScene, sink: LedgerSink, first = 0): Crowd {
  const before = sink.arrived.length
  const hold = () => sink.until(() => crowd.sent.length - (sink.arrived.length - before) < backlogMax)
  const crowd: Crowd = new Crowd(scene.url, senders, { first, paceMs: 10, hold })
  t.after(() => crowd.abandon())
  return crowd
}

/** Fails by a fixed pattern, and takes a while now and then, so that two at once would be seen. */
async function fitful(n: number, attempt: number): Promise<number> {
  if (n % 5 === 0) await pause(n % 7)
  if (n % 97 === 0) return 422
  return (n * 7 + attempt * 13) % 31 === 0 ? 503 : 200
}

function more(list: readonly unknown[], count: number): () => boolean {
  const wanted = list.length + count
  return () => list.length >= wanted
}

async function assertKept(t: TestContext, scene: RelayScene, run: RelayRun): Promise<void> {
  const { problems, ...figures } = await relayLedger(scene, run)
  t.diagnostic(JSON.stringify(figures))
  assert.deepEqual(problems, [])
  assert.ok(figures.acknowledged > 20, 'the run was too small to mean anything')
}
