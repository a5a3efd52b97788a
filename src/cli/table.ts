import { stripVTControlCharacters } from 'node:util'

export type Cell = Readonly<{ text: string; paint?: (text: string) => string }>

const gap = '  '
const narrowestColumn = 4
/** What a person copies from here is of no use when something is missing. */
const wholeColumns: ReadonlySet<string> = new Set(['ID', 'SAMPLE'])
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/**
 * Lays rows out in columns, page by page: widths only grow, so that what was printed stays in line with what follows.
 * With `columns` null nothing is cut: what leaves through a pipe is complete.
 */
export class Table {
  readonly #titles: readonly string[]
  readonly #columns: number | null
  #widths: readonly number[]

  constructor(titles: readonly string[], columns: number | null) {
    this.#titles = titles
    this.#columns = columns
    this.#widths = titles.map(widthOf)
  }

  header(): string {
    return this.#line(this.#titles.map((text) => ({ text })))
  }

  /** Call before `header` with the first rows, so that the titles stand above their columns. */
  fit(rows: readonly (readonly Cell[])[]): void {
    const natural = this.#widths.map((width, column) =>
      rows.reduce((most, row) => Math.max(most, widthOf(row[column]?.text ?? '')), width),
    )
    this.#widths =
      this.#columns === null
        ? natural
        : shrink(natural, this.#columns, (column) => wholeColumns.has(this.#titles[column] ?? ''))
  }

  lines(rows: readonly (readonly Cell[])[]): readonly string[] {
    return rows.map((row) => this.#line(row))
  }

  #line(cells: readonly Cell[]): string {
    const last = cells.length - 1
    const parts = cells.map(({ text, paint }, column) => {
      const width = this.#widths[column] ?? 0
      const shown = this.#columns === null ? text : cut(text, width)
      const padding = column === last ? '' : ' '.repeat(Math.max(0, width - widthOf(shown)))
      return `${paint === undefined ? shown : paint(shown)}${padding}`
    })
    return parts.join(gap).trimEnd()
  }
}

/** Takes from the widest column, again and again, until the line fits. */
function shrink(natural: readonly number[], columns: number, isWhole: (column: number) => boolean): readonly number[] {
  const widths = [...natural]
  let over = widths.reduce((sum, width) => sum + width + gap.length, -gap.length) - columns
  while (over > 0) {
    const widest = widths.indexOf(Math.max(...widths.filter((_, column) => !isWhole(column))))
    const width = widths[widest] ?? 0
    if (width <= narrowestColumn) return widths
    widths[widest] = width - 1
    over -= 1
  }
  return widths
}

/** The text within a width, ending in … when something had to go. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let shown = ''
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    used += graphemeWidth(segment)
    if (used > width - 1) break
    shown += segment
  }
  return `${shown}…`
}

/** The text in pieces that are no wider than that. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = []
  let line = ''
  let used = 0
  for (const { segment } of graphemes.segment(text)) {
    const size = graphemeWidth(segment)
    if (used + size > width) {
      lines.push(line)
      line = ''
      used = 0
    }
    line += segment
    used += size
  }
  return [...lines, line]
}

export function widthOf(text: string): number {
  const plain = stripVTControlCharacters(text)
  if (/^[\x20-\x7e]*$/.test(plain)) return plain.length
  let width = 0
  for (const { segment } of graphemes.segment(plain)) width += graphemeWidth(segment)
  return width
}

function graphemeWidth(grapheme: string): number {
  return wide.test(grapheme) ? 2 : 1
}
