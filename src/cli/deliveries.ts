import { type Command, Option } from 'commander'
import { deliveryStatuses } from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import type { WaitsFor } from '../core/waiting.ts'
import { ApiClient } from '../server/client.ts'
import { isRow, rowOf } from './answers.ts'
import { since } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { type EndpointNames, endpointNames } from './endpoint-names.ts'
import { CommandFailed } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  counted,
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
import { printable, type Terminal } from './terminal.ts'

type DeliveryFilter = ListOptions &
  Readonly<{
    status?: string
    endpoint?: string
    replay?: string
    event?: string
    type?: string
    tenant?: string
    reason?: string
    error?: string
    since?: string
  }>

export function addDeliveries(program: Command, terminal: Terminal): void {
  const deliveries = program.command('deliveries').description('see what was delivered, what waits and what failed')
  const list = deliveries
    .command('list')
    .description('list deliveries, newest first')
    .addOption(new Option('--status <status>', 'only these').choices(deliveryStatuses))
    .option('--endpoint <id>', 'only to this endpoint')
    .option('--replay <id>', 'only those that this replay requeued last')
    .option('--event <id>', 'only of this event')
    .option('--type <type>', 'only of events of this type')
    .option('--tenant <name>', 'only of this tenant')
    .addOption(new Option('--reason <reason>', 'only dead letters with this reason').choices(reasons))
    .option('--error <text>', 'only where the last error contains this')
    .option('--since <when>', 'only received since then: 2h (ago), or an instant', since)
  withFormat(withPaging(list)).action((options: DeliveryFilter) => listDeliveries(terminal, options))

  const show = deliveries.command('show').description('show a delivery and every attempt').argument('<id>', 'dlv_…')
  withFormat(show).action((id: string, options: { output: Format }) => showDelivery(terminal, id, options.output))

  const retry = deliveries
    .command('retry')
    .description('end its wait and try it now; a dead letter gets a fresh budget, a delivered one is sent again')
    .argument('<id...>', 'dlv_…')
  retry.action((ids: readonly string[]) => retryDeliveries(terminal, ids))

  const cancel = deliveries
    .command('cancel')
    .description('end it as failed while it waits; the next in its lane is due at once')
    .argument('<id...>', 'dlv_…')
    .option('--yes', 'do not ask')
  cancel.action((ids: readonly string[], { yes = false }: { yes?: boolean }) => cancelDeliveries(terminal, ids, yes))
}

/** With `names` what people call the endpoint stands beside its id, and stays when there is no room for the id. */
export function deliveryColumns(terminal: Terminal, names?: EndpointNames): readonly Column[] {
  const target: Column = { title: 'TARGET', show: ({ endpointId }) => names?.of(endpointId) ?? '-', rank: 3 }
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'STATUS', show: ({ status }) => textOf(status), colour: statusColour },
    { title: 'TYPE', show: ({ type }) => textOf(type), min: 10, rank: 4 },
    { title: 'ENDPOINT', show: ({ endpointId }) => textOf(endpointId), rank: names === undefined ? 3 : 10 },
    ...(names === undefined ? [] : [target]),
    { title: 'ATTEMPTS', show: ({ attempts }) => textOf(attempts) },
    { title: 'RECEIVED', show: ({ receivedAt }) => instantText(terminal, receivedAt) },
    { title: 'WAITS FOR', show: (item) => waitText(terminal, item) },
    { title: 'REASON', show: ({ reason }) => textOf(reason) },
    { title: 'LAST ERROR', show: errorText, min: 16, rank: 2 },
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

async function listDeliveries(terminal: Terminal, options: DeliveryFilter): Promise<void> {
  const { status, endpoint, replay, event, type, tenant, reason, error, since: from } = options
  const query = { status, endpoint, replay, event, type, tenant, reason, error, from }
  const client = new ApiClient(clientSettings(terminal.env))
  const names = endpointNames(client)
  await printPages(terminal, client, {
    path: '/v1/deliveries',
    query,
    options,
    columns: deliveryColumns(terminal, names),
    learn: names.learn,
    whenEmpty: 'no delivery matches',
  })
}

