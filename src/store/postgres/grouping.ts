import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { DeadLetterGroups, type SummedUp } from '../dead-letter-groups.ts'
import type { DeadLetterGroup } from '../replay-store.ts'
import { type Row, rowsOf } from './driver.ts'
import { Given } from './filter-conditions.ts'
import { afterAll, beforeAll, leadOf, matching, type ReadParts, type Way, whereOf, within } from './matching.ts'
import { idOf } from './row-keys.ts'

/** How many rows are summed up at once: no statement runs for long. */
const rowsPerWindow = 50_000
/** Dead letters by what they have in common, largest first. SQL sums up what is equal, so that only what differs is folded. */
export async function groupDead(
  parts: ReadParts,
  filter: DeliveryFilter,
  by: GroupBy,
  limit: number,
): Promise<readonly DeadLetterGroup[]> {
  const groups = new DeadLetterGroups<string>(by)
  for (const way of await matching(filter, parts)) {
    for (let after = beforeAll; after !== afterAll; ) {
      const last = await endOfWindow(parts, way, after)
      const rows = await summedUp(parts, way, by, { after, last })
      if (by === 'endpoint') await parts.endpoints.ensureNumbers(rows.map(([no]) => no as number))
      for (const [common, ...facts] of rows) {
        const name = by === 'endpoint' ? parts.endpoints.idOf(common as number) : (common as string | null)
        groups.add(summedUpIn(name, facts))
      }
      after = last
    }
  }
  return groups.largest(limit).map(({ group, newest }) => ({ ...group, sample: idOf('dlv', newest) }))
}

async function endOfWindow({ on, schema }: ReadParts, way: Way, after: string): Promise<string> {
  const given = new Given()
  const where = leadOf(given, way, [['>', after]])
  const sql = `SELECT d.id FROM ${schema}.ended d WHERE ${where} ORDER BY d.id OFFSET ${rowsPerWindow - 1} LIMIT 1`
  return ((await rowsOf(on, sql, given.values))[0]?.[0] ?? afterAll) as string
}

function summedUp(
  { on, schema }: ReadParts,
  way: Way,
  by: GroupBy,
  span: Readonly<{ after: string; last: string }>,
): Promise<Row[]> {
  const given = new Given()
  const where = whereOf(given, schema, way, within(span))
  const sql = `
    SELECT ${commonSql(by, schema)}, d.reason, d.endpoint, count(*), min(d.settled_at), max(d.settled_at),
      max(d.id::text COLLATE "C")
    FROM ${schema}.ended d WHERE ${where} GROUP BY 1, 2, 3`
  return rowsOf(on, sql, given.values)
}

/** What a group has in common, as SQL; errors are folded after that. */
function commonSql(by: GroupBy, schema: string): string {
  switch (by) {
    case 'error':
      return 'd.last_error'
    case 'endpoint':
      return 'd.endpoint AS common'
    case 'type':
      return `(SELECT e.type FROM ${schema}.events e WHERE e.id = d.event_id)`
    case 'reason':
      return 'd.reason AS common'
  }
}

function summedUpIn(common: string | null, facts: Row): SummedUp<string> {
  const [reason, endpointNo, count, firstAt, lastAt, newest] = facts as unknown as [
    Reason,
    number,
    number,
    number,
    number,
    string,
  ]
  return { common, reason, endpointNo, count, firstAt, lastAt, newest }
}
