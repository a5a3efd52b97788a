import { Ages, type Clock, type Reckoning } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import { Pace, type PieceEnd } from '../store/pace.ts'
import type { Store } from '../store/store.ts'
import type { Cursor, Expired, ExpireRequest, Pruned, PruneSubject, Retention } from '../store/upkeep-store.ts'

export type UpkeepParts = Readonly<{
  store: Pick<Store, 'expire' | 'prune' | 'space' | 'headlessLanes'>
  endpoints: () => readonly Endpoint[]
  clock: Clock
  log: Logger
  notices: Notices
  settings: UpkeepSettings
  /** Milliseconds on a clock that only goes forward, in parts so small as pieces of work are short. */
  now?: () => number
  /** Of several processes that share the store, the leader does it by the clock. A person may run it anywhere. */
  dispatcher: Pick<Dispatcher, 'leads' | 'goOnAt'>
}>

export type UpkeepSettings = Readonly<{
  everyMs: number
  /** Nothing is expired or deleted before this, after a start. */
  afterMs: number
  retention: Retention
  /** Since a replay ended. */
  replayMs: number
}>

export type UpkeepReport = Readonly<{
  startedAt: number
  tookMs: number
  /** Deliveries that became dead letters by their age. */
  expired: number
  /** Deliveries, events, idempotency keys and replays that were kept long enough and are deleted. */
  deliveries: number
  events: number
  keys: number
  replays: number
  /** Pages given back to the file system. */
  pagesFreed: number
  /** Whether it went through all events, not only through those old enough in their order. */
  full: boolean
  /** Why nothing was expired or deleted, or not all. */
  skipped: SkipReason | null
}>

export const skipReasons = ['just_started', 'clocks_apart', 'stopping'] as const
export type SkipReason = (typeof skipReasons)[number]

export type UpkeepState = Readonly<{ running: boolean; last: UpkeepReport | null; nextAt: number | null }>

const dayMs = 86_400_000
const rowsMax = 500
const lookAtClockEveryMs = 60_000
/** `status` tells of the last 24 h. */
const deadLetterCountsKeptMs = 2 * dayMs
const rowsMin = 32
const pagesMax = 256
const pagesMin = 8
/** So much of the file may stay free: it is used again before the next run. */
const freeShareMax = 0.05

type Counts = { -readonly [N in 'expired' | 'deliveries' | 'events' | 'keys' | 'replays' | 'pagesFreed']: number }

/**
 * Lets nothing grow without bound: expires what has waited too long, deletes what has been kept long enough, and gives
 * the space back. All of it in small pieces, so that deliveries do not notice.
 */
export class Upkeep {
  readonly #parts: UpkeepParts
  readonly #stopping = new AbortController()
  readonly #listeners = new Set<(report: UpkeepReport) => void>()
  readonly #bornAt: number
  readonly #ages: Ages
  readonly #now: () => number
  #timer: NodeJS.Timeout | null = null
  #nextAt: number | null = null
  #underway: Promise<UpkeepReport> | null = null
  #last: UpkeepReport | null = null
  #lastFullAt: number | null = null
  #headlessLanes = 0
  #clockTimer: NodeJS.Timeout | null = null
  /** A run that has not ended when the next one would begin must not fall behind for ever. */
  #hurriesAt = Number.POSITIVE_INFINITY

  constructor(parts: UpkeepParts) {
    this.#parts = parts
    this.#bornAt = parts.clock.monotonic()
    this.#ages = new Ages(parts.clock)
    this.#now = parts.now ?? (() => performance.now())
  }

  /** Lanes that the last run found without a head: a defect. */
  get headlessLanes(): number {
    return this.#headlessLanes
  }

