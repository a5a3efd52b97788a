import type { Replay, ReplayStatus } from '../../core/replay.ts'
import { type Cell, placesOf } from './rows.ts'

const replayNames = [
  'id',
  'tenant',
  'status',
  'settings',
  'matched',
  'requeued',
  'delivered',
  'failed_again',
  'skipped',
  'created_at',
  'updated_at',
  'ended_at',
  'settled_at',
  'done_no',
  'last_no',
] as const

export const replayAt = placesOf(replayNames)
export const replayColumns = replayNames.join(', ')

export function toReplay(row: readonly Cell[]): Replay {
  const { selection, rate, note, by } = JSON.parse(row[replayAt.settings] as string)
  return {
    id: row[replayAt.id] as string,
    tenant: row[replayAt.tenant] as string | null,
    selection,
    rate,
    note,
    by,
    status: row[replayAt.status] as ReplayStatus,
    matched: row[replayAt.matched] as number,
    requeued: row[replayAt.requeued] as number,
    delivered: row[replayAt.delivered] as number | null,
    failedAgain: row[replayAt.failed_again] as number | null,
    skipped: row[replayAt.skipped] as number,
    createdAt: row[replayAt.created_at] as number,
    updatedAt: row[replayAt.updated_at] as number,
    endedAt: row[replayAt.ended_at] as number | null,
    settledAt: row[replayAt.settled_at] as number | null,
  }
}
