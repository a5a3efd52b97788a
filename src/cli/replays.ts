import { type Command, InvalidArgumentError, Option } from 'commander'
import { replayStatuses } from '../core/replay.ts'
import { ApiClient } from '../server/client.ts'
import { isRow, rowOf, rowsOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { deliveryColumns } from './deliveries.ts'
import { CommandFailed } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  counted,
  type Format,
  instantText,
  ListPrinter,
  printItem,
  type Row,
  statusColour,
  textOf,
  withFormat,
} from './output.ts'
import { type FollowUntil, followCodes, followOption, followReplay, stateOf } from './replay-follow.ts'
import type { Terminal } from './terminal.ts'

/** How a job is started, whatever it requeues. */
export type JobFlags = Readonly<{
  rate?: number
  note?: string
  dryRun?: boolean
  yes?: boolean
  follow?: FollowUntil
  output: Format
}>

/** `cancelledToo`: how to requeue the cancelled ones that it leaves out. */
type Job = Readonly<{ path: string; body: Row; what: string; cancelledToo: string }>

export function addReplays(program: Command, terminal: Terminal): void {
  const replays = program.command('replays').description('manage the jobs that requeue dead letters')
  const list = replays
    .command('list')
    .description('list replays, newest first')
    .addOption(new Option('--status <status>', 'only these').choices(replayStatuses))
    .option('--tenant <name>', 'only of this tenant')
  withFormat(withPaging(list)).action((options: ListOptions & { status?: string; tenant?: string }) => {
    const { status, tenant } = options
    const listing = { path: '/v1/replays', query: { status, tenant }, options, columns: columns(terminal) }
    return printPages(terminal, clientOf(terminal), { ...listing, whenEmpty: 'there is no replay' })
  })

  const show = replays
    .command('show')
    .description('show a replay and how far it has come')
    .argument('<id>', 'rpl_…')
    .addOption(followOption())
    .addHelpText('after', followCodes)
  withFormat(show).action(async (id: string, { output, follow }: { output: Format; follow?: FollowUntil }) => {
    const replay = rowOf(await clientOf(terminal).get(pathOf(id)))
    if (follow !== undefined) await followReplay(terminal, replay, { until: follow, format: output })
    else printItem(terminal, output, replay)
  })

  const verbs = [
    ['pause', 'stop for now'],
    ['resume', 'go on'],
    ['cancel', 'stop for good; what was requeued stays'],
  ] as const
  for (const [verb, about] of verbs) {
    const command = replays.command(verb).description(about).argument('<id>', 'rpl_…')
    withFormat(command).action(async (id: string, { output }: { output: Format }) => {
      const replay = rowOf(await clientOf(terminal).post(`${pathOf(id)}/${verb}`))
      if (output === 'table') terminal.say(stateOf(replay))
      else printItem(terminal, output, replay)
    })
  }
}

export function withJobFlags(command: Command): Command {
  return command
    .option('--rate <n>', 'deliveries a second; without it only so fast that others do not notice', rate)
    .option('--note <text>', 'why, for those who look at it later')
    .option('--dry-run', 'only show what would be requeued')
    .option('--yes', 'do not ask')
    .addOption(followOption())
    .addHelpText('after', followCodes)
}

/** Says what would be requeued and what would hold it up, asks, starts the job, and follows it if that is wanted. */
export async function startReplay(terminal: Terminal, job: Job, flags: JobFlags): Promise<void> {
  const { path, body, what } = job
  const client = clientOf(terminal)
  const preview = rowOf(await client.post(path, { ...body, dryRun: true }))
  if (flags.dryRun) {
    printPreview(terminal, flags.output, preview, what, 'would be requeued')
    if (flags.output === 'table') warn(terminal, job, preview)
    return
  }
  const matched = Number(preview.matched)
  if (matched === 0) terminal.say(`no ${what} matches`)
  warn(terminal, job, preview)
  if (matched === 0) return
  const question = `requeue ${counted(matched, what)}?`
  if (!(await confirm(terminal, question, { yes: flags.yes === true }))) {
    throw new CommandFailed('nothing was requeued')
  }
  const { rate, note } = flags
  const wish = { ...body, ...(rate !== undefined && { rate }), ...(note !== undefined && { note }) }
  const replay = rowOf(await client.post(path, wish))
  if (flags.follow !== undefined) {
    return followReplay(terminal, replay, { until: flags.follow, format: flags.output })
  }
  if (flags.output !== 'table') return printItem(terminal, flags.output, replay)
  terminal.print(textOf(replay.id))
  terminal.say(`see posthorn replays show ${textOf(replay.id)} --follow`)
}

