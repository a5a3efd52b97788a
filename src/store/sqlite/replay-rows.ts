import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { Cell } from './rows.ts'

export const replayColumns =
  'id, tenant, status, settings, matched, requeued, delivered, failed_again, skipped, created_at, updated_at, ' +
  'ended_at, settled_at, done_no, last_no'
export const replayDoneAt = 13
export const replayLastAt = 14

export function toReplay(row: readonly Cell[]): Replay {
  const { selection, rate, note, by } = JSON.parse(row[3] as string)
  return {
    id: row[0] as string,
    tenant: row[1] as string | null,
    selection,
    rate,
    note,
    by,
    status: row[2] as ReplayStatus,
    matched: row[4] as number,
    requeued: row[5] as number,
    delivered: row[6] as number | null,
    failedAgain: row[7] as number | null,
    skipped: row[8] as number,
    createdAt: row[9] as number,
    updatedAt: row[10] as number,
    endedAt: row[11] as number | null,
    settledAt: row[12] as number | null,
  }
}
