import { type Command, Option } from 'commander'
import { defaultTenant } from '../core/event.ts'
import { harmless } from '../core/harmless.ts'
import { type Cell, type Heading, Table } from './table.ts'
import { type Colour, printable, type Terminal } from './terminal.ts'

export const formats = ['table', 'json', 'jsonl'] as const
export type Format = (typeof formats)[number]

export type Row = Readonly<Record<string, unknown>>

/** One column of a table: its title, what it shows of an item, and in which colour. */
export type Column = Heading & Readonly<{ show: (item: Row) => string; colour?: (item: Row) => Colour | null }>

export const tenantColumn: Column = { title: 'TENANT', show: ({ tenant }) => textOf(tenant), usual: defaultTenant }

/** Adds `-o` and `--wide`, which every command has that prints data; `run` obeys `--wide`. */
export function withFormat(command: Command): Command {
  const option = new Option('-o, --output <format>', 'how to print the data').choices(formats).default('table')
  return command.addOption(option).option('--wide', 'all columns of a table, whole, however narrow the terminal is')
}

/** Prints items as they come, page by page: memory does not grow with their number. */
export class ListPrinter {
  readonly #terminal: Terminal
  readonly #format: Format
  readonly #columns: readonly Column[]
  readonly #table: Table
  #count = 0

  constructor(terminal: Terminal, format: Format, columns: readonly Column[]) {
    this.#terminal = terminal
    this.#format = format
    this.#columns = columns
    this.#table = new Table(columns, terminal.columns())
  }

  get count(): number {
    return this.#count
  }

  add(items: readonly Row[]): void {
    if (items.length === 0) return
    const isFirst = this.#count === 0
    this.#count += items.length
    switch (this.#format) {
      case 'table':
        this.#addToTable(items, isFirst)
        return
      case 'jsonl':
        for (const item of items) this.#terminal.print(JSON.stringify(item))
        return
      case 'json':
        items.forEach((item, index) => {
          this.#terminal.write(`${isFirst && index === 0 ? '[\n' : ',\n'}  ${harmless(JSON.stringify(item))}`)
        })
    }
  }

  /** `whenEmpty` tells a person what an empty table means. */
  end(whenEmpty: string): void {
    if (this.#format === 'json') this.#terminal.print(this.#count === 0 ? '[]' : '\n]')
    if (this.#format === 'table' && this.#count === 0) this.#terminal.say(whenEmpty)
    const { hidden } = this.#table
    if (hidden.length > 0) this.#terminal.say(`not shown: ${hidden.join(', ')} (--wide shows all)`)
  }

  #addToTable(items: readonly Row[], isFirst: boolean): void {
    const rows = items.map((item) => this.#columns.map((column) => cellOf(column, item, this.#terminal)))
    this.#table.fit(rows)
    if (isFirst) this.#terminal.print(this.#terminal.paint('bold', this.#table.header()))
    for (const line of this.#table.lines(rows)) this.#terminal.print(line)
  }
}

function cellOf({ show, colour }: Column, item: Row, terminal: Terminal): Cell {
  const text = printable(show(item))
  const name = colour?.(item) ?? null
  return name === null ? { text } : { text, paint: (shown) => terminal.paint(name, shown) }
}

/** Prints one thing: its fields under one another, or its JSON. */
export function printItem(
  terminal: Terminal,
  format: Format,
  item: Row,
  fields: readonly Field[] = fieldsOf(item),
): void {
  if (format !== 'table') {
    terminal.print(format === 'jsonl' ? JSON.stringify(item) : JSON.stringify(item, null, 2))
    return
  }
  const width = Math.max(0, ...fields.map(([name]) => name.length))
  for (const [name, text] of fields) terminal.print(`${terminal.paint('dim', name.padEnd(width))}  ${printable(text)}`)
}

export type Field = readonly [name: string, text: string]

/** Every field of an item that has a value, in its own words. */
export function fieldsOf(item: Row, leaveOut: readonly string[] = []): readonly Field[] {
  return Object.entries(item)
    .filter(([name, value]) => !leaveOut.includes(name) && value !== null && value !== undefined)
    .map(([name, value]) => [name, textOf(value)])
}

export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (typeof value === 'string') return value === '' ? '-' : value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (Array.isArray(value) && value.every((part) => typeof part === 'string')) return value.join(', ') || '-'
  return JSON.stringify(value)
}

/** Instants are exact where a program may read them, and easy on the eye on a terminal. */
export function instantText(terminal: Terminal, value: unknown): string {
  if (typeof value !== 'string' || terminal.columns() === null) return textOf(value)
  const at = Date.parse(value)
  return Number.isNaN(at) ? value : relative(at - Date.now())
}

/** A URL is whole where a program may read it, and without what all of them begin with on a terminal. */
export function urlText(terminal: Terminal, value: unknown): string {
  return terminal.columns() === null ? textOf(value) : textOf(value).replace(/^https?:\/\//, '')
}

function relative(aheadMs: number): string {
  const seconds = Math.round(Math.abs(aheadMs) / 1000)
  const size =
    seconds < 60
      ? `${seconds}s`
      : seconds < 3600
        ? `${Math.floor(seconds / 60)}m`
        : seconds < 86_400
          ? `${Math.floor(seconds / 3600)}h`
          : `${Math.floor(seconds / 86_400)}d`
  return aheadMs > 0 ? `in ${size}` : `${size} ago`
}

export function statusColour(item: Row): Colour | null {
  switch (item.status) {
    case 'delivered':
    case 'active':
      return 'green'
    case 'failed':
    case 'dead_letter':
    case 'disabled':
      return 'red'
    case 'pending':
    case 'processing':
    case 'running':
    case 'paused':
    case 'finished':
      return 'yellow'
    case 'settled':
      return Number(item.failedAgain) > 0 ? 'red' : 'green'
  }
  return null
}

/** Says "1 event", "2 events", "1,234 events". */
export function counted(count: number, noun: string): string {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${count.toLocaleString('en')} ${count === 1 ? noun : plural}`
}
