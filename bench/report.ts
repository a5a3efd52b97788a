import type { Latency, Spread } from './statistics.ts'

export type Table = Readonly<{ columns: readonly string[]; rows: readonly (readonly string[])[] }>

/** A figure against what was asked of it. `goal` is what we aim at, `must` what may not be missed. */
export type Verdict = Readonly<{
  what: string
  value: number
  wanted: 'at least' | 'at most'
  must: number
  goal: number | null
  unit: string
}>

export type Mark = 'goal' | 'pass' | 'FAIL'

/** What a figure has to say. `data` goes to the JSON file as it is. */
export type FigureResult = Readonly<{
  tables: readonly Table[]
  verdicts: readonly Verdict[]
  notes: readonly string[]
  data: unknown
}>

export function markOf({ value, wanted, must, goal }: Verdict): Mark {
  const holds = (limit: number) => (wanted === 'at least' ? value >= limit : value <= limit)
  if (goal !== null && holds(goal)) return 'goal'
  return holds(must) ? 'pass' : 'FAIL'
}

export function renderVerdict(verdict: Verdict): string {
  const { what, value, wanted, must, goal, unit } = verdict
  const limits = goal === null ? `must be ${wanted} ${must}` : `must be ${wanted} ${must}, goal ${goal}`
  return `  [${markOf(verdict)}] ${what}: ${number(value)}${unit} (${limits}${unit})`
}

export function renderTable({ columns, rows }: Table): string {
  const widths = columns.map((column, at) => Math.max(column.length, ...rows.map((row) => row[at]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    `  ${cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')}`
  return [line(columns), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

/** Three figures that mean something, however large the number is. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  const size = Math.abs(value)
  if (size >= 100) return Math.round(value).toLocaleString('en-US')
  return value.toFixed(size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3)
}

export function percent(share: number): string {
  return `${number(share * 100)} %`
}

/** Median, then the quartiles, then the ends. */
export function spread({ median, low, high, min, max }: Spread): string {
  return `${number(median)} [${number(low)}–${number(high)}] (${number(min)}–${number(max)})`
}

export function latency({ p50, p99 }: Latency): string {
  return `${number(p50)} / ${number(p99)}`
}
