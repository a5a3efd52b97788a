import type { Clock } from '../core/clock.ts'
import type { Condition } from '../core/condition.ts'
import type { DeliveryFilter } from '../core/delivery.ts'
import { PosthornError } from '../core/errors.ts'
import { quotaProblem } from '../core/quota.ts'
import { type BlockedWhy, blockedBecause, countsOf, type Replay, type ReplayVerb, replayAfter } from '../core/replay.ts'
import {
  isOfMissing,
  isRecovery,
  type LeftOut,
  recoveryProblem,
  type Selection,
  selectedDeliveries,
} from '../core/selection.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { DeliveryRecord } from '../store/record-store.ts'
import type { ReplayStep } from '../store/replay-store.ts'
import type { Store } from '../store/store.ts'
import type { Catalogue } from './catalogue.ts'
import { ReplayNews } from './replay-news.ts'
import { chunkMaxOf, type Speed, speedOf } from './replay-speed.ts'

/** What the dispatcher does for a replay. */
interface ReplayTarget {
  /** All delivery is paused by a person: jobs stand still, as after a restore nothing shall move by itself. */
  readonly paused: boolean
  /** Of several processes that share the store, one makes the steps of jobs. */
  readonly leads: boolean
  /** Something became due at these endpoints. */
  goOnAt(endpointIds: readonly string[]): void
  /** Whether one of them could take more and still has something due in the store. */
  isCrowded(endpointIds: readonly string[]): boolean
  conditionOf(endpointId: string): Pick<Condition, 'breaker'>
}

export type ReplayParts = Readonly<{
  store: Store
  catalogue: Catalogue
  clock: Clock
  log: Logger
  notices: Notices
  target: ReplayTarget
  newId: (prefix: 'rpl' | 'dlv') => string
  /** How long it is on record what was delivered. */
  recordKeptMs: number
  /** How many may run of one tenant. */
  tenantRunningMax?: number
}>

export type ReplayRequest = Readonly<Pick<Replay, 'tenant' | 'selection' | 'rate' | 'note' | 'by'>>

export type ReplayPreview<Shown = DeliveryRecord> = Readonly<{
  matched: number
  sample: readonly Shown[]
  /** Endpoints of these deliveries that take nothing now: what is requeued there waits. */
  blocked: readonly Blocked[]
  /** Dead letters that match and stay as they are, unless the filter names their reason. */
  leftOut: LeftOut
}>
export type Blocked = Readonly<{ endpointId: string; why: BlockedWhy }>

export type ReplayChange =
  | Readonly<{ kind: 'changed'; replay: Replay }>
  | Readonly<{ kind: 'not_found' }>
  /** The verb makes no sense for a job in this status. */
  | Readonly<{ kind: 'refused'; replay: Replay }>

type Job = {
  readonly id: string
  replay: Replay
  /** When its next step may be made. */
  dueAt: number
  /** How long the next step may be put off because endpoints still have what the last one brought. */
  patientUntil: number
  endpointIds: readonly string[]
  lastStepMs: number
}

const stepsPerSecond = 10
/** Without a rate, the next step waits for the endpoints to take what is there, but not for a slow one for ever. */
const patienceMs = 200
const patienceStepMs = 5
const afterFailureMs = 1_000
const pausedLookMs = 500
const timerMsMax = 60_000
const runningMax = 100
const tenantRunningMaxDefault = 20
const creditMs = 1_000
const readsMax = 3
const blockedMax = 100
/** Deliveries that a preview shows. */
export const sampleMax = 10

/**
 * Runs replay jobs: a step of one, then a step of the next. The store has the truth about each job and moves its
 * progress in one transaction with its deliveries; what is here can be thrown away at any time.
 */
export class ReplayRunner {
  readonly #parts: ReplayParts
  readonly #news: ReplayNews
  /** Jobs that run, the one that was stepped longest ago first. */
  readonly #jobs = new Map<string, Job>()
  /** When jobs of one speed may make their next step: those with a rate do not rest for those without. */
  readonly #restUntil = new Map<Speed, number>()
  /** Whose jobs are being made: they are not among the jobs yet. */
  readonly #opening = new Map<symbol, string | null>()
  #wake: () => void = () => {}
  #stopped = false
  #work: Promise<void> = Promise.resolve()

  constructor(parts: ReplayParts) {
    this.#parts = parts
    this.#news = new ReplayNews(parts)
  }

  /** Reads what was under way when the process ended. Before deliveries start: otherwise an outcome could be missed. */
  async load(): Promise<void> {
    for await (const replay of this.#running()) this.#take(replay)
    await this.#news.load()
  }

  async *#running(): AsyncGenerator<Replay> {
    let cursor: string | null | undefined
    while (cursor !== null) {
      const from = cursor === undefined ? {} : { cursor }
      const page = await this.#parts.store.listReplays({ status: 'running', limit: runningMax, ...from })
      yield* page.items
      cursor = page.next
    }
  }

