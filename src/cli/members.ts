import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { pageOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { type Column, type Format, instantText, ListPrinter, textOf, withFormat } from './output.ts'
import type { Terminal } from './terminal.ts'

export function addMembers(program: Command, terminal: Terminal): void {
  const members = program.command('members').description('list the processes that share the database')
  withFormat(members).action(async ({ output }: { output: Format }) => {
    const client = new ApiClient(clientSettings(terminal.env))
    const printer = new ListPrinter(terminal, output, columns(terminal))
    const { items } = pageOf(await client.get('/v1/members'))
    printer.add(items)
    printer.end('no process is a member')
  })
}

function columns(terminal: Terminal): readonly Column[] {
  return [
    { title: 'MEMBER', show: ({ id }) => textOf(id) },
    { title: 'HOST', show: ({ host }) => textOf(host), rank: 2 },
    { title: 'PID', show: ({ pid }) => textOf(pid), rank: 1 },
    { title: 'LEADER', show: ({ leader }) => (leader === true ? 'yes' : '-') },
    { title: 'LAST BEAT', show: ({ beatMs }) => (typeof beatMs === 'number' ? `${beatMs} ms ago` : '-') },
    { title: 'SERVES', show: ({ serves }) => servesText(serves), rank: 5 },
    { title: 'SINCE', show: ({ since }) => instantText(terminal, since), rank: 3 },
    { title: 'VERSION', show: ({ version }) => textOf(version), rank: 4 },
  ]
}

/** What not every member serves. */
function servesText(serves: unknown): string {
  const { handlers = [], hubs = [] } = serves as { handlers?: readonly string[]; hubs?: readonly string[] }
  const counts = [
    handlers.length === 0 ? '' : `${handlers.length} ${handlers.length === 1 ? 'handler' : 'handlers'}`,
    hubs.length === 0 ? '' : `${hubs.length} ${hubs.length === 1 ? 'hub' : 'hubs'}`,
  ].filter((text) => text !== '')
  return counts.length === 0 ? '-' : counts.join(', ')
}
