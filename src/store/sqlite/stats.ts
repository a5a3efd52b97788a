import { statSync } from 'node:fs'
import type { SpaceSizes, StoreStats } from '../upkeep-store.ts'
import type { Statements } from './statements.ts'

/** What waits, read from its index alone. */
export function readStats(statements: Statements): StoreStats {
  const backlog = statements.rows(backlogSql, []).map(([id, pending, oldestAt]) => ({
    endpointId: id as string,
    pending: pending as number,
    oldestAt: oldestAt as number,
  }))
  const deadLettersAt = statements.rows(deadSql, []).map(([id, count]) => ({
    endpointId: id as string,
    count: count as number,
  }))
  return {
    backlog,
    deadLetters: deadLettersAt.reduce((sum, { count }) => sum + count, 0),
    deadLettersAt,
  }
}

export function countHeadlessLanes(statements: Statements): number {
  return (statements.row(headlessSql, []) as [number])[0]
}

export function readSizes(statements: Statements, file: string): SpaceSizes {
  const [pageBytes, freePages] = statements.row(pagesSql, []) as [number, number]
  return { fileBytes: sizeOf(file), walBytes: sizeOf(`${file}-wal`), freeBytes: pageBytes * freePages }
}

const backlogSql = `
  SELECT (SELECT id FROM endpoints WHERE no = endpoint_no), count(*), min(received_at)
  FROM deliveries INDEXED BY deliveries_pending WHERE status = 'pending' GROUP BY endpoint_no`
const deadSql = `
  SELECT (SELECT id FROM endpoints WHERE no = endpoint_no), count(*)
  FROM deliveries INDEXED BY deliveries_dead_of_endpoint WHERE status IN ('failed', 'dead_letter') GROUP BY endpoint_no`
const headlessSql = `
  SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE lane IS NOT NULL AND status IN ('pending', 'processing')
    GROUP BY endpoint_no, lane HAVING count(due_at) = 0)`
const pagesSql = 'SELECT page_size, freelist_count FROM pragma_page_size, pragma_freelist_count'

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}
