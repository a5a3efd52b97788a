import { type Command, Option } from 'commander'
import { endpointKinds, endpointStatuses } from '../core/endpoint.ts'
import { recoverOnly } from '../core/selection.ts'
import { ApiClient, longSilenceMsMax } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { durationText, json, since } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { printAttempt } from './delivery-page.ts'
import { type EndpointFlags, endpointBody, withEndpointFlags } from './endpoint-flags.ts'
import { targetOf } from './endpoint-names.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  type Format,
  fieldsOf,
  printItem,
  type Row,
  statusColour,
  tenantColumn,
  textOf,
  urlText,
  withFormat,
} from './output.ts'
import { type JobFlags, startReplay, withJobFlags } from './replays.ts'
import { warnOfRoute } from './route-warning.ts'
import { type SecretFlag, secretFlag, secretFrom, secretFromStdin } from './secret-flag.ts'
import { printable, type Terminal } from './terminal.ts'

type Output = Readonly<{ output: Format }>
type EndpointFilter = Readonly<{ tenant?: string; kind?: string; status?: string }>
type Deps = Readonly<{ terminal: Terminal; client: () => ApiClient }>

const secretHint = `signing secret (whsec_…), made up if left out; ${secretFromStdin}`

export function addEndpoints(program: Command, terminal: Terminal): void {
  const endpoints = program.command('endpoints').description('say where events go')
  const deps: Deps = { terminal, client: () => new ApiClient(clientSettings(terminal.env)) }
  addCreate(endpoints, deps)
  addReads(endpoints, deps)
  addUpdate(endpoints, deps)
  addSwitches(endpoints, deps)
  addSecrets(endpoints, deps)
  addTest(endpoints, deps)
  addRecover(endpoints, deps)
  addDelete(endpoints, deps)
}

function addCreate(endpoints: Command, { terminal, client }: Deps): void {
  const create = endpoints
    .command('create')
    .description('add an endpoint; prints it with its signing secret')
    .argument('[url]', 'where to deliver, such as https://shop.example/hooks; not with --relay')
  withEndpointFlags(create).option('--tenant <name>', 'whose endpoint it is').option(secretFlag, secretHint)
  withFormat(create).action(async (url: string | undefined, flags: EndpointFlags & SecretFlag & Output) => {
    const target = targetBody(url, flags)
    const secret = await secretFrom(terminal, flags.secret)
    const endpoint = rowOf(await client().post('/v1/endpoints', { ...target, ...endpointBody(flags), ...secret }))
    printChanged(terminal, flags.output, endpoint)
    await warnOfRoute(terminal, client(), endpoint)
  })
}

function targetBody(url: string | undefined, { relay, route }: EndpointFlags): object {
  const isRelay = relay !== undefined || route !== undefined
  if (url !== undefined && isRelay) throw new UsageError('An endpoint has a URL, or --relay and --route, not both.')
  if (url !== undefined) return { url }
  if (!isRelay) throw new UsageError('Say where to deliver: a URL, or --relay and --route.')
  if (relay === undefined) throw new UsageError('Name the relay that has this route, with --relay.')
  if (route === undefined) throw new UsageError('Name the route of this relay, with --route.')
  return { kind: 'relay' }
}

function addReads(endpoints: Command, { terminal, client }: Deps): void {
  const list = endpoints
    .command('list')
    .description('list endpoints')
    .option('--tenant <name>', 'only of this tenant')
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(endpointKinds))
    .addOption(new Option('--status <status>', 'only these').choices(endpointStatuses))
  withFormat(withPaging(list)).action(async (options: ListOptions & EndpointFilter) => {
    const { tenant, kind, status } = options
    const isFiltered = tenant !== undefined || kind !== undefined || status !== undefined
    const none = 'there is no endpoint; add one with: posthorn endpoints create <url>'
    const whenEmpty = isFiltered ? 'no endpoint matches' : none
    const listing = {
      path: '/v1/endpoints',
      query: { tenant, kind, status },
      options,
      columns: columnsOf(terminal),
      whenEmpty,
    }
    await printPages(terminal, client(), listing)
  })
  const show = endpoints.command('show').description('show an endpoint').argument('<id>', 'ep_…')
  withFormat(show).action(async (id: string, { output }: Output) => {
    printItem(terminal, output, rowOf(await client().get(pathOf(id))))
  })
}

function columnsOf(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'STATUS', show: ({ status }) => textOf(status), colour: statusColour },
    { title: 'KIND', show: ({ kind }) => textOf(kind), usual: 'http', rank: 6 },
    { title: 'TARGET', show: (endpoint) => urlText(terminal, targetOf(endpoint)), min: 24, rank: 2 },
    { title: 'TYPES', show: ({ types }) => textOf(types), min: 10, rank: 4 },
    { title: 'DESCRIPTION', show: ({ description }) => textOf(description), min: 16, rank: 5 },
    { title: 'ORDERING', show: ({ ordering }) => textOf(ordering), usual: 'none', rank: 8 },
    { ...tenantColumn, rank: 7 },
    { title: 'REASON', show: ({ statusReason }) => textOf(statusReason), min: 16, rank: 3 },
  ]
}

function addUpdate(endpoints: Command, { terminal, client }: Deps): void {
  const update = endpoints
    .command('update')
    .description('change what is named; the rest stays')
    .argument('<id>', 'ep_…')
    .option('--url <url>', 'where to deliver')
  withFormat(withEndpointFlags(update)).action(async (id: string, flags: EndpointFlags & Output & { url?: string }) => {
    const body = { ...(flags.url !== undefined && { url: flags.url }), ...endpointBody(flags) }
    if (Object.keys(body).length === 0) throw new UsageError('Nothing to change was named; see --help.')
    const endpoint = rowOf(await client().json('PATCH', pathOf(id), { body }))
    printChanged(terminal, flags.output, endpoint)
    if (flags.relay !== undefined || flags.route !== undefined) await warnOfRoute(terminal, client(), endpoint)
  })
}

