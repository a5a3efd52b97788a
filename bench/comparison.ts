import { type Pairs, ratios, type Trial } from './bench.ts'
import { type FigureResult, latency, number, percent, spread, type Table } from './report.ts'
import { spreadOf } from './statistics.ts'

/** More would not fit on any screen; `--json` has them all. */
const pairsShownMax = 21

/** Two systems under the same load, side by side, and the ratio of each pair. */
export function comparison(pairs: Pairs): Pick<FigureResult, 'tables' | 'data'> {
  const perCpu = ratios(pairs, (trial) => trial.perCpuS)
  const perWall = ratios(pairs, (trial) => trial.perWallS)
  const ratioTable: Table = {
    columns: ['ratio over pairs', 'median [quartiles] (min–max)', 'pairs'],
    rows: [
      ['per CPU second', spread(spreadOf(perCpu)), shown(perCpu)],
      ['per wall second', spread(spreadOf(perWall)), shown(perWall)],
    ],
  }
  return {
    tables: [trialTable([pairs.ours, pairs.theirs]), ratioTable],
    data: { pairs, perCpuRatio: spreadOf(perCpu), perWallRatio: spreadOf(perWall) },
  }
}

function shown(found: readonly number[]): string {
  return found.length > pairsShownMax ? String(found.length) : found.map(number).join(' ')
}

/** One row for each group of trials of one system. */
export function trialTable(groups: readonly (readonly Trial[])[]): Table {
  return {
    columns: [
      'system',
      'conn.',
      'per CPU s, median [quartiles] (min–max)',
      'CPU µs/event',
      'per wall s',
      'ack ms p50 / p99',
      'arrival ms p50 / p99',
      'server CPU',
    ],
    rows: groups.flatMap((trials) => (trials[0] === undefined ? [] : [trialRow(trials[0], trials)])),
  }
}

function trialRow(first: Trial, trials: readonly Trial[]): string[] {
  const middle = (of: (trial: Trial) => number) => spreadOf(trials.map(of)).median
  const ackMs = { ...first.ackMs, p50: middle((trial) => trial.ackMs.p50), p99: middle((trial) => trial.ackMs.p99) }
  return [
    first.title,
    String(first.connections),
    spread(spreadOf(trials.map((trial) => trial.perCpuS))),
    number(middle((trial) => trial.cpuUsPerEvent)),
    number(middle((trial) => trial.perWallS)),
    latency(ackMs),
    first.arrivalMs === null
      ? '–'
      : latency({
          ...first.arrivalMs,
          p50: middle((trial) => trial.arrivalMs?.p50 ?? Number.NaN),
          p99: middle((trial) => trial.arrivalMs?.p99 ?? Number.NaN),
        }),
    percent(middle((trial) => trial.serverBusy)),
  ]
}