export const waitWords: Readonly<Record<string, string>> = {
  all_paused: 'all delivery is paused; posthorn dispatch resume ends that',
  paused: 'its endpoint is paused; posthorn endpoints resume ends that',
  disabled: 'its endpoint is disabled; posthorn endpoints resume ends that',
  handler: 'no code has registered itself for its handler',
  hub: 'the hub of its endpoint is not connected; posthorn relays list shows which are',
  route: 'the hub of its endpoint is connected and does not have its route; posthorn relays show tells which it has',
  backoff: 'its next try, by the retry policy; posthorn deliveries retry does not wait for it',
  hold: 'its endpoint asked to be left alone for a while (Retry-After)',
  breaker: 'its endpoint is down, and is probed from time to time',
  lane: 'the delivery before it in its lane',
} satisfies Record<WaitsFor, string>

export async function showDelivery(terminal: Terminal, id: string, format: Format): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const delivery = rowOf(await client.get(`/v1/deliveries/${encodeURIComponent(id)}`))
  const fields = fieldsOf(delivery, ['attemptLog', ...oldNews(delivery)]).map(([name, text]): Field => {
    return name === 'waitsFor' ? [name, waitWords[text] ?? text] : [name, text]
  })
  printItem(terminal, format, delivery, fields)
  if (format !== 'table') return
  const attempts = Array.isArray(delivery.attemptLog) ? delivery.attemptLog.filter(isRow) : []
  if (attempts.length === 0) terminal.say('no attempt yet')
  for (const attempt of attempts) printAttempt(terminal, attempt)
}

/** The date of a backoff that is over says nothing about the next try; `waitsFor` does. */
function oldNews({ retryAfter }: Row): readonly string[] {
  return typeof retryAfter === 'string' && Date.parse(retryAfter) <= Date.now() ? ['retryAfter'] : []
}

export function printAttempt(terminal: Terminal, attempt: Row): void {
  const isDelivered = attempt.outcome === 'delivered'
  const status = attempt.statusCode === null || attempt.statusCode === undefined ? '' : ` ${attempt.statusCode}`
  const outcome = terminal.paint(isDelivered ? 'green' : 'red', `${printable(textOf(attempt.outcome))}${status}`)
  terminal.print('')
  terminal.print(`attempt ${attempt.number}  ${textOf(attempt.startedAt)}  ${textOf(attempt.tookMs)} ms  ${outcome}`)
  if (typeof attempt.error === 'string') terminal.print(`  error  ${printable(attempt.error)}`)
  const headers = isRow(attempt.responseHeaders) ? Object.entries(attempt.responseHeaders) : []
  for (const [name, value] of headers) terminal.print(`  < ${printable(`${name}: ${textOf(value)}`)}`)
  if (typeof attempt.responseBody !== 'string' || attempt.responseBody === '') return
  for (const line of attempt.responseBody.split(/\r?\n/)) terminal.print(`  | ${printable(line)}`)
}

async function retryDeliveries(terminal: Terminal, ids: readonly string[]): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  for (const id of ids) {
    const delivery = rowOf(await client.post(`/v1/deliveries/${encodeURIComponent(id)}/retry`))
    terminal.say(`${textOf(delivery.id)} is due now`)
  }
}

async function cancelDeliveries(terminal: Terminal, ids: readonly string[], yes: boolean): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const question = `cancel ${ids.length === 1 ? ids[0] : counted(ids.length, 'delivery')}?`
  // One is taken back with a retry; many are worth a question.
  if (ids.length > 1 && !(await confirm(terminal, question, { yes }))) throw new CommandFailed('nothing was cancelled')
  for (const id of ids) {
    const delivery = rowOf(await client.post(`/v1/deliveries/${encodeURIComponent(id)}/cancel`))
    terminal.say(`${textOf(delivery.id)} is cancelled`)
  }
}
