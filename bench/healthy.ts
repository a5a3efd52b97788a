import { type Bench, type Trial, trial } from './bench.ts'
import type { Posthorn } from './posthorn.ts'
import { number, type Table, type Verdict } from './report.ts'
import { median } from './statistics.ts'

/** Events a second to a healthy endpoint, whatever else goes on: far from what the server can do. */
export const perSecond = 200
const runsShownMax = 10

/** A run against the healthy endpoint. */
export function healthyRun(bench: Bench, server: Posthorn, seconds: number): Promise<Trial> {
  const loop = { kind: 'open', perSecond } as const
  return trial(bench, server, { events: perSecond * seconds, connections: 64, loop, delivered: true })
}

export function arrivalP99(trials: readonly Trial[]): readonly number[] {
  return trials.map((each) => each.arrivalMs?.p99 ?? Number.NaN)
}

export function arrivalP50(trials: readonly Trial[]): readonly number[] {
  return trials.map((each) => each.arrivalMs?.p50 ?? Number.NaN)
}

/** Runs without a disturbance and runs during it, by what they are called. */
export type Disturbance = Readonly<{
  before: Readonly<{ title: string; trials: readonly Trial[] }>
  during: Readonly<{ title: string; trials: readonly Trial[] }>
}>

export function disturbanceTable({ before, during }: Disturbance): Table {
  const rows = [before, during].map(({ title, trials }) => [
    title,
    arrivalP99(trials).slice(0, runsShownMax).map(number).join(' '),
    number(median(arrivalP99(trials))),
    number(median(arrivalP50(trials))),
  ])
  return { columns: ['healthy endpoint', 'arrival p99 ms of each run', 'median', 'arrival p50 ms'], rows }
}

/** Against the worst run without it: what is within the machine's own spread says nothing. */
export function disturbanceVerdict({ before, during }: Disturbance, what: string): Verdict {
  const value = median(arrivalP99(during.trials)) / Math.max(...arrivalP99(before.trials))
  return { what, value, wanted: 'at most', must: 1.5, goal: 1.2, unit: '' }
}
