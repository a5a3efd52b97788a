import { type Command, Option } from 'commander'
import { deadStatuses, type GroupBy, groupings } from '../core/delivery.ts'
import { ApiClient, longSilenceMsMax } from '../server/client.ts'
import { rowOf, rowsOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { addShow, deliveryColumns } from './deliveries.ts'
import { type DeliveryFlags, filterOf, queryOf, withDeliveryFlags, withIds } from './delivery-flags.ts'
import { type EndpointNames, endpointNames } from './endpoint-names.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  counted,
  type Format,
  instantText,
  ListPrinter,
  printItem,
  type Row,
  textOf,
  withFormat,
} from './output.ts'
import { type JobFlags, printPreview, startReplay, withJobFlags } from './replays.ts'
import type { Terminal } from './terminal.ts'

type Discarding = DeliveryFlags & Readonly<{ all?: boolean; dryRun?: boolean; yes?: boolean; output: Format }>
type Listing = DeliveryFlags & ListOptions & Readonly<{ group?: GroupBy }>

export function addDlq(program: Command, terminal: Terminal): void {
  const dlq = program.command('dlq').description('see, requeue or delete dead letters')
  const list = withDeliveryFlags(dlq.command('list').description('list dead letters, newest first'), deadStatuses)
  list.addOption(new Option('--group <by>', 'how many there are by this, instead of each one').choices(groupings))
  withFormat(withPaging(list)).action((options: Listing) => listDeadLetters(terminal, options))

  addShow(dlq, terminal, 'show a dead letter: what was sent, and what came back of every attempt')

  const replay = dlq
    .command('replay')
    .description('requeue dead letters: a job that goes on by itself, see posthorn replays')
  withFormat(withJobFlags(withIds(withDeliveryFlags(replay, deadStatuses)))).action((flags: DeliveryFlags & JobFlags) =>
    startReplay(
      terminal,
      {
        path: '/v1/replays',
        body: { filter: filterOf(flags) },
        what: 'dead letter',
        cancelledToo: 'add --reason cancelled',
      },
      flags,
    ),
  )

  const discard = dlq
    .command('discard')
    .description('delete dead letters for good')
    .option('--all', 'every dead letter there is')
    .option('--dry-run', 'only say what would be deleted')
    .option('--yes', 'do not ask')
  withFormat(withIds(withDeliveryFlags(discard, deadStatuses))).action((flags: Discarding) =>
    discardDeadLetters(terminal, flags),
  )
}

async function listDeadLetters(terminal: Terminal, options: Listing): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const query = queryOf(options)
  const whenEmpty = 'no dead letter matches'
  if (options.group === undefined) {
    const names = endpointNames(client)
    const columns = deadLetterColumns(terminal, names)
    const { learn } = names
    await printPages(terminal, client, { path: '/v1/dead-letters', query, options, columns, learn, whenEmpty })
    return
  }
  if (options.all || options.cursor !== undefined) {
    throw new UsageError('Groups come in one page: leave --all and --cursor out, or say --limit.')
  }
  const answer = rowOf(await client.get('/v1/dead-letters', { ...query, group: options.group, limit: options.limit }))
  const printer = new ListPrinter(terminal, options.output, groupColumns(terminal, options.group))
  printer.add(rowsOf(answer.groups))
  printer.end(whenEmpty)
}

/** Those of a delivery, with the reason before what it was; nearly all have the same status. */
function deadLetterColumns(terminal: Terminal, names: EndpointNames): readonly Column[] {
  return deliveryColumns(terminal, { names, status: 'failed' })
    .filter(({ title }) => title !== 'WAITS FOR')
    .map((column) => (column.title === 'REASON' ? { ...column, rank: 1 } : column))
}

function groupColumns(terminal: Terminal, by: GroupBy): readonly Column[] {
  return [
    { title: 'COUNT', show: ({ count }) => textOf(count) },
    { title: by.toUpperCase(), show: (group) => textOf(group[by]), ...(by !== 'endpoint' && { min: 20 }) },
    ...(by === 'endpoint' ? [{ title: 'NAME', show: ({ name }: Row) => textOf(name) }] : []),
    ...(by === 'reason' ? [] : [{ title: 'REASONS', show: ({ reasons }: Row) => textOf(reasons), min: 16, rank: 3 }]),
    ...(by === 'endpoint' ? [] : [{ title: 'ENDPOINTS', show: ({ endpoints }: Row) => textOf(endpoints), rank: 5 }]),
    { title: 'FIRST', show: ({ first }) => instantText(terminal, first), rank: 6 },
    { title: 'LAST', show: ({ last }) => instantText(terminal, last), rank: 4 },
    { title: 'SAMPLE', show: ({ sample }) => textOf(sample), rank: by === 'endpoint' ? 7 : 2 },
  ]
}

async function discardDeadLetters(terminal: Terminal, flags: Discarding): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const filter = filterOf(flags)
  const isEmpty = Object.keys(filter).length === 0
  if (isEmpty && !flags.all) throw new UsageError('Say which ones, such as --reason cancelled, or --all.')
  if (!isEmpty && flags.all) throw new UsageError('--all means every dead letter: leave it or the other flags out.')
  const body = isEmpty ? { all: true } : { filter }
  const path = '/v1/dead-letters/discard'
  const post = async (body: object) => rowOf(await client.json('POST', path, { body, silenceMsMax: longSilenceMsMax }))
  const preview = await post({ ...body, dryRun: true })
  if (flags.dryRun) return printPreview(terminal, flags.output, preview, 'dead letter', 'would be deleted')
  const question = `delete ${counted(Number(preview.matched), 'dead letter')} for good?`
  if (!(await confirm(terminal, question, { yes: flags.yes === true }))) throw new CommandFailed('nothing was deleted')
  const answer = await post(body)
  if (flags.output === 'table') terminal.say(`${counted(Number(answer.discarded), 'dead letter')} deleted`)
  else printItem(terminal, flags.output, answer)
}
