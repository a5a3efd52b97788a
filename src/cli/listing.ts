import type { Command } from 'commander'
import type { ApiClient, Query } from '../server/client.ts'
import { pageOf } from './answers.ts'
import { wholeNumber } from './arguments.ts'
import { type Column, type Format, ListPrinter } from './output.ts'
import type { Terminal } from './terminal.ts'

export type ListOptions = Readonly<{ output: Format; limit?: number; all?: boolean; cursor?: string }>

export type Listing = Readonly<{
  path: string
  query: Query
  options: ListOptions
  columns: readonly Column[]
  whenEmpty: string
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

/** Prints a list of the API; with `--all` it follows the cursors to the end. */
export async function printPages(terminal: Terminal, client: ApiClient, listing: Listing): Promise<void> {
  const { path, query, options, columns, whenEmpty } = listing
  const printer = new ListPrinter(terminal, options.output, columns)
  const limit = options.limit ?? (options.all ? limitMax : limitDefault)
  let cursor = options.cursor
  do {
    const page = pageOf(await client.get(path, { ...query, limit, cursor }))
    printer.add(page.items)
    cursor = page.next ?? undefined
  } while (options.all && cursor !== undefined)
  printer.end(whenEmpty)
  if (cursor !== undefined) terminal.say(`there are more: --all, or --cursor ${cursor}`)
}
