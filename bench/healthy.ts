import { type Bench, type Trial, trial } from './bench.ts'
import type { Posthorn } from './posthorn.ts'
import { number, type Table, type Verdict } from './report.ts'
import { median } from './statistics.ts'

/** Events a second to a healthy endpoint, whatever else goes on: far from what the server can do. */
export const perSecond = 200
const runsShownMax = 16
const secondsPerRun = 5
const disturbedMsMax = 20 * 60_000

/** A run against the healthy endpoint. */
export function healthyRun(bench: Bench, server: Posthorn, seconds: number): Promise<Trial> {
  const loop = { kind: 'open', perSecond } as const
  return trial(bench, server, { events: perSecond * seconds, connections: 64, loop, delivered: true })
}

/** Runs one after the other, for as many as are asked for. */
export async function healthyRuns(bench: Bench, server: Posthorn, count: number): Promise<readonly Trial[]> {
  const trials: Trial[] = []
  for (let run = 0; run < count; run++) trials.push(await healthyRun(bench, server, secondsPerRun))
  return trials
}

/** Runs one after the other while it is so. */
export async function healthyRunsWhile(
  bench: Bench,
  server: Posthorn,
  isSo: () => Promise<boolean>,
): Promise<readonly Trial[]> {
  const giveUpAt = performance.now() + disturbedMsMax
  const trials: Trial[] = []
  while ((await isSo()) && performance.now() < giveUpAt) trials.push(await healthyRun(bench, server, secondsPerRun))
  return trials
}

export function arrivalP99(trials: readonly Trial[]): readonly number[] {
  return trials.map((each) => each.arrivalMs?.p99 ?? Number.NaN)
}

export function arrivalP50(trials: readonly Trial[]): readonly number[] {
  return trials.map((each) => each.arrivalMs?.p50 ?? Number.NaN)
}

/** Runs without a disturbance, before and after it, and runs during it, by what they are called. */
export type Disturbance = Readonly<{
  without: Readonly<{ title: string; trials: readonly Trial[] }>
  during: Readonly<{ title: string; trials: readonly Trial[] }>
}>

export function disturbanceTable({ without, during }: Disturbance): Table {
  const rows = [without, during].map(({ title, trials }) => [
    title,
    arrivalP99(trials).slice(0, runsShownMax).map(number).join(' '),
    number(median(arrivalP99(trials))),
    number(median(arrivalP50(trials))),
  ])
  return { columns: ['healthy endpoint', 'arrival p99 ms of each run', 'median', 'arrival p50 ms'], rows }
}

export function disturbanceVerdict({ without, during }: Disturbance, what: string): Verdict {
  const value = median(arrivalP99(during.trials)) / median(arrivalP99(without.trials))
  return { what, value, wanted: 'at most', must: 1.5, goal: 1.2, unit: '' }
}

/** How far the runs without it lie apart by themselves. */
export function ownSpread({ without }: Disturbance): string {
  const found = arrivalP99(without.trials)
  return `the runs without it lie ${number(Math.max(...found) / Math.min(...found))}× apart by themselves`
}
