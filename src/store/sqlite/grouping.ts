import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import { foldingOnce } from '../../core/error-groups.ts'
import type { Reason } from '../../core/outcome.ts'
import type { DeadLetterGroup } from '../replay-store.ts'
import { all, matching, type Way } from './matching.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/** How many rows are summed up at once: memory is bounded, and the log can be moved between two windows. */
const rowsPerWindow = 50_000
/** What is different beyond this becomes one group. */
const groupsMax = 10_000
const others = 'others'

type Gathered = {
  count: number
  firstAt: number
  lastAt: number
  newestNo: number
  readonly endpoints: Set<number>
  readonly reasons: Set<Reason>
}

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
  const groups = new Map<string, Gathered>()
  const fold = by === 'error' ? foldingOnce(groupsMax) : (text: string) => text
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
        gather(groups, row, fold)
      after = last
    }
  }
  const largest = [...groups].sort(([, a], [, b]) => b.count - a.count || b.newestNo - a.newestNo).slice(0, limit)
  return largest.map(([common, group]) => toGroup(statements, common, group))
}

const summary = 'd.reason, d.endpoint_no, count(*), min(d.settled_at), max(d.settled_at), max(d.no)'

function endOfWindow(statements: Statements, { from, where }: Way, after: number): number | null {
  const { sql, values } = all([...where, ['d.no > ?', after]])
  const window = `SELECT max(no) FROM (SELECT d.no FROM ${from} ${sql} ORDER BY d.no LIMIT ${rowsPerWindow})`
  return (statements.row(window, values)?.[0] ?? null) as number | null
}

function gather(groups: Map<string, Gathered>, row: readonly Cell[], fold: (error: string) => string): void {
  const [common, reason, endpointNo, count, firstAt, lastAt, newestNo] = row as [
    string | null,
    Reason,
    number,
    number,
    number,
    number,
    number,
  ]
  // What ended without a try has no error; its reason says as much.
  const folded = common === null ? reason : fold(common)
  const name = groups.has(folded) || groups.size < groupsMax ? folded : others
  let group = groups.get(name)
  if (group === undefined) {
    group = { count: 0, firstAt, lastAt, newestNo, endpoints: new Set(), reasons: new Set() }
    groups.set(name, group)
  }
  group.count += count
  group.firstAt = Math.min(group.firstAt, firstAt)
  group.lastAt = Math.max(group.lastAt, lastAt)
  group.newestNo = Math.max(group.newestNo, newestNo)
  group.endpoints.add(endpointNo)
  group.reasons.add(reason)
}

function toGroup(statements: Statements, common: string, group: Gathered): DeadLetterGroup {
  const { count, firstAt, lastAt, endpoints, reasons, newestNo } = group
  const sample = (statements.row('SELECT id FROM deliveries WHERE no = ?', [newestNo])?.[0] ?? '') as string
  return { common, count, endpoints: endpoints.size, firstAt, lastAt, reasons: [...reasons].sort(), sample }
}
