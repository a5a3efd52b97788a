import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { Row } from './driver.ts'
import type { Span } from './matching.ts'

/** As `toReplay` and `toJob` read them. */
export const replayColumns = [
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
  'no',
  'done_id',
  'last_id',
].join(', ')

/** A replay, its number, and the row keys that it has still to look at. */
export type ReplayJob = Readonly<{ no: number; replay: Replay; span: Span }>

const jobAt = 13

export function toReplay(row: Row): Replay {
  const [id, tenant, status, settings, matched, requeued, delivered, failedAgain, skipped, ...instants] = row
  const [createdAt, updatedAt, endedAt, settledAt] = instants
  const { selection, rate, note, by } = JSON.parse(settings as string)
  return {
    id: id as string,
    tenant: tenant as string | null,
    selection,
    rate,
    note,
    by,
    status: status as ReplayStatus,
    matched: matched as number,
    requeued: requeued as number,
    delivered: delivered as number | null,
    failedAgain: failedAgain as number | null,
    skipped: skipped as number,
    createdAt: createdAt as number,
    updatedAt: updatedAt as number,
    endedAt: endedAt as number | null,
    settledAt: settledAt as number | null,
  }
}

export function toJob(row: Row): ReplayJob {
  const [no, after, last] = row.slice(jobAt) as [number, string, string]
  return { no, replay: toReplay(row), span: { after, last } }
}
