import type { Versus } from './against.ts'
import type { Remote } from './ipc.ts'
import type { LoadCommands, LoadReport, LoadRequest } from './load.ts'
import type { FigureResult } from './report.ts'
import { Rig, type Target } from './rig.ts'
import type { Arrivals, SinkCommands } from './sink.ts'
import { type Latency, latencyOf } from './statistics.ts'
import { allSettled, cpuSeconds, treeCpuSeconds } from './usage.ts'

/** What every figure works with; made anew for each, so that none leaves anything to the next. */
export type Bench = Readonly<{
  rig: Rig
  sink: Readonly<{ remote: Remote<SinkCommands>; url: string }>
  load: Remote<LoadCommands>
  /** Fewer and smaller runs: shows that all works, says little about speed. */
  quick: boolean
  /** Also what takes very long. */
  full: boolean
  numbers: EventNumbers
  /** Every trial of the run, to show that neither sink nor generator was the limit. */
  trials: Trial[]
  say: (line: string) => void
}>

export type Figure = Readonly<{
  name: string
  title: string
  measure: (bench: Bench) => Promise<FigureResult>
  /** How it compares two checkouts; without it, it cannot. */
  versus?: Versus
}>

export type BenchOptions = Readonly<{ folder: string; quick: boolean; full: boolean }>

/** A bench of its own for the work, taken down afterwards whatever happened. */
export async function withBench<T>(
  { folder, quick, full }: BenchOptions,
  name: string,
  work: (bench: Bench) => Promise<T>,
  trials: Trial[] = [],
): Promise<T> {
  const rig = new Rig(folder)
  try {
    const sink = await rig.sink()
    const load = await rig.load()
    const say = (line: string) => console.error(`${name}:${line}`)
    return await work({ rig, sink, load, quick, full, numbers: new EventNumbers(), trials, say })
  } catch (error) {
    console.log(rig.lastWords())
    throw error
  } finally {
    await rig.close()
  }
}

/** Each run gets numbers of its own: what is left over from an earlier one is a stray and spoils nothing. */
export class EventNumbers {
  #next = 0

  take(count: number): number {
    this.#next += count
    return this.#next - count
  }
}

export type TrialOptions = Readonly<{
  events: number
  connections: number
  loop: LoadRequest['loop']
  /** Whether the events are delivered to the sink, and the trial ends when the last one has arrived. */
  delivered: boolean
}>

export type Trial = Readonly<{
  title: string
  events: number
  connections: number
  wallS: number
  /** CPU of the server's processes, all threads, and of its Postgres, until they came to rest after the run. */
  cpuS: number
  perWallS: number
  perCpuS: number
  cpuUsPerEvent: number
  /** Milliseconds from the moment the generator sent the event. */
  ackMs: Latency
  arrivalMs: Latency | null
  /** From its acknowledgement, which an arrival may precede. */
  afterAckMs: Latency | null
  duplicates: number
  /** How much of one core each process used during the run. */
  serverBusy: number
  sinkBusy: number
  loadBusy: number
  /** Open loop: how late the generator was. */
  lagMs: Latency | null
}>

export const closedLoop = { kind: 'closed', thinkMs: 0, durationMsMax: null } as const
export const eventType = 'bench.event'

const runMsMax = 180_000
const drainMsMax = 60_000
const restMsMax = 10_000

/** One run of events against one server. Throws unless every event was acknowledged and, if asked, delivered. */
export async function trial(bench: Bench, target: Target, options: TrialOptions): Promise<Trial> {
  const { events, delivered } = options
  const { sink } = bench
  const first = bench.numbers.take(events)
  await sink.remote.call('expect', { first, count: events })
  const used = () => cpuOf(target)
  await allSettled(used, restMsMax)
  const sinkBefore = await sink.remote.call('report', null)
  const cpuBeforeS = used()
  const load = await runLoad(bench, target, options, first)
  const wanted = delivered ? events : 0
  await sink.remote.call('arrived', { distinct: wanted, timeoutMs: drainMsMax }, drainMsMax + 5_000)
  const busyCpuS = used() - cpuBeforeS
  const arrivals = await sink.remote.call('arrivals', null)
  await allSettled(used, restMsMax)
  const cpuS = used() - cpuBeforeS
  check(target, load, arrivals, options)
  const sinkCpuS = (arrivals.report.cpuUs - sinkBefore.cpuUs) / 1e6
  const result = summary(target, options, load, arrivals, { cpuS, busyCpuS, sinkCpuS })
  bench.trials.push(result)
  return result
}

