import { stripVTControlCharacters } from 'node:util'

export type Cell = Readonly<{ text: string; paint?: (text: string) => string }>

/**
 * `rank`: columns with a higher one are left out first when room is short; by default the place. `min`: the width it can
 * be cut to. `usual`: the text that tells nothing, such as the default tenant; a column with nothing else counts as empty.
 */
export type Heading = Readonly<{ title: string; rank?: number; min?: number; usual?: string }>

/** Of each column: of its longest text, and what that can be cut to. */
type Widths = Readonly<{ natural: readonly number[]; floors: readonly number[] }>

const gap = '  '
const narrowestColumn = 4
const minDefault = 12
/** What a person copies from here is of no use when something is missing. */
const wholeId = /(?:^|[^0-9a-z])[a-z]{2,3}_[0-9a-z]{20,23}(?![0-9a-z])/
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/**
 * Lays rows out in columns, page by page: widths only grow, so that what was printed stays in line with what follows.
 * Where the terminal is too narrow, long texts are cut down to a width at which they still tell something; then columns
 * are left out, the least important ones first. An id is never cut. With `columns` null nothing is cut or left out: what
 * leaves through a pipe is complete.
 */
export class Table {
  readonly #headings: readonly Heading[]
  readonly #columns: number | null
  #widths: readonly number[]
  /** Which columns there is room for; null until the first rows are there. */
  #shown: readonly number[] | null = null
  #hidden: readonly string[] = []

  constructor(headings: readonly Heading[], columns: number | null) {
    this.#headings = headings
    this.#columns = columns
    this.#widths = headings.map(({ title }) => widthOf(title))
  }

  /** The titles of the columns that tell something and had to be left out. */
  get hidden(): readonly string[] {
    return this.#hidden
  }

  header(): string {
    return this.#line(this.#headings.map(({ title }) => ({ text: title })))
  }

  /** Call before `header` with the first rows, so that the titles stand above their columns. */
  fit(rows: readonly (readonly Cell[])[]): void {
    const natural = this.#widths.map((width, column) =>
      rows.reduce((most, row) => Math.max(most, widthOf(row[column]?.text ?? '')), width),
    )
    if (this.#columns === null) {
      this.#widths = natural
      return
    }
    const floors = natural.map((width, column) => {
      const isWhole = rows.some((row) => wholeId.test(row[column]?.text ?? ''))
      return isWhole ? width : Math.min(width, this.#headings[column]?.min ?? minDefault)
    })
    this.#shown ??= this.#choose(rows, { natural, floors }, this.#columns)
    this.#widths = shrink(natural, this.#columns, floors, this.#shown)
  }

  lines(rows: readonly (readonly Cell[])[]): readonly string[] {
    return rows.map((row) => this.#line(row))
  }

  /**
   * Takes columns by their importance as long as there is room. One that is empty all the way comes last, and only where
   * nothing else is cut for it.
   */
  #choose(rows: readonly (readonly Cell[])[], { natural, floors }: Widths, columns: number): readonly number[] {
    const isEmpty = (column: number) => {
      const telling = (text: string) => text !== '-' && text !== this.#headings[column]?.usual
      return rows.length > 0 && !rows.some((row) => telling(row[column]?.text ?? '-'))
    }
    const rankOf = (column: number) =>
      (isEmpty(column) ? this.#headings.length : 0) + (this.#headings[column]?.rank ?? column)
    const byRank = floors.map((_, column) => column).sort((a, b) => rankOf(a) - rankOf(b))
    const shown: number[] = []
    for (const column of byRank) {
      const needed = lineWidth(isEmpty(column) ? natural : floors, [...shown, column])
      if (shown.length === 0 || needed <= columns) shown.push(column)
    }
    const left = byRank.filter((column) => !shown.includes(column) && !isEmpty(column))
    this.#hidden = left.sort((a, b) => a - b).map((column) => this.#headings[column]?.title ?? '')
    return shown.sort((a, b) => a - b)
  }

  #line(cells: readonly Cell[]): string {
    const shown = this.#shown ?? cells.map((_, column) => column)
    const last = shown.at(-1)
    const parts = shown.map((column) => {
      const { text, paint } = cells[column] ?? { text: '' }
      const width = this.#widths[column] ?? 0
      const fitted = this.#columns === null ? text : cut(text, width)
      const padding = column === last ? '' : ' '.repeat(Math.max(0, width - widthOf(fitted)))
      return `${paint === undefined ? fitted : paint(fitted)}${padding}`
    })
    return parts.join(gap).trimEnd()
  }
}

/**
 * Takes from the widest column that is above its floor, again and again, until the line fits. A later page may have
 * less room than the first, for which the columns were chosen: then a text may be cut further.
 */
function shrink(
  natural: readonly number[],
  columns: number,
  floors: readonly number[],
  shown: readonly number[],
): readonly number[] {
  const widths = [...natural]
  let over = lineWidth(widths, shown) - columns
  const least = [floors, floors.map((floor, column) => (floor === natural[column] ? floor : narrowestColumn))]
  for (const floor of least) {
    while (over > 0) {
      const wider = shown.filter((column) => (widths[column] ?? 0) > (floor[column] ?? 0))
      const widest = wider.sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0))[0]
      if (widest === undefined) break
      widths[widest] = (widths[widest] ?? 0) - 1
      over -= 1
    }
  }
  return widths
}

function lineWidth(widths: readonly number[], shown: readonly number[]): number {
  return shown.reduce((sum, column) => sum + (widths[column] ?? 0) + gap.length, -gap.length)
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

/** The text in lines that end between words, those after the first indented. A word that is too long is cut. */
export function wrapWords(text: string, width: number, indent: number): readonly string[] {
  if (widthOf(text) <= width) return [text]
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<=\S )(?=\S)/)) {
    if (line.trim() !== '' && widthOf(`${line}${word}`.trimEnd()) > width) {
      lines.push(line)
      line = ' '.repeat(indent)
    }
    line += word
  }
  return [...lines, line].map((one) => cut(one.trimEnd(), width))
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
