import { type Command, InvalidArgumentError, Option } from 'commander'
import { replayStatuses } from '../core/replay.ts'
import { ApiClient } from '../server/client.ts'
import { rowOf, rowsOf } from './answers.ts'
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
import { type FollowUntil, followCodes, followOption, followReplay, progressOf } from './replay-follow.ts'
import type { Terminal } from './terminal.ts'

/** How a job is started, whatever it brings back. */
export type JobFlags = Readonly<{
  rate?: number
  note?: string
  dryRun?: boolean
  yes?: boolean
  follow?: FollowUntil
  output: Format
}>

type Job = Readonly<{ path: string; body: Row; what: string }>

export function addReplays(program: Command, terminal: Terminal): void {
  const replays = program.command('replays').description('see and steer the jobs that bring dead letters back')
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
    ['cancel', 'stop for good; what was brought back stays'],
  ] as const
  for (const [verb, about] of verbs) {
    const command = replays.command(verb).description(about).argument('<id>', 'rpl_…')
    withFormat(command).action(async (id: string, { output }: { output: Format }) => {
      const replay = rowOf(await clientOf(terminal).post(`${pathOf(id)}/${verb}`))
      if (output === 'table') terminal.say(`${id} is ${textOf(replay.status)}: ${progressOf(replay)}`)
      else printItem(terminal, output, replay)
    })
  }
}

export function withJobFlags(command: Command): Command {
  return command
    .option('--rate <n>', 'deliveries a second; without it only so fast that others do not notice', rate)
    .option('--note <text>', 'why, for those who look at it later')
    .option('--dry-run', 'only say what would be brought back')
    .option('--yes', 'do not ask')
    .addOption(followOption())
    .addHelpText('after', followCodes)
}

/** Says what would come back, asks, starts the job, and follows it if that is wanted. */
export async function startReplay(terminal: Terminal, job: Job, flags: JobFlags): Promise<void> {
  const { path, body, what } = job
  const client = clientOf(terminal)
  const preview = rowOf(await client.post(path, { ...body, dryRun: true }))
  if (flags.dryRun) return printPreview(terminal, flags.output, preview, what, 'would be brought back')
  const matched = Number(preview.matched)
  if (matched === 0) return terminal.say(`no ${what} matches`)
  const question = `bring ${counted(matched, what)} back?`
  if (!(await confirm(terminal, question, { yes: flags.yes === true }))) {
    throw new CommandFailed('nothing was brought back')
  }
  const { rate, note } = flags
  const wish = { ...body, ...(rate !== undefined && { rate }), ...(note !== undefined && { note }) }
  tellOfBlocked(terminal, rowsOf(preview.blocked))
  const replay = rowOf(await client.post(path, wish))
  if (flags.follow !== undefined) {
    return followReplay(terminal, replay, { until: flags.follow, format: flags.output })
  }
  if (flags.output !== 'table') return printItem(terminal, flags.output, replay)
  terminal.print(textOf(replay.id))
  terminal.say(`see posthorn replays show ${textOf(replay.id)} --follow`)
}

/** What is requeued to an endpoint that takes nothing now waits there, which is a surprise after a repair. */
function tellOfBlocked(terminal: Terminal, blocked: readonly Row[]): void {
  const at = (...whys: readonly string[]) =>
    blocked.filter(({ why }) => whys.includes(textOf(why))).map(({ endpointId }) => textOf(endpointId))
  const [open, ...others] = at('breaker_open')
  if (open !== undefined) {
    const which = others.length === 0 ? `the breaker of ${open} is` : `the breakers of ${listed([open, ...others])} are`
    terminal.say(
      `${which} open: what is brought back there waits for the next probe; posthorn breakers reset ${open} lets it go now`,
    )
  }
  const off = at('paused', 'disabled')
  if (off.length === 0) return
  const which = off.length === 1 ? `${off[0]} is` : `${listed(off)} are`
  terminal.say(
    `${which} paused or disabled: what is brought back there waits; posthorn endpoints resume ${off[0]} lets it go`,
  )
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