  get state(): UpkeepState {
    return { running: this.#underway !== null, last: this.#last, nextAt: this.#nextAt }
  }

  /** False after the wall clock was set, until it can be trusted again: nothing is expired or deleted meanwhile. */
  get agesKnown(): boolean {
    return this.#ages.look() !== null
  }

  start(): void {
    this.#schedule(this.#parts.settings.afterMs)
    this.#clockTimer = setInterval(() => this.#ages.look(), lookAtClockEveryMs).unref()
  }

  /** Ends a run between two of its pieces. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#clockTimer !== null) clearInterval(this.#clockTimer)
    this.#nextAt = null
    await this.#underway?.catch(() => {})
  }

  /** Told of every run that came to its end. */
  onRun(listener: (report: UpkeepReport) => void): void {
    this.#listeners.add(listener)
  }

  /** Runs now; while a run is under way, answers with that one's report. */
  run(): Promise<UpkeepReport> {
    this.#underway ??= this.#run()
      .catch((err) => {
        this.#parts.log.warn({ err }, 'upkeep.failed')
        throw err
      })
      .finally(() => {
        this.#underway = null
      })
    return this.#underway
  }

  #schedule(afterMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#nextAt = this.#parts.clock.wall() + afterMs
    this.#timer = setTimeout(() => {
      const run = this.#parts.dispatcher.leads ? this.run() : Promise.resolve()
      run.catch(() => {}).finally(() => this.#schedule(this.#parts.settings.everyMs))
    }, afterMs)
    this.#timer.unref()
  }

  async #run(): Promise<UpkeepReport> {
    const { clock, log, settings } = this.#parts
    const startedAt = clock.wall()
    const beganAt = clock.monotonic()
    this.#hurriesAt = this.#now() + settings.everyMs
    const counts: Counts = { expired: 0, deliveries: 0, events: 0, keys: 0, replays: 0, pagesFreed: 0 }
    // Fixed for the whole run: whatever somebody does to the clock, nothing goes too early.
    const ages = this.#ages.look()
    let skipped = this.#reasonToSkip(ages)
    const full = skipped === null && (this.#lastFullAt === null || beganAt - this.#lastFullAt >= dayMs)
    if (skipped === null && ages !== null) {
      await this.#expire(ages, counts)
      await this.#pruneEvents(ages, full, counts)
      await this.#pruneRest(ages, Math.min(startedAt, beganAt), counts)
    }
    await this.#shrink(counts)
    if (this.#stopping.signal.aborted) skipped = 'stopping'
    else {
      if (full) this.#lastFullAt = beganAt
      await this.#lookForHeadlessLanes()
    }
    const report = { startedAt, tookMs: clock.monotonic() - beganAt, ...counts, full, skipped }
    this.#last = report
    log.info({ ...report, startedAt: new Date(startedAt).toISOString() }, 'upkeep.done')
    for (const listener of this.#listeners) listener(report)
    return report
  }

  async #lookForHeadlessLanes(): Promise<void> {
    const { store, log } = this.#parts
    this.#headlessLanes = await store.headlessLanes()
    if (this.#headlessLanes > 0) log.error({ lanes: this.#headlessLanes }, 'lanes.without_head')
  }

  #reasonToSkip(ages: Reckoning | null): SkipReason | null {
    const { clock, settings } = this.#parts
    if (clock.monotonic() - this.#bornAt < settings.afterMs) return 'just_started'
    return ages === null ? 'clocks_apart' : null
  }

  #pace(limitMin: number, limitMax: number): Pace {
    return new Pace({ limitMin, limitMax, hurriesAt: this.#hurriesAt, stopping: this.#stopping.signal, now: this.#now })
  }

  /** Paused and disabled endpoints too: what waits there grows old as well. */
  async #expire({ now, correction }: Reckoning, counts: Counts): Promise<void> {
    for (const { id: endpointId, retry } of this.#parts.endpoints()) {
      if (retry.maxAgeMs === null) continue
      counts.expired += await this.#expireOf({ endpointId, bornBefore: now - retry.maxAgeMs, correction })
    }
  }

  async #expireOf(which: Pick<ExpireRequest, 'endpointId' | 'bornBefore' | 'correction'>): Promise<number> {
    const { store, notices, dispatcher, clock } = this.#parts
    const { endpointId } = which
    const now = clock.steady()
    let count = 0
    let after: Cursor | null = null
    await this.#pace(rowsMin, rowsMax).work(async (limit) => {
      const expired: Expired = await store.expire({ ...which, now, limit, after })
      for (const delivery of expired.deliveries) {
        notices.publish({ kind: 'delivery.ended', endpointId, status: 'dead_letter', reason: 'expired', ...delivery })
      }
      // The next in a lane is due when its head has expired.
      if (expired.deliveries.length > 0) dispatcher.goOnAt([endpointId])
      count += expired.deliveries.length
      after = expired.after
      return after === null ? 'done' : wroteIf(expired.deliveries.length > 0)
    })
    return count
  }

  /**
   * Oldest first. Events come in the order of their receipt, but for a clock that was set back meanwhile; so it ends
   * where they are too young for every rule, and once a day it looks at all of them.
   */
  async #pruneEvents({ now, correction }: Reckoning, full: boolean, counts: Counts): Promise<void> {
    const { retention } = this.#parts.settings
    const tooYoungAt = now - Math.min(...Object.values(retention))
    await this.#prune({ what: 'events', now, correction, retention }, ({ deleted, deliveries, youngestAt }) => {
      counts.deliveries += deliveries
      counts.events += deleted
      const isYoung = youngestAt !== null && youngestAt > tooYoungAt
      return full || !isYoung
    })
  }

  /** `earliest`: of wall and monotonic clock, for the ends of replays, which no correction is known for. */
  async #pruneRest({ now, correction }: Reckoning, earliest: number, counts: Counts): Promise<void> {
    await this.#prune({ what: 'keys', now, correction }, ({ deleted }) => {
      counts.keys += deleted
      return true
    })
    await this.#prune({ what: 'replays', before: earliest - this.#parts.settings.replayMs }, ({ deleted }) => {
      counts.replays += deleted
      return true
    })
    await this.#prune({ what: 'dead_letter_counts', before: now - deadLetterCountsKeptMs }, () => true)
  }

  /** Piece by piece, until that was all or `goesOn` has seen enough. */
  async #prune(subject: PruneSubject, goesOn: (pruned: Pruned) => boolean): Promise<void> {
    let after: Cursor | null = null
    await this.#pace(rowsMin, rowsMax).work(async (limit) => {
      const pruned: Pruned = await this.#parts.store.prune({ ...subject, limit, after })
      after = pruned.after
      return !goesOn(pruned) || after === null ? 'done' : wroteIf(pruned.deleted + pruned.deliveries > 0)
    })
  }

  async #shrink(counts: Counts): Promise<void> {
    const { space } = this.#parts.store
    if (space === undefined || this.#stopping.signal.aborted) return
    const { fileBytes, freeBytes } = await space.sizes()
    if (freeBytes <= fileBytes * freeShareMax) return
    // How many pages that is, the first answer tells.
    const keptShare = (fileBytes * freeShareMax) / freeBytes
    let left: number | null = null
    let pagesToKeep = 0
    await this.#pace(pagesMin, pagesMax).work(async (limit) => {
      const before = left ?? Number.POSITIVE_INFINITY
      left = await space.shrink(limit)
      if (before === Number.POSITIVE_INFINITY) pagesToKeep = (left + limit) * keptShare
      counts.pagesFreed += Math.min(limit, before - left)
      return left <= pagesToKeep || left >= before ? 'done' : 'wrote'
    })
  }
}

function wroteIf(wrote: boolean): PieceEnd {
  return wrote ? 'wrote' : 'looked'
}
