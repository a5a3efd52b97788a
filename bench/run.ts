// `npm run bench [-- figure…] [--quick] [--json file] [--dir folder]`: measures, side by side and in one run, and says
// what the figures are worth on this machine.
import { statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import { parseArgs } from 'node:util'
import { type Bench, closedLoop, EventNumbers, type Figure, type Trial, trial } from './bench.ts'
import { claimCost } from './figures/claim-cost.ts'
import { endToEnd } from './figures/end-to-end.ts'
import { idleLatency } from './figures/idle-latency.ts'
import { inbound } from './figures/inbound.ts'
import { ingest } from './figures/ingest.ts'
import { isolation } from './figures/isolation.ts'
import { jobs } from './figures/jobs.ts'
import { memory } from './figures/memory.ts'
import { noise } from './figures/noise.ts'
import { prune } from './figures/prune.ts'
import { relay } from './figures/relay.ts'
import { relayIdle } from './figures/relay-idle.ts'
import { replay } from './figures/replay.ts'
import { slowDisk } from './figures/slow-disk.ts'
import { describeMachine, type Machine } from './machine.ts'
import { type FigureResult, latency, markOf, number, percent, renderTable, renderVerdict } from './report.ts'
import { Rig } from './rig.ts'
import { median } from './statistics.ts'

/** By number; `noise` is 0. */
const figures: readonly Figure[] = [
  ...[noise, endToEnd, ingest, claimCost, isolation, memory, slowDisk, idleLatency],
  ...[jobs, inbound, replay, prune, relay, relayIdle],
]

const usage = `npm run bench [-- figure…] [--quick] [--json file] [--dir folder]

${figures.map(({ name, title }, at) => `  ${at} ${name.padEnd(13)} ${title}`).join('\n')}

  --quick   fewer and smaller runs: shows that all works, says little about speed
  --json    where to write everything that was measured
  --dir     where the databases lie (default ${os.tmpdir()}); it decides which disk is measured

Exit codes: 0 every must was met · 1 one was missed, or a figure failed · 2 wrong usage`

/** Above this share of a core, a process may have been waited for. */
const fullShare = 0.9

type Outcome = Readonly<{ figure: Figure; result: FigureResult | null; error: string | null; trials: readonly Trial[] }>

const options = readArguments()
process.on('SIGINT', () => process.exit(130))
process.on('SIGTERM', () => process.exit(143))

const machine = describeMachine(options.folder)
printMachine(machine)
const ceiling = await withBench('ceiling', measureCeiling)
const outcomes: Outcome[] = []
for (const figure of options.figures) outcomes.push(await runFigure(figure))
if (ceiling !== null) printLimits(ceiling, outcomes)
printSummary(outcomes)
if (options.json !== undefined) {
  const content = { machine, quick: options.quick, ceiling, figures: outcomes.map(toJson) }
  writeFileSync(options.json, `${JSON.stringify(content, null, 2)}\n`)
}
const allWell = outcomes.every(({ result }) => result?.verdicts.every((verdict) => markOf(verdict) !== 'FAIL') ?? false)
process.exit(allWell ? 0 : 1)

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        json: { type: 'string' },
        dir: { type: 'string', default: os.tmpdir() },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    const chosen = positionals.map((word) => {
      const found = figures.find(({ name }, at) => word === name || word === String(at))
      if (found === undefined) throw new Error(`there is no figure ${word}`)
      return found
    })
    if (!statSync(values.dir, { throwIfNoEntry: false })?.isDirectory())
      throw new Error(`there is no folder ${values.dir}`)
    const wanted = chosen.length > 0 ? chosen : figures
    return { figures: wanted, quick: values.quick, json: values.json, folder: values.dir }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${usage}`)
    process.exit(2)
  }
}

/** A bench of its own for the work, taken down afterwards whatever happened. */
async function withBench<T>(name: string, work: (bench: Bench) => Promise<T>, trials: Trial[] = []): Promise<T> {
  const rig = new Rig(options.folder)
  try {
    const sink = await rig.sink()
    const load = await rig.load()
    const say = (line: string) => console.error(`${name}:${line}`)
    return await work({ rig, sink, load, quick: options.quick, numbers: new EventNumbers(), trials, say })
  } catch (error) {
    console.log(rig.lastWords())
    throw error
  } finally {
    await rig.close()
  }
}

/** The generator against the sink, with nothing between: no system can be measured as faster than this. */
async function measureCeiling(bench: Bench): Promise<Trial> {
  const target = { title: 'generator → sink', url: bench.sink.url, pid: bench.sink.remote.pid }
  const load = { events: options.quick ? 20_000 : 100_000, connections: 64, loop: closedLoop, delivered: true }
  await trial(bench, target, load)
  return trial(bench, target, load)
}

async function runFigure(figure: Figure): Promise<Outcome> {
  const trials: Trial[] = []
  const title = `${figures.indexOf(figure)}. ${figure.title}`
  console.log(`\n${title}${options.quick ? ' (quick: not for the record)' : ''}\n`)
  try {
    const result = await withBench(figure.name, figure.measure, trials)
    for (const table of result.tables) console.log(`${renderTable(table)}\n`)
    for (const verdict of result.verdicts) console.log(renderVerdict(verdict))
    for (const note of result.notes) console.log(`  ${note}`)
    return { figure, result, error: null, trials }
  } catch (error) {
    const why = error instanceof Error ? (error.stack ?? error.message) : String(error)
    console.log(`  could not be measured: ${why}`)
    return { figure, result: null, error: why, trials }
  }
}

function printMachine(machine: Machine): void {
  console.log(`Posthorn bench, ${machine.date}`)
  console.log(`  ${machine.cpu}, ${machine.cores} cores, ${number(machine.memoryGb)} GB, ${machine.kernel}`)
  console.log(`  ${options.folder} on ${machine.filesystem}, fdatasync ms p50 / p99 ${latency(machine.fsyncMs)}`)
  console.log(`  Node ${machine.node}, SQLite ${machine.sqlite}, load average ${number(machine.loadAverage)}`)
}

/** Neither sink nor generator may be what is measured: how busy they were, and how much they could have done. */
function printLimits(ceiling: Trial, outcomes: readonly Outcome[]): void {
  const rows = [['(nothing between)', ceiling.title, ...limitCells([ceiling]).with(-1, 'by design')]]
  for (const { figure, trials } of outcomes) {
    for (const [title = '', group = []] of Map.groupBy(trials, nameOf)) {
      rows.push([figure.name, title, ...limitCells(group)])
    }
  }
  const columns = [
    'figure',
    'server',
    'per wall s',
    'server CPU',
    'sink CPU',
    'generator CPU',
    'sink or generator full',
  ]
  console.log('\nSink and generator, which must not be the limit (100 % is one core; medians)\n')
  console.log(renderTable({ columns, rows }))
  const through = number(ceiling.perWallS)
  console.log(`\n  Ceiling: ${through} events per second from generator to sink directly.`)
}

function nameOf({ title, connections }: Trial): string {
  return `${title}, ${connections} connections`
}

function limitCells(trials: readonly Trial[]): string[] {
  const middle = (of: (trial: Trial) => number) => median(trials.map(of))
  const full = trials.filter((each) => Math.max(each.sinkBusy, each.loadBusy) > fullShare).length
  return [
    number(middle((each) => each.perWallS)),
    percent(middle((each) => each.serverBusy)),
    percent(middle((each) => each.sinkBusy)),
    percent(middle((each) => each.loadBusy)),
    full === 0 ? 'never' : `in ${full} of ${trials.length} runs`,
  ]
}

function printSummary(outcomes: readonly Outcome[]): void {
  console.log('\nSummary\n')
  for (const { figure, result } of outcomes) {
    if (result === null) console.log(`  [FAIL] ${figure.name}: could not be measured`)
    for (const verdict of result?.verdicts ?? []) console.log(renderVerdict(verdict))
  }
}

function toJson({ figure, result, error, trials }: Outcome) {
  const verdicts = result?.verdicts.map((verdict) => ({ ...verdict, mark: markOf(verdict) })) ?? []
  return { name: figure.name, title: figure.title, verdicts, notes: result?.notes, data: result?.data, trials, error }
}