function printChanged(terminal: Terminal, format: Format, endpoint: Row): void {
  printItem(terminal, format, endpoint, fieldsOf(endpoint, ['warnings']))
  const warnings = Array.isArray(endpoint.warnings) ? endpoint.warnings : []
  for (const warning of warnings) terminal.say(`warning: ${printable(textOf(warning))}`)
}

function addSwitches(endpoints: Command, { terminal, client }: Deps): void {
  const switches = [
    ['pause', 'hold deliveries back; they wait'],
    ['resume', 'deliver again'],
  ] as const
  for (const [verb, about] of switches) {
    const command = endpoints.command(verb).description(about).argument('<id>', 'ep_…')
    withFormat(command).action(async (id: string, { output }: Output) => {
      const endpoint = rowOf(await client().post(`${pathOf(id)}/${verb}`))
      if (output !== 'table') return printItem(terminal, output, endpoint)
      terminal.say(`${textOf(endpoint.id)} is ${textOf(endpoint.status)}`)
    })
  }
}

function addSecrets(endpoints: Command, { terminal, client }: Deps): void {
  endpoints
    .command('secret')
    .description('print the signing secret and nothing else')
    .argument('<id>', 'ep_…')
    .action(async (id: string) => {
      terminal.print(textOf(rowOf(await client().get(`${pathOf(id)}/secret`)).secret))
    })
  const rotate = endpoints
    .command('rotate-secret')
    .description('make a new signing secret; prints it')
    .argument('<id>', 'ep_…')
    .option(secretFlag, secretHint)
    .option('--keep-old-for <duration>', 'how long both secrets sign', durationText)
  withFormat(rotate).action(async (id: string, flags: Output & SecretFlag & { keepOldFor?: string }) => {
    const { output, keepOldFor } = flags
    const secret = await secretFrom(terminal, flags.secret)
    const body = { ...secret, ...(keepOldFor !== undefined && { keepOldFor }) }
    const answer = rowOf(await client().post(`${pathOf(id)}/rotate-secret`, body))
    if (output !== 'table') return printItem(terminal, output, answer)
    terminal.print(textOf(answer.secret))
  })
}

function addTest(endpoints: Command, { terminal, client }: Deps): void {
  const test = endpoints
    .command('test')
    .description('make one try now, without retries; fails if it is not delivered')
    .argument('<id>', 'ep_…')
    .option('--type <type>', 'the type of the event that is sent')
    .option('--data <json>', 'its data', json)
  withFormat(test).action(async (id: string, { output, type, data }: Output & { type?: string; data?: unknown }) => {
    const body = { ...(type !== undefined && { type }), ...(data !== undefined && { data }) }
    const attempt = rowOf(await client().json('POST', `${pathOf(id)}/test`, { body, silenceMsMax: longSilenceMsMax }))
    if (output === 'table') printAttempt(terminal, attempt)
    else printItem(terminal, output, attempt)
    if (attempt.outcome !== 'delivered') throw new CommandFailed(`the try ended as ${textOf(attempt.outcome)}`)
  })
}

function addRecover(endpoints: Command, { terminal }: Deps): void {
  const recover = endpoints
    .command('recover')
    .description('requeue what it should have had: a job that goes on by itself, see posthorn replays')
    .argument('<id>', 'ep_…')
    .requiredOption('--since <when>', 'what was received since then: 2h (ago), or an instant', since)
    .option('--until <when>', 'and before then: 2h (ago), or an instant', since)
    .addOption(
      new Option('--only <which>', 'what failed, what it never got, or all of it again')
        .choices(recoverOnly)
        .default('failed'),
    )
  withFormat(withJobFlags(recover)).action(
    (id: string, flags: JobFlags & { since: string; until?: string; only: string }) => {
      const { since, until, only } = flags
      const body = { since, ...(until !== undefined && { until }), only }
      const span = `--since ${since}${until === undefined ? '' : ` --until ${until}`}`
      const cancelledToo = `posthorn dlq replay --endpoint ${id} ${span} --reason cancelled`
      return startReplay(terminal, { path: `${pathOf(id)}/recover`, body, what: 'delivery', cancelledToo }, flags)
    },
  )
}

function addDelete(endpoints: Command, { terminal, client }: Deps): void {
  endpoints
    .command('delete')
    .description('delete an endpoint; what waits for it fails with reason endpoint_deleted')
    .argument('<id>', 'ep_…')
    .option('--yes', 'do not ask')
    .action(async (id: string, { yes = false }: { yes?: boolean }) => {
      // What was meant is asked about and said, also where only the beginning of its id was given.
      const endpoint = rowOf(await client().get(pathOf(id)))
      if (!(await confirm(terminal, deletion(endpoint), { yes }))) throw new CommandFailed('nothing was deleted')
      await client().json('DELETE', pathOf(textOf(endpoint.id)))
      terminal.say(`${textOf(endpoint.id)} is deleted`)
    })
}

function deletion(endpoint: Row): string {
  return `delete ${textOf(endpoint.id)} (${targetOf(endpoint)})? Deliveries that wait for it will fail.`
}

function pathOf(id: string): string {
  return `/v1/endpoints/${encodeURIComponent(id)}`
}
