import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Crowd } from '../support/crowd.ts'
import { type LedgerSink, openLedgerSink } from '../support/ledger-sink.ts'
import { noNamespaces, noNetem, openNetworkNamespace } from '../support/network-namespace.ts'
import { randomFrom } from '../support/random.ts'
import { type RelayRun, relayLedger } from '../support/relay-ledger.ts'
import { openRelayScene, type RelayScene, shortWaits } from '../support/relay-scene.ts'

const seed = Number(process.env.RELAY_SEED ?? Date.now() % 2 ** 31)
const retry = { strategy: 'exponential', baseDelay: '20ms', multiplier: 2, maxDelay: '200ms', jitter: 0 }
const senders = 8
/** So much waits at most for the target: more makes a run longer, and nothing worse. */
const backlogMax = 200
const cuts = 220
/** Every so many cuts one of the two is killed instead, in turns, and then both. */
const killEvery = 11

test(`${cuts} cuts of the link under load, and kill -9 of edge and hub in turns: nothing lost, order kept`, async (t) => {
  t.diagnostic(`RELAY_SEED=${seed}`)
  const random = randomFrom(seed)
  const sink = await openSink(t)
  const scene = await openRelayScene(t, { target: `${sink.url}/home`, endpoint: { retry }, timing: shortWaits })
  const crowd = openCrowd(t, scene, sink)
  let hub = scene.startHub()
  const kills = { edge: 0, hub: 0 }
  let made = 0
  for (let turn = 0; made < cuts; turn++) {
    const who = turn % killEvery === 0 ? (['edge', 'hub', 'both'] as const)[(turn / killEvery) % 3] : 'none'
    await sink.until(more(sink, 1 + Math.floor(random() * 40)))
    if (who === 'none') {
      made += await cutOnce(scene, random)
      continue
    }
    const isEdge = who !== 'hub'
    const isHub = who !== 'edge'
    await Promise.all([isHub && hub.kill(), isEdge && scene.killEdge()])
    if (isHub) hub = scene.startHub()
    if (isEdge) await scene.startEdge()
    kills.edge += Number(isEdge)
    kills.hub += Number(isHub)
  }
  scene.proxy.shape({ roundTripMs: 0, bytesPerSecond: null, dark: [] })
  await assertKept(t, scene, {
    sink,
    crowds: [crowd],
    hubKills: kills.hub,
    breaks: made + kills.edge + kills.hub,
    what: { cuts: made, kills },
  })
})

/** In one of the ways in which links end: at once, in the middle of a message, or after a time in which nothing came through. */
async function cutOnce({ proxy }: RelayScene, random: () => number): Promise<number> {
  const dice = random()
  proxy.shape({
    roundTripMs: random() < 0.5 ? 0 : Math.floor(random() * 60),
    bytesPerSecond: random() < 0.1 ? 100_000 : null,
  })
  if (dice < 0.04) {
    // Half-open, until the hub has noticed and tries anew.
    const before = proxy.accepted()
    proxy.shape({ dark: random() < 0.5 ? ['up', 'down'] : ['down'] })
    await proxy.until(() => proxy.accepted() > before)
  } else if (dice < 0.3) {
    proxy.shape({ dark: [random() < 0.7 ? 'up' : 'down'] })
    await pause(random() * 60)
  } else {
    await pause(random() * 40)
  }
  const count = proxy.cut(random() < 0.5 ? 'rst' : 'fin', random())
  proxy.shape({ dark: [] })
  return count > 0 ? 1 : 0
}

test('a real link that vanishes without a word: both sides notice within 30 s, nothing is lost', {
  skip: noNamespaces() ?? false,
}, async (t) => {
  const namespace = openNetworkNamespace('relay')
  t.after(() => namespace.remove())
  const sink = await openSink(t)
  // `posthorn relay` as it is, with its own waits.
  const scene = await openRelayScene(t, { target: `${sink.url}/home`, endpoint: { retry }, namespace })
  const crowd = openCrowd(t, scene, sink)
  const hub = scene.startHub()
  await sink.until(more(sink, 50))
  namespace.linkUp(false)
  const downAt = performance.now()
  const since = () => Math.round(performance.now() - downAt)
  const notices = [scene.connected(false).then(since), hub.says(/trying again/i).then(since)]
  const [edgeMs = 0, hubMs = 0] = await Promise.all(notices)
  t.diagnostic(`the edge noticed after ${edgeMs} ms, the hub after ${hubMs} ms`)
  assert.ok(Math.max(edgeMs, hubMs) < 30_000)
  const upAt = performance.now()
  namespace.linkUp(true)
  await sink.until(more(sink, 50))
  t.diagnostic(`${Math.round(performance.now() - upAt)} ms after the link was up it went on`)
  await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 1, what: {} })
  assert.equal(hub.child.exitCode, null)
})

test('a real link that comes and goes at random', { skip: noNamespaces() ?? false }, async (t) => {
  t.diagnostic(`RELAY_SEED=${seed}`)
  const random = randomFrom(seed)
  const namespace = openNetworkNamespace('relay')
  t.after(() => namespace.remove())
  const sink = await openSink(t)
  const scene = await openRelayScene(t, {
    target: `${sink.url}/home`,
    endpoint: { retry },
    timing: shortWaits,
    namespace,
  })
  const crowd = openCrowd(t, scene, sink)
  scene.startHub()
  for (let flap = 0; flap < 15; flap++) {
    await sink.until(more(sink, 1 + Math.floor(random() * 40)))
    namespace.linkUp(false)
    // Shorter and longer than the hub's patience.
    await pause(random() * 1_500)
    namespace.linkUp(true)
  }
  await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 15, what: { flaps: 15 } })
})

test('a real link that loses every fifth packet', { skip: noNetem() ?? false }, async (t) => {
  const namespace = openNetworkNamespace('relay')
  t.after(() => namespace.remove())
  namespace.netem({ roundTripMs: 40, lossPercent: 20 })
  const sink = await openSink(t)
  const scene = await openRelayScene(t, { target: `${sink.url}/home`, endpoint: { retry }, namespace })
  const crowd = openCrowd(t, scene, sink)
  scene.startHub()
  await sink.until(more(sink, 1_000))
  await assertKept(t, scene, { sink, crowds: [crowd], hubKills: 0, breaks: 0, what: { lossPercent: 20 } })
})

async function openSink(t: TestContext): Promise<LedgerSink> {
  const sink = await openLedgerSink({ home: 'endpoint' }, async (n, attempt) => {
    if (n % 5 === 0) await pause(n % 7)
    if (n % 97 === 0) return 422
    return (n * 7 + attempt * 13) % 31 === 0 ? 503 : 200
  })
  t.after(() => sink.close())
  return sink
}

function openCrowd(t: TestContext, scene: RelayScene, { arrived, until }: LedgerSink): Crowd {
  const hold = () => until(() => crowd.sent.length - arrived.length < backlogMax)
  const crowd: Crowd = new Crowd(scene.url, senders, { paceMs: 10, apiKey: scene.apiKey, hold })
  t.after(() => crowd.abandon())
  return crowd
}

function more({ arrived }: LedgerSink, count: number): () => boolean {
  const wanted = arrived.length + count
  return () => arrived.length >= wanted
}

async function assertKept(
  t: TestContext,
  scene: RelayScene,
  { what, ...run }: RelayRun & Readonly<{ what: object }>,
): Promise<void> {
  const { problems, ...figures } = await relayLedger(scene, run)
  t.diagnostic(JSON.stringify({ ...what, ...figures, problems: problems.length }))
  assert.deepEqual(problems.slice(0, 20), [])
}
