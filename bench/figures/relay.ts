import path from 'node:path'
import { type Bench, eventType, type Figure } from '../bench.ts'
import { until } from '../clock.ts'
import { firstEventNumber } from '../http-bytes.ts'
import { foreignEnvironment, Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { root } from '../rig.ts'
import { median } from '../statistics.ts'

const roundTripsMs = [0, 20, 100]
const eventsPerBatch = 5_000
const connectMsMax = 30_000
const drainMsMax = 300_000

type Drain = Readonly<{ perSecond: number; inOrder: boolean; duplicates: number }>
type Case = Readonly<{ title: string; roundTripMs: number; ordering: 'none' | 'endpoint'; count: number; runs: number }>

/** Figure 12: what a hub gets over links of some length, against one that waits for each answer before it sends. */
export const relay: Figure = {
  name: 'relay',
  title: 'events a second to a hub, against an ideal stop-and-wait',
  async measure(bench) {
    const target = await oneByOne(bench)
    const cases = casesOf(bench.quick)
    const rows: string[][] = []
    const found = new Map<string, number>()
    for (const given of cases) {
      const drains: Drain[] = []
      for (let run = 0; run < given.runs; run++) drains.push(await drainThrough(bench, given))
      const perSecond = median(drains.map((drain) => drain.perSecond))
      const idealPerSecond = 1000 / (given.roundTripMs + 1000 / target)
      found.set(given.title, perSecond)
      const isOrdered = given.ordering === 'endpoint'
      if (isOrdered && drains.some(({ inOrder }) => !inOrder)) throw new Error(`${given.title}: order was not kept`)
      const each = drains.map((drain) => number(drain.perSecond)).join(' ')
      const repeats = String(drains.reduce((sum, { duplicates }) => sum + duplicates, 0))
      rows.push([
        given.title,
        number(perSecond),
        each,
        number(idealPerSecond),
        number(perSecond / idealPerSecond),
        repeats,
      ])
      bench.say(`  ${given.title}: ${number(perSecond)} a second`)
    }
    const at100 = found.get('ordered, 100 ms') ?? Number.NaN
    return {
      tables: [{ columns: ['hub', 'per second, median', 'runs', 'stop-and-wait', 'ratio', 'repeats'], rows }],
      verdicts: [
        {
          what: 'ordered events a second at a round trip of 100 ms',
          value: at100,
          wanted: 'at least',
          must: 500,
          goal: 1_000,
          unit: '',
        },
      ],
      notes: [
        `Events wait at the edge, the hub's link is up, the endpoint is resumed: from the first arrival at the local target to the last. Stop-and-wait is one round trip and one request to the target an event, without any disk (the target alone takes ${number(target)} a second one by one).`,
      ],
      data: { target, found: Object.fromEntries(found) },
    }
  },
}

function casesOf(quick: boolean): readonly Case[] {
  const runs = quick ? 1 : 3
  const ordered = roundTripsMs.map((roundTripMs) => ({
    title: roundTripMs === 0 ? 'ordered, loopback' : `ordered, ${roundTripMs} ms`,
    roundTripMs,
    ordering: 'endpoint' as const,
    count: quick ? 1_000 : 10_000,
    runs,
  }))
  return [
    ...ordered,
    { title: 'unordered, 100 ms', roundTripMs: 100, ordering: 'none', count: quick ? 1_000 : 10_000, runs },
    { title: `ordered, catch-up`, roundTripMs: 20, ordering: 'endpoint', count: quick ? 5_000 : 100_000, runs: 1 },
  ]
}

/** Requests to the target, each after the answer to the last: what nobody who waits can beat. */
async function oneByOne({ sink }: Bench): Promise<number> {
  const count = 2_000
  const startedAt = performance.now()
  for (let i = 0; i < count; i++) await (await fetch(sink.url, { method: 'POST', body: '{}' })).arrayBuffer()
  return count / ((performance.now() - startedAt) / 1000)
}

async function drainThrough(bench: Bench, { roundTripMs, ordering, count }: Case): Promise<Drain> {
  const { rig, sink } = bench
  const folder = rig.tempDir()
  const posthorn = await Posthorn.start(rig, { folder })
  const key = await posthorn.createRelay('bench')
  const endpoint = await posthorn.createRelayEndpoint({ relay: 'bench', types: [eventType], ordering })
  await posthorn.pauseEndpoint(endpoint)
  const first = bench.numbers.take(count)
  await sink.remote.call('expect', { first, count })
  for (let from = 0; from < count; from += eventsPerBatch) {
    const length = Math.min(eventsPerBatch, count - from)
    await posthorn.sendBatch(
      eventType,
      Array.from({ length }, (_, at) => payload(first + from + at)),
    )
  }
  const link = await rig.slowLink()
  const port = await link.call('listen', { port: posthorn.port, roundTripMs })
  const hub = startHub(bench, { edge: `ws://127.0.0.1:${port}`, key, folder })
  await until('the hub is connected', connectMsMax, () => posthorn.isConnected('bench'))
  await posthorn.resumeEndpoint(endpoint)
  await sink.remote.call('arrived', { distinct: count, timeoutMs: drainMsMax }, drainMsMax + 5_000)
  const { report, arrivedAtUs } = await sink.remote.call('arrivals', null)
  if (report.distinct !== count) throw new Error(`${report.distinct} of ${count} arrived`)
  await rig.stop(hub)
  await posthorn.stop()
  const inOrder = arrivedAtUs.every((at, index) => index === 0 || at >= (arrivedAtUs[index - 1] ?? 0))
  const lastAtUs = arrivedAtUs.reduce((latest, at) => Math.max(latest, at), 0)
  const firstAtUs = arrivedAtUs.reduce((earliest, at) => Math.min(earliest, at), Number.POSITIVE_INFINITY)
  return { perSecond: (count / (lastAtUs - firstAtUs)) * 1e6, inOrder, duplicates: report.duplicates }
}

function payload(index: number): Readonly<{ text: string; n: number }> {
  return { text: 'x'.repeat(174), n: firstEventNumber + index }
}

function startHub({ rig, sink }: Bench, { edge, key, folder }: { edge: string; key: string; folder: string }) {
  const args = ['relay', '--edge', edge, '--route', `bench=${sink.url}`, '--memory', path.join(folder, 'hub.db')]
  return rig.spawn(process.execPath, [path.join(root, 'src/cli/main.ts'), ...args], {
    cwd: folder,
    env: { ...foreignEnvironment(), POSTHORN_RELAY_KEY: key, POSTHORN_LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}
