import type { Simulated } from '../core/simulation.ts'
import type { Colour } from './terminal.ts'

export type Plot = Readonly<{
  load: Simulated['load']
  intervalMs: number
  /** How many intervals are drawn. */
  intervals: number
  outageMs: number
  /** What the highest bar stands for: two plots can be compared when they share it. */
  peak: number
}>

export type Interval = Readonly<{ tries: number; failedTries: number }>

const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
/** Lengths that people think in; an interval is never shorter than what the simulation counts by. */
const niceMs = [
  ...[1, 2, 3, 5, 10, 15, 20, 30].map((count) => count * secondMs),
  ...[1, 2, 3, 5, 10, 15, 20, 30].map((count) => count * minuteMs),
  ...[1, 2, 3, 6, 12].map((count) => count * hourMs),
  ...[1, 2, 7, 14, 30].map((count) => count * dayMs),
]
const eighths = ' ▁▂▃▄▅▆▇█'
const rows = 8

/** The shortest nice interval with which all of it fits into so many columns. */
export function intervalFor(lengthMs: number, columns: number): number {
  const least = lengthMs / Math.max(1, columns)
  return niceMs.find((ms) => ms >= least) ?? Math.ceil(least / dayMs) * dayMs
}

export function intervalsOf({ load, intervalMs, intervals }: Omit<Plot, 'peak'>): readonly Interval[] {
  const sums = Array.from({ length: intervals }, () => ({ tries: 0, failedTries: 0 }))
  for (const { second, tries, failedTries } of load) {
    const sum = sums[Math.floor((second * secondMs) / intervalMs)]
    if (sum === undefined) continue
    sum.tries += tries
    sum.failedTries += failedTries
  }
  return sums
}

/** Bars over time: what failed in red, the outage marked below. */
export function plotLines(plot: Plot, paint: (colour: Colour, text: string) => string): readonly string[] {
  const { intervalMs, intervals, outageMs, peak } = plot
  const sums = intervalsOf(plot)
  const top = peak.toLocaleString('en')
  const margin = ' '.repeat(top.length)
  const lines = Array.from({ length: rows }, (_, index) => {
    const bars = sums.map((sum) => painted(sum, barPiece(sum.tries, peak, rows - 1 - index), paint)).join('')
    return `${index === 0 ? top : margin} │${bars}`.trimEnd()
  })
  const down = Math.min(intervals, Math.ceil(outageMs / intervalMs))
  return [
    ...lines,
    `${'0'.padStart(top.length)} └${'─'.repeat(intervals)}`,
    `${margin}  ${paint('yellow', outageMark(down))}`.trimEnd(),
    `${margin}  ${timeLabels(plot, down)}`.trimEnd(),
  ]
}

/** The piece of a bar that lies in one row; whatever was tried at all shows at least a little. */
function barPiece(tries: number, peak: number, row: number): string {
  const height = tries === 0 ? 0 : Math.max(1, Math.round((tries / Math.max(1, peak)) * rows * 8))
  return eighths[Math.max(0, Math.min(8, height - row * 8))] ?? ' '
}

function painted({ tries, failedTries }: Interval, piece: string, paint: (colour: Colour, text: string) => string) {
  if (piece === ' ') return piece
  return paint(failedTries * 2 > tries ? 'red' : 'green', piece)
}

function outageMark(columns: number): string {
  const word = ' outage '
  if (columns < word.length + 2) return '▒'.repeat(columns)
  const left = Math.floor((columns - word.length) / 2)
  return `${'▒'.repeat(left)}${word}${'▒'.repeat(columns - word.length - left)}`
}

function timeLabels({ intervalMs, intervals, outageMs }: Plot, down: number): string {
  const end = timeText(intervals * intervalMs)
  const labels = [
    [0, '0s'],
    [down, timeText(outageMs)],
    [intervals - end.length, end],
  ] as const
  return labels.reduce((line, [column, text]) => {
    const isFree = line === '' || column > line.length + 1
    return isFree ? line.padEnd(column) + text : line
  }, '')
}

/** The two largest units: `45s`, `12m 30s`, `3h`, `2d 4h`. */
export function timeText(ms: number): string {
  const units = [
    ['d', Math.floor(ms / dayMs)],
    ['h', Math.floor(ms / hourMs) % 24],
    ['m', Math.floor(ms / minuteMs) % 60],
    ['s', Math.floor(ms / secondMs) % 60],
  ] as const
  const from = units.findIndex(([, count]) => count > 0)
  if (from < 0) return ms === 0 ? '0s' : `${ms}ms`
  return units
    .slice(from, from + 2)
    .filter(([, count]) => count > 0)
    .map(([unit, count]) => `${count}${unit}`)
    .join(' ')
}