function cpuOf({ pid, others = [], postgres }: Target): number {
  const own = [pid, ...others.map((other) => other.pid)].reduce((sum, each) => sum + cpuSeconds(each), 0)
  return postgres === undefined ? own : own + treeCpuSeconds(postgres)
}

function runLoad(bench: Bench, target: Target, options: TrialOptions, first: number): Promise<LoadReport> {
  const { events, connections, loop } = options
  const request: LoadRequest = {
    urls: [target.url, ...(target.others ?? []).map(({ url }) => url)],
    type: eventType,
    dress: target.dress ?? { kind: 'plain' },
    connections,
    first,
    count: events,
    loop,
    timeoutMs: runMsMax,
  }
  return bench.load.call('run', request, runMsMax + 5_000)
}

function check(
  target: Target,
  load: LoadReport,
  { report, arrivedAtUs }: Arrivals,
  { events, delivered }: TrialOptions,
): void {
  const wrong: string[] = []
  if (load.acked !== events) wrong.push(`${load.acked} of ${events} acknowledged`)
  for (const [status, count] of Object.entries(load.refused)) wrong.push(`${count} answered with ${status}`)
  if (delivered && report.distinct !== events) wrong.push(`${report.distinct} of ${events} arrived`)
  if (!delivered && report.distinct > 0) wrong.push(`${report.distinct} arrived that should not`)
  const early = delivered ? arrivedAtUs.findIndex((at, index) => at > 0 && at < (load.sentAtUs[index] ?? 0)) : -1
  if (early >= 0) wrong.push(`event ${early} arrived before it was sent: the clocks disagree`)
  if (wrong.length > 0) throw new Error(`${target.title}: ${wrong.join(', ')}`)
}

type Costs = Readonly<{ cpuS: number; busyCpuS: number; sinkCpuS: number }>

function summary(
  target: Target,
  { events, connections, delivered, loop }: TrialOptions,
  load: LoadReport,
  { report, arrivedAtUs }: Arrivals,
  { cpuS, busyCpuS, sinkCpuS }: Costs,
): Trial {
  const endedAtUs = delivered ? Math.max(load.endedAtUs, arrivedAtUs.reduce(larger, 0)) : load.endedAtUs
  const wallS = (endedAtUs - load.startedAtUs) / 1e6
  return {
    title: target.title,
    events,
    connections,
    wallS,
    cpuS,
    perWallS: events / wallS,
    perCpuS: events / cpuS,
    cpuUsPerEvent: (cpuS / events) * 1e6,
    ackMs: latencyOf(since(load.sentAtUs, load.ackedAtUs)),
    arrivalMs: delivered ? latencyOf(since(load.sentAtUs, arrivedAtUs)) : null,
    afterAckMs: delivered ? latencyOf(since(load.ackedAtUs, arrivedAtUs)) : null,
    duplicates: report.duplicates,
    serverBusy: busyCpuS / wallS,
    sinkBusy: sinkCpuS / wallS,
    loadBusy: load.cpuUs / 1e6 / wallS,
    lagMs: loop.kind === 'open' ? latencyOf(load.lagUs.map((lagUs) => lagUs / 1000)) : null,
  }
}

function since(fromUs: Float64Array, toUs: Float64Array): Float64Array {
  return fromUs.map((from, index) => ((toUs[index] ?? Number.NaN) - from) / 1000)
}

function larger(a: number, b: number): number {
  return a > b ? a : b
}

export type Pairs = Readonly<{ ours: readonly Trial[]; theirs: readonly Trial[] }>

/** A warm-up for each, then A B A B …: what changes on the machine meanwhile meets both. */
export async function interleaved(
  bench: Bench,
  [ours, theirs]: readonly [Target, Target],
  count: number,
  options: TrialOptions,
): Promise<Pairs> {
  for (const target of [ours, theirs]) await trial(bench, target, options)
  const pairs: { ours: Trial[]; theirs: Trial[] } = { ours: [], theirs: [] }
  for (let i = 0; i < count; i++) {
    pairs.ours.push(await trial(bench, ours, options))
    pairs.theirs.push(await trial(bench, theirs, options))
    bench.say(`  pair ${i + 1} of ${count}`)
  }
  return pairs
}

/** One ratio per pair. */
export function ratios({ ours, theirs }: Pairs, of: (trial: Trial) => number): number[] {
  return ours.map((trial, index) => {
    const other = theirs[index]
    return other === undefined ? Number.NaN : of(trial) / of(other)
  })
}
