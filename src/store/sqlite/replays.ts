import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { laneOf } from '../../core/lanes.ts'
import {
  mayPruneReplay,
  type Replay,
  type ReplayStatus,
  replayMoved,
  replayStepped,
  type StepDone,
  stepWithoutEndpoint,
} from '../../core/replay.ts'
import { isRecovery, mayRecoverTo, type Recovery, selectedDeliveries, selectionStart } from '../../core/selection.ts'
import type { ReplayStep, ReplayStepped } from '../replay-store.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Found } from './long-reads.ts'
import { firstNumberSince, matching, type Span, walkMatching } from './matching.ts'
import { type Recoverable, walkRecovery } from './recovery.ts'
import { ReplayStates, replayAt, replayColumns, toReplay } from './replay-rows.ts'
import type { Revival } from './revival.ts'
import { Statements } from './statements.ts'

/** A step never looks at more rows than this, whatever it finds: nobody's commit waits for a filter that matches rarely. */
const looksPerStepMax = 5_000

type Job = Readonly<{ no: number; replay: Replay; span: Span }>
type Progress = StepDone & Readonly<{ doneNo: number; endpointIds: readonly string[] }>

/** Replay jobs and what they do; runs inside the batch's transaction. */
export class Replays {
  readonly #endpoints: EndpointTable
  readonly #revival: Revival
  readonly #states: ReplayStates
  readonly #statements: Statements
  readonly #insert: StatementSync
  readonly #goOn: StatementSync
  readonly #delete: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable, revival: Revival) {
    this.#endpoints = endpoints
    this.#revival = revival
    this.#states = new ReplayStates(db)
    this.#statements = new Statements(db)
    this.#insert = db.prepare(`
      INSERT INTO replays (${replayColumns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    this.#goOn = db.prepare('UPDATE replays SET done_no = ? WHERE no = ?')
    this.#delete = db.prepare('DELETE FROM replays WHERE no = ?')
  }

  create({ replay, lastNo }: { replay: Replay; lastNo: number }): Replay {
    const { id, tenant, status, selection, rate, note, by, matched, requeued, delivered, failedAgain, skipped } = replay
    const settings = JSON.stringify({ selection, rate, note, by })
    const since = selectionStart(selection)
    const doneNo = since === null ? 0 : firstNumberSince(since) - 1
    const { createdAt, updatedAt, endedAt, settledAt } = replay
    const counts = [matched, requeued, delivered, failedAgain, skipped]
    const instants = [createdAt, updatedAt, endedAt, settledAt]
    this.#insert.run(id, tenant, status, settings, ...counts, ...instants, doneNo, lastNo)
    return replay
  }

  change({ id, from, to, now }: { id: string; from: ReplayStatus; to: ReplayStatus; now: number }): Replay | null {
    const no = this.#find(id)?.no
    if (no !== undefined) this.#states.change(no, (replay) => replayMoved(replay, { from, to }, now))
    return this.#find(id)?.replay ?? null
  }

  prune({ before, limit }: { before: number; limit: number }): number {
    const over = this.#states.endedBefore(before, (replay) => mayPruneReplay(replay, before), limit)
    for (const no of over) this.#delete.run(no)
    return over.length
  }

  step(step: ReplayStep): ReplayStepped {
    const job = this.#find(step.id)
    if (job === null || job.replay.status !== 'running') return { replay: job?.replay ?? null, endpointIds: [] }
    const progress = this.#advance(job, step)
    this.#goOn.run(progress.doneNo, job.no)
    this.#states.change(job.no, (replay) => replayStepped(replay, progress, step.now))
    return { replay: this.#find(step.id)?.replay ?? null, endpointIds: progress.endpointIds }
  }

  /** Deletes dead letters that are still as they were seen. */
  discard({ found, settledBy }: { found: readonly Found[]; settledBy: number }): number {
    return this.#revival.discard(found, settledBy)
  }

  #advance({ no: replayNo, replay, span }: Job, step: ReplayStep): Progress {
    const { selection, tenant } = replay
    if (isRecovery(selection)) return this.#recover({ no: replayNo, replay, span }, selection, step)
    const bounds = { span, limit: step.limit, looksMax: looksPerStepMax }
    const { keys, doneNo, exhausted } = walkMatching(
      this.#statements,
      matching(selectedDeliveries(selection, tenant), this.#statements),
      bounds,
    )
    const woken = new Set<string>()
    let skipped = 0
    for (const no of keys) if (!this.#again(no, { now: step.now, replayNo }, woken)) skipped += 1
    return { requeued: keys.length - skipped, skipped, doneNo, exhausted, endpointIds: [...woken] }
  }

  #recover({ no: replayNo, replay, span }: Job, selection: Recovery, step: ReplayStep): Progress {
    const key = this.#endpoints.find(selection.endpointId)
    const { recover } = step
    if (recover === null && !key.removed)
      throw new Error(`${step.id} recovers an endpoint, so the step has to say what it wants`)
    if (recover === null || !mayRecoverTo(replay.tenant, key.removed ? null : recover.tenant))
      return { ...stepWithoutEndpoint(replay), doneNo: span.last, endpointIds: [] }
    const bounds = { span, limit: step.limit, looksMax: looksPerStepMax }
    const endpoint = { no: key.no, tenant: recover.tenant, types: recover.types }
    const { items, doneNo, exhausted } = walkRecovery(this.#statements, selection, endpoint, bounds)
    const woken = new Set<string>()
    const newIds = step.newIds.values()
    const context = { endpointNo: key.no, replayNo, step, newIds, woken }
    const brought = items.filter((item) => this.#bring(item, context)).length
    return { requeued: brought, skipped: items.length - brought, doneNo, exhausted, endpointIds: [...woken] }
  }

  /** Answers whether it could be brought back. */
  #bring(
    item: Recoverable,
    context: {
      endpointNo: number
      replayNo: number
      step: ReplayStep
      newIds: Iterator<string>
      woken: Set<string>
    },
  ): boolean {
    const { endpointNo, replayNo, step, newIds, woken } = context
    if (item.kind === 'again') return this.#again(item.no, { now: step.now, replayNo }, woken)
    const next = newIds.next()
    if (next.done === true) throw new Error(`${step.id} needs as many new ids as its limit`)
    const lane = laneOf(step.recover?.ordering ?? 'none', item.key)
    const isDue = this.#revival.insert({ ...item, id: next.value, endpointNo, lane, now: step.now, replayNo })
    if (isDue) woken.add(this.#endpoints.idOf(endpointNo))
    return true
  }

  /** Answers whether it could be brought back. */
  #again(no: number, by: { now: number; replayNo: number }, woken: Set<string>): boolean {
    const { endpointId, became } = this.#revival.again(no, by)
    if (became === 'due') woken.add(endpointId)
    return became !== 'skipped'
  }

  #find(id: string): Job | null {
    const row = this.#statements.row(`SELECT ${replayColumns}, no FROM replays WHERE id = ?`, [id])
    if (row === undefined) return null
    const span = { after: row[replayAt.done_no] as number, last: row[replayAt.last_no] as number }
    return { no: row.at(-1) as number, replay: toReplay(row), span }
  }
}
