import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Replay, ReplayState, ReplayStatus } from '../../core/replay.ts'
import { placesOf } from '../places.ts'
import type { Cell } from './rows.ts'

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

const stateNames = [
  'status',
  'requeued',
  'delivered',
  'failed_again',
  'skipped',
  'updated_at',
  'ended_at',
  'settled_at',
] as const

const stateAt = placesOf(stateNames)

/** What changes of jobs: reads it for the rules in core/replay, and writes what they say. */
export class ReplayStates {
  readonly #read: StatementSync
  readonly #write: StatementSync
  readonly #ended: StatementSync

  constructor(db: DatabaseSync) {
    this.#read = db.prepare(`SELECT ${stateNames.join(', ')} FROM replays WHERE no = ?`)
    this.#write = db.prepare(`UPDATE replays SET ${stateNames.map((name) => `${name} = ?`).join(', ')} WHERE no = ?`)
    this.#ended = db.prepare(`
      SELECT ${stateNames.join(', ')}, no FROM replays WHERE coalesce(settled_at, ended_at) < ? ORDER BY no`)
    for (const rows of [this.#read, this.#ended]) rows.setReturnArrays(true)
  }

  /** `rule` says what becomes of the job; null, or the same object: it stays as it is. */
  change(no: number, rule: (before: ReplayState) => ReplayState | null): void {
    const row = this.#read.get(no) as unknown as Cell[] | undefined
    if (row === undefined) return
    const before = toState(row)
    const after = rule(before)
    if (after === null || after === before) return
    const { status, requeued, delivered, failedAgain, skipped, updatedAt, endedAt, settledAt } = after
    this.#write.run(status, requeued, delivered, failedAgain, skipped, updatedAt, endedAt, settledAt, no)
  }

  /** The row keys of jobs that ended before this instant and are chosen, oldest first. */
  endedBefore(before: number, isChosen: (state: ReplayState) => boolean, limit: number): readonly number[] {
    const found: number[] = []
    if (limit <= 0) return found
    for (const row of this.#ended.iterate(before) as unknown as Iterable<Cell[]>) {
      if (!isChosen(toState(row))) continue
      found.push(row[stateNames.length] as number)
      if (found.length >= limit) break
    }
    return found
  }
}

function toState(row: readonly Cell[]): ReplayState {
  return {
    status: row[stateAt.status] as ReplayStatus,
    requeued: row[stateAt.requeued] as number,
    delivered: row[stateAt.delivered] as number | null,
    failedAgain: row[stateAt.failed_again] as number | null,
    skipped: row[stateAt.skipped] as number,
    updatedAt: row[stateAt.updated_at] as number,
    endedAt: row[stateAt.ended_at] as number | null,
    settledAt: row[stateAt.settled_at] as number | null,
  }
}
