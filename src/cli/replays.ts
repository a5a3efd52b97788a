import { setTimeout as wait } from 'node:timers/promises'
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
import { openProgress } from './progress.ts'
import type { Terminal } from './terminal.ts'

/** How a job is started, whatever it brings back. */
export type JobFlags = Readonly<{
  rate?: number
  note?: string
  dryRun?: boolean
  yes?: boolean
  follow?: boolean
  output: Format
}>

/** `endpoint`: the one that it is about; undefined: it may be about all. */
type Job = Readonly<{ path: string; body: Row; what: string; endpoint: string | undefined }>

const lookEveryMs = 250

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
    .option('--follow', 'wait for its end and show the progress')
  withFormat(show).action(async (id: string, { output, follow }: { output: Format; follow?: boolean }) => {
    const replay = rowOf(await clientOf(terminal).get(pathOf(id)))
    if (follow) await followReplay(terminal, replay, output)
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
    .option('--follow', 'wait for its end and show the progress')
}

/** Says what would come back, asks, starts the job, and follows it if that is wanted. */
export async function startReplay(terminal: Terminal, job: Job, flags: JobFlags): Promise<void> {
  const { path, body, what, endpoint } = job
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
  // Before there is a job: whatever goes wrong here, no id of one is lost.
  await tellOfBreakers(terminal, endpoint)
  const replay = rowOf(await client.post(path, wish))
  if (flags.follow) return followReplay(terminal, replay, flags.output)
  if (flags.output !== 'table') return printItem(terminal, flags.output, replay)
  terminal.print(textOf(replay.id))
  terminal.say(`see posthorn replays show ${textOf(replay.id)} --follow`)
}

/** What is brought back to an endpoint that is taken to be down waits there, which nobody expects who has just mended it. */
async function tellOfBreakers(terminal: Terminal, endpoint: string | undefined): Promise<void> {
  const open = rowsOf(rowOf(await clientOf(terminal).get('/v1/breakers?state=open')).items)
  const [first, ...others] = open
    .map(({ endpointId }) => textOf(endpointId))
    .filter((id) => endpoint === undefined || id === endpoint)
  if (first === undefined) return
  const which =
    others.length === 0 ? `the breaker of ${first} is` : `the breakers of ${others.length + 1} endpoints are`
  terminal.say(
    `${which} open: what is brought back there waits for the next probe; posthorn breakers reset ${first} lets it go now`,
  )
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

/** A bar on a terminal, now and then a line in a pipe; ends when the job does not go on by itself any more. */
async function followReplay(terminal: Terminal, started: Row, format: Format): Promise<void> {
  const client = clientOf(terminal)
  const id = textOf(started.id)
  const progress = openProgress(terminal, { label: 'brought back:', total: Number(started.matched) })
  let replay = started
  try {
    while (replay.status === 'running') {
      const failed = Number(replay.failed)
      progress.update(Number(replay.replayed) + failed, failed > 0 ? `${failed} failed` : '')
      await wait(lookEveryMs)
      replay = rowOf(await client.get(pathOf(id)))
    }
  } finally {
    progress.end()
  }
  if (format !== 'table') printItem(terminal, format, replay)
  else terminal.say(`${id} is ${textOf(replay.status)}: ${progressOf(replay)}`)
  if (replay.status !== 'finished') throw new CommandFailed(`${id} has not come to its end`)
}

function columns(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'STATUS', show: ({ status }) => textOf(status), colour: statusColour },
    { title: 'PROGRESS', show: progressOf },
    { title: 'RATE', show: ({ rate }) => textOf(rate) },
    { title: 'CREATED', show: ({ createdAt }) => instantText(terminal, createdAt) },
    { title: 'BY', show: ({ by }) => textOf(by) },
    { title: 'NOTE', show: ({ note }) => textOf(note) },
  ]
}

function progressOf({ replayed, failed, matched }: Row): string {
  const lost = Number(failed) > 0 ? `, ${textOf(failed)} failed` : ''
  return `${textOf(replayed)} of ${textOf(matched)}${lost}`
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
