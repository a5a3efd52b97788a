import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { Cell } from './rows.ts'

export const replayColumns =
  'id, tenant, status, settings, matched, replayed, failed, created_at, updated_at, ended_at, done_no, last_no'
export const replayDoneAt = 10
export const replayLastAt = 11

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
    replayed: row[5] as number,
    failed: row[6] as number,
    createdAt: row[7] as number,
    updatedAt: row[8] as number,
    endedAt: row[9] as number | null,
  }
}