/** What the job leaves out, and what it requeues to endpoints that take nothing now: both surprise after a repair. */
function warn(terminal: Terminal, { cancelledToo }: Job, preview: Row): void {
  const { cancelled, endpoint_deleted: deleted } = isRow(preview.leftOut) ? preview.leftOut : {}
  if (Number(cancelled) > 0) {
    terminal.say(`left out: ${textOf(cancelled)} cancelled; to requeue them: ${cancelledToo}`)
  }
  if (Number(deleted) > 0) terminal.say(`left out: ${textOf(deleted)} of deleted endpoints`)
  const blocked = rowsOf(preview.blocked)
  for (const [why, { state, remedy }] of Object.entries(blockedWords)) {
    const ids = blocked.filter((one) => one.why === why).map(({ endpointId }) => textOf(endpointId))
    if (ids.length > 0) terminal.say(`${listed(ids)}: ${state}; ${remedy} ${ids[0]}`)
  }
}

const blockedWords: Readonly<Record<string, Readonly<{ state: string; remedy: string }>>> = {
  breaker_open: {
    state: 'the breaker is open, requeued deliveries wait for the next probe',
    remedy: 'to try now: posthorn breakers reset',
  },
  paused: { state: 'paused, requeued deliveries wait', remedy: 'to resume: posthorn endpoints resume' },
  disabled: { state: 'disabled, requeued deliveries wait', remedy: 'to enable: posthorn endpoints resume' },
}

function listed(ids: readonly string[]): string {
  return ids.length > 3 ? counted(ids.length, 'endpoint') : ids.join(', ')
}

/** What a dry run found: how many go to stderr, a few of them to stdout. */
export function printPreview(terminal: Terminal, format: Format, preview: Row, what: string, fate: string): void {
  if (format !== 'table') {
    printItem(terminal, format, preview)
    return
  }
  const sample = rowsOf(preview.sample)
  const printer = new ListPrinter(terminal, format, deliveryColumns(terminal))
  printer.add(sample)
  const some = sample.length > 0 && sample.length < Number(preview.matched) ? ', the newest are listed' : ''
  terminal.say(`${counted(Number(preview.matched), what)} ${fate}${some}`)
}

function columns(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'STATUS', show: ({ status }) => textOf(status), colour: statusColour },
    { title: 'REQUEUED', show: ({ requeued, matched }) => `${textOf(requeued)} of ${textOf(matched)}` },
    { title: 'DELIVERED', show: ({ delivered }) => textOf(delivered) },
    { title: 'FAILED AGAIN', show: ({ failedAgain }) => textOf(failedAgain), usual: '0' },
    { title: 'WAITING', show: ({ waiting }) => textOf(waiting), usual: '0', rank: 3 },
    { title: 'RATE', show: ({ rate }) => textOf(rate), rank: 9 },
    { title: 'CREATED', show: ({ createdAt }) => instantText(terminal, createdAt), rank: 5 },
    { title: 'BY', show: ({ by }) => textOf(by) },
    { title: 'NOTE', show: ({ note }) => textOf(note), rank: 6 },
  ]
}

function rate(text: string): number {
  const perSecond = Number(text)
  if (text.trim() !== '' && perSecond > 0) return perSecond
  throw new InvalidArgumentError('It is a number of deliveries a second.')
}

function clientOf(terminal: Terminal): ApiClient {
  return new ApiClient(clientSettings(terminal.env))
}

function pathOf(id: string): string {
  return `/v1/replays/${encodeURIComponent(id)}`
}
