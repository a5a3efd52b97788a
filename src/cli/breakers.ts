import { type Command, Option } from 'commander'
import { ApiClient } from '../server/client.ts'
import { pageOf, rowOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import {
  type Column,
  type Format,
  instantText,
  ListPrinter,
  printItem,
  type Row,
  tenantColumn,
  textOf,
  urlText,
  withFormat,
} from './output.ts'
import { probeText } from './status-screen.ts'
import type { Colour, Terminal } from './terminal.ts'

export function addBreakers(program: Command, terminal: Terminal): void {
  const breakers = program.command('breakers').description('see what keeps endpoints from being tried, and end it')
  const list = breakers
    .command('list')
    .description('list the breaker and the hold of every endpoint')
    .addOption(new Option('--state <state>', 'only these').choices(['closed', 'open', 'half_open']))
    .option('--tenant <name>', 'only of this tenant')
  withFormat(list).action(async ({ output, state, tenant }: { output: Format; state?: string; tenant?: string }) => {
    const client = new ApiClient(clientSettings(terminal.env))
    const printer = new ListPrinter(terminal, output, columns(terminal))
    const { items } = pageOf(await client.get('/v1/breakers', { state, tenant }))
    printer.add(items)
    printer.end('no endpoint matches')
  })
  const reset = breakers
    .command('reset')
    .description('close the breaker and end the hold now; what waits is let go at a ramp')
    .argument('<endpoint>', 'ep_…')
  withFormat(reset).action(async (id: string, { output }: { output: Format }) => {
    const client = new ApiClient(clientSettings(terminal.env))
    const breaker = rowOf(await client.post(`/v1/breakers/${encodeURIComponent(id)}/reset`))
    if (output === 'table') terminal.say(`the breaker of ${id} is ${textOf(breaker.state)}`)
    else printItem(terminal, output, breaker)
  })
}

function columns(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ENDPOINT', show: ({ endpointId }) => textOf(endpointId) },
    { title: 'STATE', show: ({ state }) => textOf(state), colour: stateColour },
    { title: 'FAILURES', show: ({ failures }) => textOf(failures), rank: 8 },
    { title: 'WAITING', show: ({ waiting }) => textOf(waiting), rank: 3 },
    { title: 'NEXT PROBE', show: (item) => (item.state === 'closed' ? '-' : probeText(item, Date.now())), rank: 4 },
    { title: 'LAST ERROR', show: (item) => (isFailing(item) ? textOf(item.lastError) : '-'), min: 16, rank: 2 },
    { title: 'TARGET', show: ({ target }) => urlText(terminal, target), min: 20, rank: 6 },
    { title: 'HELD UNTIL', show: ({ heldUntil }) => instantText(terminal, heldUntil), rank: 5 },
    { title: 'FAILING SINCE', show: ({ failingSince }) => instantText(terminal, failingSince), min: 13, rank: 7 },
    tenantColumn,
  ]
}

/** The error of an endpoint that is well again is old news. */
function isFailing({ state, failingSince }: Row): boolean {
  return state !== 'closed' || typeof failingSince === 'string'
}

function stateColour({ state }: Row): Colour | null {
  switch (state) {
    case 'closed':
      return 'green'
    case 'open':
      return 'red'
    case 'half_open':
      return 'yellow'
  }
  return null
}