  /** Takes up what other processes have started, and leaves what they have ended. */
  async refresh(): Promise<void> {
    const known = new Set(this.#jobs.keys())
    const running = new Set<string>()
    for await (const replay of this.#running()) {
      running.add(replay.id)
      if (!this.#jobs.has(replay.id)) this.#take(replay)
      this.#news.saw(replay)
    }
    for (const id of known) if (!running.has(id)) this.#jobs.delete(id)
  }

  /** Goes on with what was running. */
  start(): void {
    this.#work = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#wake()
    await this.#work
    await this.#news.stop()
  }

  /** What a job of this kind would bring back: how many, and the newest of those that exist. Nothing is done. */
  async preview({ selection, tenant }: Pick<Replay, 'selection' | 'tenant'>): Promise<ReplayPreview> {
    this.#refuseForgotten(selection)
    const { store } = this.#parts
    const own = selectedDeliveries(selection, tenant)
    const matched = await store.countSelection(selection, tenant)
    const isMissing = isOfMissing(selection)
    const page = isMissing ? null : await store.listDeliveries({ ...own, limit: sampleMax })
    const blocked = matched === 0 ? [] : await this.#blocked(selection, own)
    return { matched, sample: page?.items ?? [], blocked, leftOut: await this.#leftOut(isMissing ? null : own) }
  }

  async #leftOut(own: DeliveryFilter | null): Promise<LeftOut> {
    const { exceptReasons = [], ...all } = own ?? {}
    const count = async (reason: keyof LeftOut) =>
      exceptReasons.includes(reason)
        ? this.#parts.store.countDeliveries({ ...all, reason }, Number.MAX_SAFE_INTEGER)
        : 0
    return { cancelled: await count('cancelled'), endpoint_deleted: await count('endpoint_deleted') }
  }

  async #blocked(selection: Selection, own: DeliveryFilter): Promise<readonly Blocked[]> {
    const { store, catalogue } = this.#parts
    const found: Blocked[] = []
    for (const { id: endpointId } of catalogue.list()) {
      const why = this.#whyBlocked(endpointId)
      if (why === null || endpointId !== (own.endpointId ?? endpointId) || found.length >= blockedMax) continue
      const isMeant = isRecovery(selection) || (await store.countDeliveries({ ...own, endpointId }, 1)) > 0
      if (isMeant) found.push({ endpointId, why })
    }
    return found
  }

  #whyBlocked(endpointId: string): Blocked['why'] | null {
    const { catalogue, target } = this.#parts
    const endpoint = catalogue.get(endpointId)
    return endpoint === null ? null : blockedBecause(endpoint, target.conditionOf(endpointId).breaker.state)
  }

  /** `maker` is the tenant of who asks for it; null: the operator. */
  async create(request: ReplayRequest, maker: string | null = null): Promise<Replay> {
    this.#refuseForgotten(request.selection)
    return this.#withRoom(request.tenant, maker, () => this.#create(request))
  }

