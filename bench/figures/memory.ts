import { closedPort, type Prepared, prepare } from '../backlog.ts'
import { type Bench, closedLoop, type Figure, trial } from '../bench.ts'
import { sleep } from '../clock.ts'
import { Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { median } from '../statistics.ts'
import { type Memory, memoryOf, settled } from '../usage.ts'

const restMsMax = 60_000
const settleMs = 5_000
const allowedMb = 50

type Reading = Readonly<{ title: string; atRest: Memory; afterLoad: Memory }>

/** Figure 5: what a backlog costs in memory, at rest and after the same load; and, for the record, while it drains. */
export const memory: Figure = {
  name: 'memory',
  title: 'memory of the server with a backlog and with an empty store',
  async measure(bench) {
    const parked = bench.quick ? 100_000 : 1_000_000
    const parkedUrl = await closedPort()
    const empty = await prepare(bench, { parkedUrl, parked: 1 })
    const full = await prepare(bench, { parkedUrl, parked })
    const readings: { empty: Reading[]; full: Reading[] } = { empty: [], full: [] }
    for (let round = 0; round < (bench.quick ? 1 : 3); round++) {
      readings.empty.push(await read(bench, empty, 'empty store'))
      readings.full.push(await read(bench, full, `${number(parked)} parked`))
    }
    const busy = await peakUnderLoad(bench, empty)
    const drain = await peakWhileDraining(bench, parked)
    return judge(readings, busy, drain)
  },
}

async function read(bench: Bench, { folder, parkedId }: Prepared, title: string): Promise<Reading> {
  const posthorn = await Posthorn.start(bench.rig, { folder, title })
  await posthorn.resumeEndpoint(parkedId)
  const atRest = await memoryAtRest(posthorn)
  await trial(bench, posthorn, { events: 5_000, connections: 16, loop: closedLoop, delivered: true })
  const afterLoad = await memoryAtRest(posthorn)
  await posthorn.stop()
  return { title, atRest, afterLoad }
}

async function memoryAtRest({ pid }: Posthorn): Promise<Memory> {
  await sleep(settleMs)
  await settled(pid, restMsMax)
  return memoryOf(pid)
}

async function peakUnderLoad(bench: Bench, { folder }: Prepared): Promise<Memory> {
  const posthorn = await Posthorn.start(bench.rig, { folder, title: 'empty store' })
  await trial(bench, posthorn, { events: 20_000, connections: 64, loop: closedLoop, delivered: true })
  const seen = memoryOf(posthorn.pid)
  await posthorn.stop()
  return seen
}

/** The endpoint is back: the backlog is worked off as fast as it goes, and memory must not follow its size. */
async function peakWhileDraining(bench: Bench, parked: number): Promise<Memory> {
  const { folder, parkedId } = await prepare(bench, { parkedUrl: bench.sink.url, parked })
  const posthorn = await Posthorn.start(bench.rig, { folder, title: 'draining' })
  const before = await bench.sink.remote.call('report', null)
  await posthorn.resumeEndpoint(parkedId)
  await sleep(bench.quick ? 5_000 : 20_000)
  const seen = memoryOf(posthorn.pid)
  const after = await bench.sink.remote.call('report', null)
  await posthorn.stop()
  bench.say(`  ${after.requests - before.requests} deliveries of the backlog arrived while it drained`)
  if (after.requests === before.requests) throw new Error('the backlog did not drain')
  return seen
}

function judge({ empty, full }: { empty: readonly Reading[]; full: readonly Reading[] }, busy: Memory, drain: Memory) {
  const rss = (readings: readonly Reading[], at: 'atRest' | 'afterLoad') => readings.map((each) => each[at].rssMb)
  const moreAtRest = median(rss(full, 'atRest')) - median(rss(empty, 'atRest'))
  const moreAfterLoad = median(rss(full, 'afterLoad')) - median(rss(empty, 'afterLoad'))
  const row = (readings: readonly Reading[], at: 'atRest' | 'afterLoad', when: string) => [
    `${readings[0]?.title ?? ''}, ${when}`,
    rss(readings, at).map(number).join(' '),
    number(median(rss(readings, at))),
    number(median(readings.map((each) => each[at].anonymousMb))),
    number(median(readings.map((each) => each[at].peakMb))),
  ]
  const peakRow = (title: string, seen: Memory) => [
    title,
    number(seen.rssMb),
    number(seen.rssMb),
    number(seen.anonymousMb),
    number(seen.peakMb),
  ]
  return {
    tables: [
      {
        columns: ['server', 'RSS MB of each start', 'median', 'of it anonymous', 'peak'],
        rows: [
          row(empty, 'atRest', 'at rest'),
          row(full, 'atRest', 'at rest'),
          row(empty, 'afterLoad', 'after 5,000 events'),
          row(full, 'afterLoad', 'after 5,000 events'),
          peakRow('empty store, 20,000 events at 64 connections', busy),
          peakRow('backlog, draining', drain),
        ],
      },
    ],
    verdicts: [
      verdict('RSS with the backlog − empty store, at rest', moreAtRest),
      verdict('RSS with the backlog − empty store, after the same load', moreAfterLoad),
    ],
    notes: [`Peak while draining − peak under load with an empty store: ${number(drain.peakMb - busy.peakMb)} MB.`],
    data: { empty, full, busy, drain },
  }
}

function verdict(what: string, value: number) {
  return { what, value, wanted: 'at most' as const, must: allowedMb, goal: null, unit: ' MB' }
}
