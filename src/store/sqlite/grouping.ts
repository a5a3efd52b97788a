import { foldingOnce } from '../../core/error-groups.ts'
import type { Reason } from '../../core/outcome.ts'
import type { ErrorGroup } from '../replay-store.ts'
import { all, type Matching, type Way } from './matching.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/** How many rows are summed up at once: memory is bounded, and the log can be moved between two windows. */
const rowsPerWindow = 50_000
/** Errors that are all different, in spite of folding, become one group beyond this. */
const groupsMax = 10_000
const otherErrors = 'other errors'

type Gathered = {
  count: number
  firstAt: number
  lastAt: number
  newestNo: number
  readonly endpoints: Set<number>
  readonly reasons: Set<Reason>
}

/** Dead letters by folded error, largest first. SQL sums up what is equal, so that only what differs is folded. */
export function groupErrors(statements: Statements, { ways, rest }: Matching, limit: number): readonly ErrorGroup[] {
  const groups = new Map<string, Gathered>()
  const fold = foldingOnce(groupsMax)
  for (const way of ways) {
    let after = 0
    for (;;) {
      const last = endOfWindow(statements, way, after)
      if (last === null) break
      const { sql, values } = all([...way.where, ...rest, ['d.no > ?', after], ['d.no <= ?', last]])
      for (const row of statements.rows(`${summary} FROM ${way.from} ${sql} GROUP BY 1, 2, 3`, values))
        gather(groups, row, fold)
      after = last
    }
  }
  const largest = [...groups].sort(([, a], [, b]) => b.count - a.count || b.newestNo - a.newestNo).slice(0, limit)
  return largest.map(([error, group]) => toGroup(statements, error, group))
}

const summary = `
  SELECT d.last_error, d.reason, d.endpoint_no, count(*), min(d.settled_at), max(d.settled_at), max(d.no)`

function endOfWindow(statements: Statements, { from, where }: Way, after: number): number | null {
  const { sql, values } = all([...where, ['d.no > ?', after]])
  const window = `SELECT max(no) FROM (SELECT d.no FROM ${from} ${sql} ORDER BY d.no LIMIT ${rowsPerWindow})`
  return (statements.row(window, values)?.[0] ?? null) as number | null
}

function gather(groups: Map<string, Gathered>, row: readonly Cell[], fold: (error: string) => string): void {
  const [error, reason, endpointNo, count, firstAt, lastAt, newestNo] = row as [
    string | null,
    Reason,
    number,
    number,
    number,
    number,
    number,
  ]
  // What ended without a try has no error; its reason says as much.
  const folded = error === null ? reason : fold(error)
  const name = groups.has(folded) || groups.size < groupsMax ? folded : otherErrors
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

function toGroup(statements: Statements, error: string, group: Gathered): ErrorGroup {
  const { count, firstAt, lastAt, endpoints, reasons, newestNo } = group
  const sample = (statements.row('SELECT id FROM deliveries WHERE no = ?', [newestNo])?.[0] ?? '') as string
  return { error, count, endpoints: endpoints.size, firstAt, lastAt, reasons: [...reasons].sort(), sample }
}
