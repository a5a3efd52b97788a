import type { Command } from 'commander'
import type { ApiClient, Query } from '../server/client.ts'
import { type AnswerPage, pageOf } from './answers.ts'
import { wholeNumber } from './arguments.ts'
import { type Column, type Format, ListPrinter, type Row } from './output.ts'
import type { Terminal } from './terminal.ts'

export type ListOptions = Readonly<{ output: Format; limit?: number; all?: boolean; cursor?: string }>

export type Listing = Readonly<{
  path: string
  query: Query
  options: ListOptions
  columns: readonly Column[]
  /** What a table shows besides the items themselves; called with each page before it is printed. */
  learn?: (items: readonly Row[]) => Promise<void>
  /** Asked for only when there is nothing. */
  whenEmpty: string | (() => Promise<string>)
}>

const limitMax = 500
const limitDefault = 50

export function withPaging(command: Command): Command {
  return command
    .option(
      '--limit <n>',
      `how many (default ${limitDefault}; with --all, how many at a time)`,
      wholeNumber(1, limitMax),
    )
    .option('--cursor <cursor>', 'go on where an earlier list ended')
    .option('--all', 'all of them, page by page')
}

/** The pages of a list to its end, from `cursor` on. */
export async function* pages(client: ApiClient, path: string, query: Query): AsyncGenerator<AnswerPage> {
  let cursor = query.cursor
  do {
    const page = pageOf(await client.get(path, { ...query, limit: query.limit ?? limitMax, cursor }))
    yield page
    cursor = page.next ?? undefined
  } while (cursor !== undefined)
}

/** Everything of a list that has an end: it is kept in memory. */
export async function allItems(client: ApiClient, path: string, query: Query): Promise<readonly Row[]> {
  const items: Row[] = []
  for await (const page of pages(client, path, query)) items.push(...page.items)
  return items
}

/** Prints a list of the API; with `--all` it follows the cursors to the end. */
export async function printPages(terminal: Terminal, client: ApiClient, listing: Listing): Promise<void> {
  const { path, query, options, columns, whenEmpty, learn } = listing
  const printer = new ListPrinter(terminal, options.output, columns)
  const limit = options.limit ?? (options.all ? limitMax : limitDefault)
  let next: string | null = null
  let count = 0
  for await (const page of pages(client, path, { ...query, limit, cursor: options.cursor })) {
    if (options.output === 'table') await learn?.(page.items)
    printer.add(page.items)
    next = page.next
    count += page.items.length
    // A page may hold few, or none, of what matches rarely, and not be the last.
    if (!options.all && count > 0) break
  }
  if (typeof whenEmpty === 'string') printer.end(whenEmpty)
  else printer.end(count === 0 ? await whenEmpty() : '')
  if (next !== null) terminal.say(`there are more: --all, or --cursor ${next}`)
}
