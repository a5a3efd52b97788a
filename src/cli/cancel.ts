import type { Command } from 'commander'
import { ApiClient, longSilenceMsMax } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { type DeliveryFlags, filterOf, withDeliveryFlags } from './delivery-flags.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { counted, type Format, printItem, type Row, textOf, withFormat } from './output.ts'
import { openProgress } from './progress.ts'
import { printPreview } from './replays.ts'
import type { Terminal } from './terminal.ts'

type Cancelling = DeliveryFlags & Readonly<{ all?: boolean; dryRun?: boolean; yes?: boolean; output: Format }>

/** Of one request, so that progress can be shown between two. */
const cancelledAtOnce = 10_000

export function addCancel(deliveries: Command, terminal: Terminal): void {
  const cancel = deliveries
    .command('cancel')
    .description('end deliveries that wait, as failed: those with these ids, or all that match the flags')
    .argument('[id...]', 'dlv_…')
    .option('--all', 'every delivery that waits')
    .option('--dry-run', 'only say what would be cancelled')
    .option('--yes', 'do not ask')
  withFormat(withDeliveryFlags(cancel)).action((ids: readonly string[], flags: Cancelling) => {
    if (ids.length === 0) return cancelMatching(terminal, flags)
    if (Object.keys(filterOf(flags)).length > 0 || flags.all || flags.dryRun) {
      throw new UsageError('Give ids or flags that choose deliveries, not both.')
    }
    return cancelNamed(terminal, ids, flags.yes === true)
  })
}

async function cancelNamed(terminal: Terminal, ids: readonly string[], yes: boolean): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const question = `cancel ${ids.length === 1 ? ids[0] : counted(ids.length, 'delivery')}?`
  // One is taken back with a retry; many are worth a question.
  if (ids.length > 1 && !(await confirm(terminal, question, { yes }))) throw new CommandFailed('nothing was cancelled')
  for (const id of ids) {
    const delivery = rowOf(await client.post(`/v1/deliveries/${encodeURIComponent(id)}/cancel`))
    terminal.say(`${textOf(delivery.id)} is cancelled`)
  }
}

async function cancelMatching(terminal: Terminal, flags: Cancelling): Promise<void> {
  const filter = filterOf(flags)
  const isEmpty = Object.keys(filter).length === 0
  if (isEmpty && !flags.all) throw new UsageError('Say which ones, such as --endpoint ep_…, or --all.')
  if (!isEmpty && flags.all) throw new UsageError('--all means every delivery that waits: leave out the other flags.')
  const which = isEmpty ? { all: true } : { filter }
  const preview = await post(terminal, { ...which, dryRun: true })
  if (flags.dryRun) return printPreview(terminal, flags.output, preview, 'delivery', 'would be cancelled')
  const matched = Number(preview.matched)
  if (matched === 0) return terminal.say('no delivery that waits matches')
  const question = `cancel ${counted(matched, 'delivery')}?`
  if (!(await confirm(terminal, question, { yes: flags.yes === true })))
    throw new CommandFailed('nothing was cancelled')
  const cancelled = await cancelInPieces(terminal, which, matched)
  if (flags.output === 'table') terminal.say(`${counted(cancelled, 'delivery')} cancelled`)
  else printItem(terminal, flags.output, { cancelled })
}

async function cancelInPieces(terminal: Terminal, which: Row, matched: number): Promise<number> {
  const progress = openProgress(terminal, { label: 'cancelled:', total: matched })
  let cancelled = 0
  try {
    for (let cursor: unknown = null; ; ) {
      const piece = await post(terminal, { ...which, limit: cancelledAtOnce, ...(cursor !== null && { cursor }) })
      cancelled += Number(piece.cancelled)
      progress.update(cancelled)
      cursor = piece.next
      if (typeof cursor !== 'string') return cancelled
    }
  } catch (error) {
    progress.end()
    if (cancelled > 0) terminal.say(`${counted(cancelled, 'delivery')} cancelled before this:`)
    throw error
  } finally {
    progress.end()
  }
}

async function post(terminal: Terminal, body: Row): Promise<Row> {
  const client = new ApiClient(clientSettings(terminal.env))
  return rowOf(await client.json('POST', '/v1/deliveries/cancel', { body, silenceMsMax: longSilenceMsMax }))
}
