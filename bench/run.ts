// `npm run bench [-- figure…] [--quick | --full] [--json file] [--dir folder]`: measures, side by side and in one run, and says
// what the figures are worth on this machine. `--against ref` compares the working tree with a commit instead.
import { statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import { parseArgs } from 'node:util'
import { type ComparedFigure, compareWith } from './against.ts'
import { type Bench, closedLoop, type Figure, type Trial, trial, withBench } from './bench.ts'
import { CheckoutError } from './checkout.ts'
import { claimCost } from './figures/claim-cost.ts'
import { endToEnd } from './figures/end-to-end.ts'
import { idleLatency } from './figures/idle-latency.ts'
import { inbound } from './figures/inbound.ts'
import { ingest } from './figures/ingest.ts'
import { isolation } from './figures/isolation.ts'
import { jobs } from './figures/jobs.ts'
import { memory } from './figures/memory.ts'
import { noise } from './figures/noise.ts'
import { postgresClaims } from './figures/postgres-claims.ts'
import { postgresEndToEnd } from './figures/postgres-end-to-end.ts'
import { postgresHotLane } from './figures/postgres-hot-lane.ts'
import { postgresJobs } from './figures/postgres-jobs.ts'
import { postgresLanes } from './figures/postgres-lanes.ts'
import { postgresMembers } from './figures/postgres-members.ts'
import { postgresSoak } from './figures/postgres-soak.ts'
import { prune } from './figures/prune.ts'
import { relay } from './figures/relay.ts'
import { relayIdle } from './figures/relay-idle.ts'
import { replay } from './figures/replay.ts'
import { slowDisk } from './figures/slow-disk.ts'
import { describeMachine, type Machine } from './machine.ts'
import { type FigureResult, latency, markOf, number, percent, renderTable, renderVerdict } from './report.ts'
import { median } from './statistics.ts'

/** By number; `noise` is 0. */
const figures: readonly Figure[] = [
  ...[noise, endToEnd, ingest, claimCost, isolation, memory, slowDisk, idleLatency],
  ...[jobs, inbound, replay, prune, relay, relayIdle],
  ...[postgresJobs, postgresEndToEnd, postgresMembers, postgresClaims, postgresLanes, postgresSoak, postgresHotLane],
]

/** Other words for figures. */
const aliases: Readonly<Record<string, string>> = { e2e: 'end-to-end' }
const pairsDefault = 9
const pairsMax = 1_000

const usage = `npm run bench [-- figure…] [--quick | --full] [--json file] [--dir folder]
npm run bench -- [figure…] --against ref [--pairs n] [--quick] [--json file] [--dir folder]

${figures.map(({ name, title }, at) => `  ${at} ${name.padEnd(19)} ${title}`).join('\n')}

  --quick    fewer and smaller runs: shows that all works, says little about speed
  --full     also what takes very long: 10 million rows on Postgres, a soak of 30 minutes
  --json     where to write everything that was measured
  --dir      where the databases lie (default ${os.tmpdir()}); it decides which disk is measured
  --against  compare the working tree with this commit, branch or tag: interleaved pairs of runs of both servers, the
             ratio new / old, and beside it old / old, which is how much a ratio moves by chance in the same run.
             For ${comparable()}; by default all of them
  --pairs    how many pairs (default ${pairsDefault}, with --quick 2)

Figures can be named by number or name; e2e is end-to-end.
Exit codes: 0 every must was met, nothing is slower beyond noise · 1 otherwise, or a figure failed · 2 wrong usage`

/** Above this share of a core, a process may have been waited for. */
const fullShare = 0.9

type Outcome = Readonly<{ figure: Figure; result: FigureResult | null; error: string | null; trials: readonly Trial[] }>

const options = readArguments()
process.on('SIGINT', () => process.exit(130))
process.on('SIGTERM', () => process.exit(143))
process.on('SIGHUP', () => process.exit(129))

const machine = describeMachine(options.folder)
printMachine(machine)
if (options.against !== undefined) process.exit(await runAgainst(options.against))
const ceiling = await withBench(options, 'ceiling', measureCeiling)
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
        full: { type: 'boolean', default: false },
        json: { type: 'string' },
        dir: { type: 'string', default: os.tmpdir() },
        against: { type: 'string' },
        pairs: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit(0)
    }
    const chosen = positionals.map((word) => {
      const found = figures.find(({ name }, at) => (aliases[word] ?? word) === name || word === String(at))
      if (found === undefined) throw new Error(`there is no figure ${word}`)
      return found
    })
    if (!statSync(values.dir, { throwIfNoEntry: false })?.isDirectory())
      throw new Error(`there is no folder ${values.dir}`)
    const { quick, full, json, dir: folder, against } = values
    if (quick && full) throw new Error('--quick and --full exclude each other')
    if (against === undefined && values.pairs !== undefined) throw new Error('--pairs needs --against')
    const wrong = chosen.find((figure) => against !== undefined && !isComparable(figure))
    if (wrong !== undefined) throw new Error(`--against cannot compare ${wrong.name}, only ${comparable()}`)
    const wanted = chosen.length > 0 ? chosen : figures
    return { figures: wanted, quick, full, json, folder, against, pairs: pairsOf(values.pairs, quick) }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${usage}`)
    process.exit(2)
  }
}

function pairsOf(text: string | undefined, quick: boolean): number {
  if (text === undefined) return quick ? 2 : pairsDefault
  const pairs = Number(text)
  if (Number.isInteger(pairs) && pairs >= 1 && pairs <= pairsMax) return pairs
  throw new Error(`--pairs takes a whole number from 1 to ${pairsMax}, not ${text}`)
}

function isComparable(figure: Figure): figure is ComparedFigure {
  return figure.versus !== undefined
}

function comparable(): string {
  return figures
    .filter(isComparable)
    .map(({ name }) => name)
    .join(', ')
}

/** Answers the exit code. */
async function runAgainst(ref: string): Promise<number> {
  try {
    const { allWell, data } = await compareWith(ref, options.figures.filter(isComparable), options.pairs, options)
    if (options.json !== undefined) {
      writeFileSync(options.json, `${JSON.stringify({ machine, quick: options.quick, against: ref, data }, null, 2)}\n`)
    }
    return allWell ? 0 : 1
  } catch (error) {
    if (error instanceof CheckoutError) console.error(error.message)
    else console.error('could not be measured:', error)
    return error instanceof CheckoutError ? 2 : 1
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
    const result = await withBench(options, figure.name, figure.measure, trials)
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
