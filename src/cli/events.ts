import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { since } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { deliveryColumns } from './deliveries.ts'
import { endpointNames } from './endpoint-names.ts'
import { allItems, type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  type Format,
  fieldsOf,
  instantText,
  ListPrinter,
  printItem,
  tenantColumn,
  textOf,
  withFormat,
} from './output.ts'
import type { Terminal } from './terminal.ts'

type EventFilter = ListOptions &
  Readonly<{ type?: string; key?: string; tenant?: string; since?: string; until?: string }>

export function addEvents(program: Command, terminal: Terminal): void {
  const events = program.command('events').description('see what was accepted')
  const list = events
    .command('list')
    .description('list events, newest first')
    .option('--type <type>', 'only of this type, or pattern like order.*')
    .option('--key <key>', 'only with this key')
    .option('--tenant <name>', 'only of this tenant')
    .option('--since <when>', 'only received since then: 2h (ago), or an instant', since)
    .option('--until <when>', 'only received before then: 2h (ago), or an instant', since)
  withFormat(withPaging(list)).action((options: EventFilter) => listEvents(terminal, options))

  const show = events.command('show').description('show an event and its deliveries').argument('<id>', 'evt_…')
  withFormat(show).action((id: string, options: { output: Format }) => showEvent(terminal, id, options.output))

  const body = events.command('body').description('write the exact bytes of the body').argument('<id>', 'evt_…')
  body.action((id: string) => writeBody(terminal, id))
}

function eventColumns(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'TYPE', show: ({ type }) => textOf(type) },
    { ...tenantColumn, rank: 6 },
    { title: 'KEY', show: ({ key }) => textOf(key) },
    { title: 'SIZE', show: ({ size }) => textOf(size) },
    {
      title: 'DELIVERIES',
      show: ({ deliveries }) => textOf(Array.isArray(deliveries) ? deliveries.length : deliveries),
    },
    { title: 'RECEIVED', rank: 2, show: ({ receivedAt }) => instantText(terminal, receivedAt) },
  ]
}

async function listEvents(terminal: Terminal, options: EventFilter): Promise<void> {
  const { type, key, tenant, since: from, until: to } = options
  await printPages(terminal, new ApiClient(clientSettings(terminal.env)), {
    path: '/v1/events',
    query: { type, key, tenant, from, to },
    options,
    columns: eventColumns(terminal),
    whenEmpty: 'no event matches',
  })
}

async function showEvent(terminal: Terminal, id: string, format: Format): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const event = rowOf(await client.get(`/v1/events/${encodeURIComponent(id)}`))
  const deliveries = await allItems(client, '/v1/deliveries', { event: id })
  printItem(terminal, format, { ...event, deliveries }, fieldsOf(event, ['deliveries']))
  if (format !== 'table') return
  if (deliveries.length > 0) terminal.print('')
  const names = endpointNames(client)
  await names.learn(deliveries)
  const printer = new ListPrinter(terminal, format, deliveryColumns(terminal, { names }))
  printer.add(deliveries)
  printer.end('no endpoint wanted it')
}

async function writeBody(terminal: Terminal, id: string): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  terminal.write(await client.bytes(`/v1/events/${encodeURIComponent(id)}/body`))
}
