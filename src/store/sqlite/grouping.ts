import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { DeadLetterGroups, type SummedUp } from '../dead-letter-groups.ts'
import type { DeadLetterGroup } from '../replay-store.ts'
import { all, matching, type Way } from './matching.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/** How many rows are summed up at once: memory is bounded, and the log can be moved between two windows. */
const rowsPerWindow = 50_000
/** What a group has in common, as SQL; errors are folded after that. */
const commonSql: Readonly<Record<GroupBy, string>> = {
  error: 'd.last_error',
  endpoint: '(SELECT p.id FROM endpoints p WHERE p.no = d.endpoint_no)',
  type: 'e.type',
  reason: 'd.reason',
}

/** Dead letters by what they have in common, largest first. SQL sums up what is equal, so that only what differs is folded. */
export function groupDead(
  statements: Statements,
  filter: DeliveryFilter,
  by: GroupBy,
  limit: number,
): readonly DeadLetterGroup[] {
  const { ways, rest } = matching(filter, statements, { withEvent: by === 'type' })
  const groups = new DeadLetterGroups<number>(by)
  for (const way of ways) {
    let after = 0
    for (;;) {
      const last = endOfWindow(statements, way, after)
      if (last === null) break
      const { sql, values } = all([...way.where, ...rest, ['d.no > ?', after], ['d.no <= ?', last]])
      for (const row of statements.rows(
        `SELECT ${commonSql[by]}, ${summary} FROM ${way.from} ${sql} GROUP BY 1, 2, 3`,
        values,
      ))
        groups.add(summedUpIn(row))
      after = last
    }
  }
  return groups.largest(limit).map(({ group, newest }) => ({ ...group, sample: idOf(statements, newest) }))
}

const summary = 'd.reason, d.endpoint_no, count(*), min(d.settled_at), max(d.settled_at), max(d.no)'

function endOfWindow(statements: Statements, { from, where }: Way, after: number): number | null {
  const { sql, values } = all([...where, ['d.no > ?', after]])
  const window = `SELECT max(no) FROM (SELECT d.no FROM ${from} ${sql} ORDER BY d.no LIMIT ${rowsPerWindow})`
  return (statements.row(window, values)?.[0] ?? null) as number | null
}

function summedUpIn(row: readonly Cell[]): SummedUp<number> {
  const [common, reason, endpointNo, count, firstAt, lastAt, newest] = row as [
    string | null,
    Reason,
    number,
    number,
    number,
    number,
    number,
  ]
  return { common, reason, endpointNo, count, firstAt, lastAt, newest }
}

function idOf(statements: Statements, no: number): string {
  return (statements.row('SELECT id FROM deliveries WHERE no = ?', [no])?.[0] ?? '') as string
}
