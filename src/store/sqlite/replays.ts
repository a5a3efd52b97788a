import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { laneOf } from '../../core/lanes.ts'
import { isRecovery, type Recovery, type Replay, type ReplayStatus } from '../../core/replay.ts'
import type { ReplayStep, ReplayStepped } from '../replay-store.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Found } from './long-reads.ts'
import { firstNumberSince, matching, type Span, walkMatching } from './matching.ts'
import { type Recoverable, walkRecovery } from './recovery.ts'
import { replayColumns, replayDoneAt, replayLastAt, toReplay } from './replay-rows.ts'
import type { Revival } from './revival.ts'
import { selected, startOf } from './selection.ts'
import { Statements } from './statements.ts'

/** A step never looks at more rows than this, whatever it finds: nobody's commit waits for a filter that matches rarely. */
const looksPerStepMax = 5_000

type Job = Readonly<{ replay: Replay; span: Span }>
type Progress = Readonly<{
  replayed: number
  failed: number
  doneNo: number
  exhausted: boolean
  endpointIds: readonly string[]
}>

/** Replay jobs and what they do; runs inside the batch's transaction. */
export class Replays {
  readonly #endpoints: EndpointTable
  readonly #revival: Revival
  readonly #statements: Statements
  readonly #insert: StatementSync
  readonly #change: StatementSync
  readonly #progress: StatementSync
  readonly #prune: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, revival: Revival) {
    this.#endpoints = endpoints
    this.#revival = revival
    this.#statements = new Statements(db)
    this.#insert = db.prepare(`
      INSERT INTO replays (id, tenant, status, settings, matched, replayed, failed, created_at, updated_at, ended_at,
        done_no, last_no) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    this.#change = db.prepare(`
      UPDATE replays SET status = ?1, updated_at = ?2,
        ended_at = CASE WHEN ?1 IN ('finished', 'cancelled') THEN ?2 ELSE NULL END
      WHERE id = ?3 AND status = ?4`)
    this.#progress = db.prepare(`
      UPDATE replays SET replayed = replayed + ?, failed = failed + ?, done_no = ?, updated_at = ? WHERE id = ?`)
    this.#prune = db.prepare(`
      DELETE FROM replays WHERE no IN (SELECT no FROM replays WHERE ended_at < ? ORDER BY no LIMIT ?)`)
  }

  create({ replay, lastNo }: { replay: Replay; lastNo: number }): Replay {
    const { id, tenant, status, selection, rate, note, by, matched, replayed, failed } = replay
    const settings = JSON.stringify({ selection, rate, note, by })
    const since = startOf(selection)
    const doneNo = since === null ? 0 : firstNumberSince(since) - 1
    const { createdAt, updatedAt, endedAt } = replay
    const counts = [matched, replayed, failed, createdAt, updatedAt, endedAt, doneNo, lastNo]
    this.#insert.run(id, tenant, status, settings, ...counts)
    return replay
  }

  change({ id, from, to, now }: { id: string; from: ReplayStatus; to: ReplayStatus; now: number }): Replay | null {
    this.#change.run(to, now, id, from)
    return this.#find(id)?.replay ?? null
  }

  prune({ before, limit }: { before: number; limit: number }): number {
    return Number(this.#prune.run(before, limit).changes)
  }

  step(step: ReplayStep): ReplayStepped {
    const job = this.#find(step.id)
    if (job === null || job.replay.status !== 'running') return { replay: job?.replay ?? null, endpointIds: [] }
    const progress = this.#advance(job, step)
    this.#progress.run(progress.replayed, progress.failed, progress.doneNo, step.now, step.id)
    if (progress.exhausted) this.#change.run('finished', step.now, step.id, 'running')
    return { replay: this.#find(step.id)?.replay ?? null, endpointIds: progress.endpointIds }
  }

  /** Deletes dead letters that are still as they were seen. */
  discard({ found, settledBy }: { found: readonly Found[]; settledBy: number }): number {
    return this.#revival.discard(found, settledBy)
  }

  #advance({ replay, span }: Job, step: ReplayStep): Progress {
    const { selection, tenant } = replay
    if (isRecovery(selection)) return this.#recover(replay, selection, span, step)
    const bounds = { span, limit: step.limit, looksMax: looksPerStepMax }
    const { keys, doneNo, exhausted } = walkMatching(
      this.#statements,
      matching(selected(selection, tenant), this.#statements),
      bounds,
    )
    const woken = new Set<string>()
    let failed = 0
    for (const no of keys) if (!this.#again(no, step.now, woken)) failed += 1
    return { replayed: keys.length - failed, failed, doneNo, exhausted, endpointIds: [...woken] }
  }

  #recover(replay: Replay, selection: Recovery, span: Span, step: ReplayStep): Progress {
    const { matched, replayed, failed, tenant } = replay
    const key = this.#endpoints.find(selection.endpointId)
    const isForeign = tenant !== null && step.recover !== null && step.recover.tenant !== tenant
    if (key.removed || isForeign) {
      const left = Math.max(0, matched - replayed - failed)
      return { replayed: 0, failed: left, doneNo: span.last, exhausted: true, endpointIds: [] }
    }
    const { recover } = step
    if (recover === null) throw new Error(`${step.id} recovers an endpoint, so the step has to say what it wants`)
    const bounds = { span, limit: step.limit, looksMax: looksPerStepMax }
    const endpoint = { no: key.no, tenant: recover.tenant, types: recover.types }
    const { items, doneNo, exhausted } = walkRecovery(this.#statements, selection, endpoint, bounds)
    const woken = new Set<string>()
    const newIds = step.newIds.values()
    for (const item of items) this.#bring(item, { endpointNo: key.no, step, newIds, woken })
    return { replayed: items.length, failed: 0, doneNo, exhausted, endpointIds: [...woken] }
  }

  #bring(
    item: Recoverable,
    context: { endpointNo: number; step: ReplayStep; newIds: Iterator<string>; woken: Set<string> },
  ): void {
    const { endpointNo, step, newIds, woken } = context
    if (item.kind === 'again') {
      this.#again(item.no, step.now, woken)
      return
    }
    const next = newIds.next()
    if (next.done === true) throw new Error(`${step.id} needs as many new ids as its limit`)
    const lane = laneOf(step.recover?.ordering ?? 'none', item.key)
    const isDue = this.#revival.insert({ ...item, id: next.value, endpointNo, lane, now: step.now })
    if (isDue) woken.add(this.#endpoints.idOf(endpointNo))
  }

  /** Answers whether it could be brought back. */
  #again(no: number, now: number, woken: Set<string>): boolean {
    const { endpointId, became } = this.#revival.again(no, now)
    if (became === 'due') woken.add(endpointId)
    return became !== 'removed'
  }

  #find(id: string): Job | null {
    const row = this.#statements.row(`SELECT ${replayColumns} FROM replays WHERE id = ?`, [id])
    if (row === undefined) return null
    const span = { after: row[replayDoneAt] as number, last: row[replayLastAt] as number }
    return { replay: toReplay(row), span }
  }
}
