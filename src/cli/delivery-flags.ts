import { type Command, Option } from 'commander'
import { type DeliveryStatus, statusClasses } from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import { choicesOf, since, words } from './arguments.ts'

/** Which deliveries are meant, by the names of the API. */
export type DeliveryFlags = Readonly<{
  status?: readonly string[]
  statusClass?: readonly string[]
  endpoint?: string
  event?: string
  replay?: string
  key?: string
  type?: string
  tenant?: string
  reason?: string
  error?: string
  since?: string
  until?: string
  ids?: readonly string[]
}>

/** Without statuses: they are known already. */
export function withDeliveryFlags(command: Command, statuses: readonly DeliveryStatus[] = []): Command {
  if (statuses.length > 0) command.addOption(several('--status <status>', 'only these', statuses))
  return command
    .addOption(several('--status-class <class>', 'only where the last attempt was answered like this', statusClasses))
    .option('--endpoint <id>', 'only to this endpoint')
    .option('--event <id>', 'only of this event')
    .option('--replay <id>', 'only those that this replay requeued last')
    .option('--key <key>', 'only of events with this key')
    .option('--type <type>', 'only of events of this type, or pattern like order.*')
    .option('--tenant <name>', 'only of this tenant')
    .addOption(new Option('--reason <reason>', 'only with this reason').choices(reasons))
    .option('--error <text>', 'only where the last error contains this')
    .option('--since <when>', 'only received since then: 2h (ago), or an instant', since)
    .option('--until <when>', 'only received before then: 2h (ago), or an instant', since)
}

export function withIds(command: Command): Command {
  return command.option('--ids <ids>', 'only these, dlv_… separated by commas; may be repeated', words)
}

/** The filter that the flags stand for; what was not said is no condition. */
export function filterOf(flags: DeliveryFlags): Record<string, unknown> {
  const { status, statusClass, endpoint, event, replay, key, type, tenant, reason, error } = flags
  const { since: from, until: to, ids } = flags
  const fields = { status, statusClass, endpoint, event, replay, key, type, tenant, reason, error, from, to, ids }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** The same in the text of a query. */
export function queryOf(flags: DeliveryFlags): Record<string, string> {
  return Object.fromEntries(Object.entries(filterOf(flags)).map(([name, value]) => [name, String(value)]))
}

function several(flags: string, about: string, choices: readonly string[]): Option {
  return new Option(flags, `${about}; several with commas, or repeated`).choices(choices).argParser(choicesOf(choices))
}
