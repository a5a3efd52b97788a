import type { Command } from 'commander'
import { deliveryStatuses } from '../core/delivery.ts'
import { ApiClient } from '../server/client.ts'
import { isRow, rowOf } from './answers.ts'
import { addCancel } from './cancel.ts'
import { clientSettings } from './client-settings.ts'
import { type DeliveryFlags, queryOf, withDeliveryFlags } from './delivery-flags.ts'
import { printAttempt, printSent } from './delivery-page.ts'
import { type EndpointNames, endpointNames } from './endpoint-names.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  type Field,
  type Format,
  fieldsOf,
  instantText,
  printItem,
  type Row,
  statusColour,
  textOf,
  withFormat,
} from './output.ts'
import type { Terminal } from './terminal.ts'
import { waitReason } from './wait-words.ts'

type Listing = ListOptions & DeliveryFlags

export function addDeliveries(program: Command, terminal: Terminal): void {
  const deliveries = program.command('deliveries').description('see what was delivered, what waits and what failed')
  const list = deliveries.command('list').description('list deliveries, newest first')
  withFormat(withPaging(withDeliveryFlags(list, deliveryStatuses))).action((options: Listing) =>
    listDeliveries(terminal, options),
  )

  addShow(deliveries, terminal, 'show a delivery: what was sent, and what came back of every attempt')

  const retry = deliveries
    .command('retry')
    .description('end its wait and try it now; a dead letter gets a fresh budget, a delivered one is sent again')
    .argument('<id...>', 'dlv_…')
  retry.action((ids: readonly string[]) => retryDeliveries(terminal, ids))

  addCancel(deliveries, terminal)
}

type Shown = Readonly<{ names?: EndpointNames; status?: string | undefined }>

/**
 * With `names` what people call the endpoint stands beside its id, and stays when there is no room for the id. `status`:
 * the one that was asked for, which tells nothing.
 */
export function deliveryColumns(terminal: Terminal, { names, status: usual }: Shown = {}): readonly Column[] {
  const target: Column = { title: 'TARGET', show: ({ endpointId }) => names?.of(endpointId) ?? '-', min: 20, rank: 4 }
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    {
      title: 'STATUS',
      show: ({ status }) => textOf(status),
      colour: statusColour,
      ...(usual !== undefined && { usual }),
    },
    { title: 'TYPE', show: ({ type }) => textOf(type), min: 16, rank: 5 },
    { title: 'ENDPOINT', show: ({ endpointId }) => textOf(endpointId), rank: names === undefined ? 4 : 9 },
    ...(names === undefined ? [] : [target]),
    { title: 'ATTEMPTS', show: ({ attempts }) => textOf(attempts), rank: 7 },
    { title: 'RECEIVED', show: ({ receivedAt }) => instantText(terminal, receivedAt), rank: 8 },
    { title: 'WAITS FOR', show: (item) => waitText(terminal, item), min: 14, rank: 3 },
    { title: 'REASON', show: ({ reason }) => textOf(reason), min: 16, rank: 6 },
    { title: 'LAST ERROR', show: errorText, min: 18, rank: 2 },
  ]
}

/** What it waits for and until when; never an instant that is over. */
function waitText(terminal: Terminal, { status, waitsFor, waitsUntil }: Row): string {
  if (status !== 'pending') return '-'
  if (typeof waitsFor !== 'string') return 'its turn'
  const isAhead = typeof waitsUntil === 'string' && Date.parse(waitsUntil) > Date.now()
  return isAhead ? `${waitsFor} ${instantText(terminal, waitsUntil)}` : waitsFor
}

/** What never had a try of its own waits because of the endpoint's error. */
function errorText({ lastError, endpointError }: Row): string {
  if (typeof lastError === 'string' || typeof endpointError !== 'string') return textOf(lastError)
  return `endpoint: ${endpointError}`
}

async function listDeliveries(terminal: Terminal, options: Listing): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const names = endpointNames(client)
  await printPages(terminal, client, {
    path: '/v1/deliveries',
    query: queryOf(options),
    options,
    columns: deliveryColumns(terminal, { names, status: options.status?.join() }),
    learn: names.learn,
    whenEmpty: 'no delivery matches',
  })
}

/** For deliveries, and for those of them that are dead letters. */
export function addShow(parent: Command, terminal: Terminal, about: string): void {
  const show = parent
    .command('show')
    .description(about)
    .argument('<id>', 'dlv_…')
    .option('--full', 'show the whole body that was sent')
  withFormat(show).action((id: string, { output, full = false }: { output: Format; full?: boolean }) =>
    showDelivery(terminal, id, output, full),
  )
}

async function showDelivery(terminal: Terminal, id: string, format: Format, full: boolean): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const delivery = rowOf(await client.get(`/v1/deliveries/${encodeURIComponent(id)}`))
  const leaveOut = ['attemptLog', 'request', ...oldNews(delivery)]
  const fields = fieldsOf(delivery, leaveOut).map(([name, text]): Field => {
    return name === 'waitsFor' ? [name, waitReason(terminal, delivery) ?? text] : [name, text]
  })
  printItem(terminal, format, delivery, fields)
  if (format !== 'table') return
  const attempts = Array.isArray(delivery.attemptLog) ? delivery.attemptLog.filter(isRow) : []
  if (attempts.length === 0) terminal.say('no attempt yet')
  await printSent(terminal, client, delivery, full)
  for (const attempt of attempts) printAttempt(terminal, attempt)
}

/** The date of a backoff that is over says nothing about the next try; `waitsFor` does. */
function oldNews({ retryAfter }: Row): readonly string[] {
  return typeof retryAfter === 'string' && Date.parse(retryAfter) <= Date.now() ? ['retryAfter'] : []
}

async function retryDeliveries(terminal: Terminal, ids: readonly string[]): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  for (const id of ids) {
    const delivery = rowOf(await client.post(`/v1/deliveries/${encodeURIComponent(id)}/retry`))
    const reason = waitReason(terminal, delivery)
    terminal.say(`${textOf(delivery.id)} ${reason === null ? 'is due now' : `still waits: ${reason}`}`)
  }
}
