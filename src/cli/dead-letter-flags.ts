import { type Command, Option } from 'commander'
import { deadStatuses } from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import { since, words } from './arguments.ts'

/** Which dead letters are meant, by the names of the API. */
export type DeadLetterFlags = Readonly<{
  status?: string
  endpoint?: string
  replay?: string
  type?: string
  tenant?: string
  reason?: string
  error?: string
  since?: string
  until?: string
  ids?: readonly string[]
}>

export function withDeadLetterFlags(command: Command): Command {
  return command
    .addOption(new Option('--status <status>', 'only these').choices(deadStatuses))
    .option('--endpoint <id>', 'only to this endpoint')
    .option('--replay <id>', 'only those that this replay requeued last')
    .option('--type <type>', 'only of events of this type')
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
export function filterOf(flags: DeadLetterFlags): Record<string, unknown> {
  const { status, endpoint, replay, type, tenant, reason, error, since: from, until: to, ids } = flags
  const fields = { status, endpoint, replay, type, tenant, reason, error, from, to, ids }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