  async #create(request: ReplayRequest): Promise<Replay> {
    const { store, clock, log, newId } = this.#parts
    const now = clock.wall()
    const replay = await store.createReplay({
      ...request,
      id: newId('rpl'),
      status: 'running',
      requeued: 0,
      delivered: 0,
      failedAgain: 0,
      skipped: 0,
      createdAt: now,
      updatedAt: now,
      endedAt: null,
      settledAt: null,
    })
    const { id: replayId, by, note, rate, matched, selection } = replay
    log.info({ replayId, by, note, rate, matched, selection }, 'replay.created')
    if (replay.status === 'running') this.#take(replay)
    this.#news.saw(replay)
    return replay
  }

  async change(id: string, verb: ReplayVerb, maker: string | null = null): Promise<ReplayChange> {
    const { store, clock, log } = this.#parts
    for (let reads = 0; ; reads++) {
      const before = await store.getReplay(id)
      if (before === null) return { kind: 'not_found' }
      const to = replayAfter(before.status, verb)
      if (to === null || reads >= readsMax) return { kind: 'refused', replay: before }
      const make = () => store.changeReplay(id, before.status, to, clock.wall())
      const replay = await (to === 'running' ? this.#withRoom(before.tenant, maker, make) : make())
      if (replay === null) return { kind: 'not_found' }
      // It may have finished between the look and the change.
      if (replay.status !== to) continue
      if (to === 'running') this.#take(replay)
      else this.#jobs.delete(id)
      log.info({ replayId: id, status: to }, 'replay.changed')
      this.#news.saw(replay)
      return { kind: 'changed', replay }
    }
  }

  #refuseForgotten(selection: Selection): void {
    const { clock, recordKeptMs } = this.#parts
    const problem = recoveryProblem(selection, clock.wall(), recordKeptMs)
    if (problem !== null) throw new PosthornError('invalid', problem)
  }

  /** Rejects with `conflict` when there is no room for another job. */
  async #withRoom<T>(tenant: string | null, maker: string | null, make: () => Promise<T>): Promise<T> {
    const { tenantRunningMax: tenantMax = tenantRunningMaxDefault } = this.#parts
    const quota = { things: 'running replays', max: runningMax, tenantMax, setting: 'POSTHORN_TENANT_REPLAYS_MAX' }
    const running = [...[...this.#jobs.values()].map(({ replay }) => replay.tenant), ...this.#opening.values()]
    const problem = quotaProblem(quota, maker, running)
    if (problem !== null) throw new PosthornError('conflict', `${problem} Wait for one or cancel one.`)
    const place = Symbol()
    this.#opening.set(place, tenant)
    try {
      return await make()
    } finally {
      this.#opening.delete(place)
    }
  }

  #take(replay: Replay): void {
    const now = this.#parts.clock.steady()
    const { id } = replay
    this.#jobs.set(id, { id, replay, dueAt: now, patientUntil: now, endpointIds: [], lastStepMs: 0 })
    this.#wake()
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const now = this.#parts.clock.steady()
      const job = this.#next(now)
      const at = job === null ? null : this.#dueAt(job)
      if (job === null || at === null || at > now) await this.#sleep((at ?? now + timerMsMax) - now)
      else await this.#step(job, now)
    }
  }

  /** The first that is due, else the one that is due first. */
  #next(now: number): Job | null {
    let next: Job | null = null
    for (const job of this.#jobs.values()) {
      if (this.#dueAt(job) <= now) return job
      if (next === null || this.#dueAt(job) < this.#dueAt(next)) next = job
    }
    return next
  }

  #dueAt({ dueAt, replay }: Job): number {
    return Math.max(dueAt, this.#restUntil.get(speedOf(replay)) ?? 0)
  }

  async #step(job: Job, now: number): Promise<void> {
    const { store, clock, log, target } = this.#parts
    if (target.paused || !target.leads) {
      job.dueAt = now + pausedLookMs
      return
    }
    if (job.replay.rate === null && now < job.patientUntil && target.isCrowded(job.endpointIds)) {
      job.dueAt = now + patienceStepMs
      return
    }
    // To the end of the row: the others have their turn first.
    this.#jobs.delete(job.id)
    this.#jobs.set(job.id, job)
    try {
      const { replay, endpointIds } = await store.stepReplay(this.#stepOf(job, now))
      target.goOnAt(endpointIds)
      this.#stepped(job, replay, endpointIds, now)
    } catch (err) {
      log.warn({ err, replayId: job.id }, 'replay.step_failed')
      job.dueAt = clock.steady() + afterFailureMs
    }
    const ended = clock.steady()
    const speed = speedOf(job.replay)
    job.lastStepMs = ended - now
    this.#restUntil.set(speed, ended + Math.max(1, speed.restFactor * job.lastStepMs))
  }

  #stepped(job: Job, replay: Replay | null, endpointIds: readonly string[], beganAt: number): void {
    // A person has paused or cancelled it meanwhile.
    if (this.#jobs.get(job.id) !== job) return
    const before = job.replay
    const now = this.#parts.clock.steady()
    if (replay === null || replay.status !== 'running') this.#jobs.delete(job.id)
    if (replay === null) return
    job.replay = replay
    job.endpointIds = endpointIds
    job.patientUntil = now + patienceMs
    const done = replay.requeued + replay.skipped - before.requeued - before.skipped
    const pauseMs = replay.rate === null ? 0 : (done * 1_000) / replay.rate
    job.dueAt = Math.max(job.dueAt, beganAt - creditMs) + pauseMs
    if (replay.status !== 'running')
      this.#parts.log.info({ replayId: replay.id, status: replay.status, ...countsOf(replay) }, 'replay.ended')
    this.#news.saw(replay)
  }

  #stepOf({ replay, lastStepMs }: Job, now: number): ReplayStep {
    const { id, rate, selection } = replay
    const chunkMax = chunkMaxOf(replay, lastStepMs)
    const limit = rate === null ? chunkMax : Math.min(chunkMax, Math.max(1, Math.ceil(rate / stepsPerSecond)))
    const endpoint = isRecovery(selection) ? this.#parts.catalogue.get(selection.endpointId) : null
    if (endpoint === null) return { id, limit, now, recover: null, newIds: [] }
    const { types, tenant, ordering } = endpoint
    const newIds = Array.from({ length: limit }, () => this.#parts.newId('dlv'))
    return { id, limit, now, recover: { types, tenant, ordering }, newIds }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(timerMsMax, Math.ceil(ms)))
      timer.unref()
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
