import type { Clock } from '../core/clock.ts'
import { countsOf, type Replay, waitingOf } from '../core/replay.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'

export type ReplayNewsParts = Readonly<{
  store: Pick<Store, 'getReplay' | 'listReplays'>
  clock: Clock
  log: Logger
  notices: Notices
}>

type Told = Readonly<{ replay: Replay; at: number }>

const tellEveryMs = 1_000
/** After a poll the reader belongs to the others for so many times as long as the poll took. */
const restFactor = 20
const pageMax = 100

/**
 * Tells how replays go on: what their steps do, and what becomes of the deliveries that they requeued. The store counts
 * outcomes where they happen, so they are polled here while any are missing.
 */
export class ReplayNews {
  readonly #parts: ReplayNewsParts
  /** Replays with outcomes to come, or that still run, as they were last told. */
  readonly #open = new Map<string, Told>()
  #timer: NodeJS.Timeout | null = null
  #polling: Promise<void> = Promise.resolve()
  #isPolling = false
  #stopped = false

  constructor(parts: ReplayNewsParts) {
    this.#parts = parts
  }

  /** Reads the replays of which outcomes are missing. */
  async load(): Promise<void> {
    const { store, clock } = this.#parts
    let cursor: string | null | undefined
    while (cursor !== null) {
      const from = cursor === undefined ? {} : { cursor }
      const page = await store.listReplays({ waiting: true, limit: pageMax, ...from })
      for (const replay of page.items) this.#open.set(replay.id, { replay, at: clock.steady() })
      cursor = page.next
    }
    this.#pollLater(tellEveryMs)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#polling
  }

  /** The replay as it is now. A new status is told at once, progress once a second. */
  saw(replay: Replay): void {
    const { log } = this.#parts
    const told = this.#open.get(replay.id)
    const now = this.#parts.clock.steady()
    const isDue = told === undefined || told.replay.status !== replay.status || now - told.at >= tellEveryMs
    if (isDue || isOver(replay)) this.#tell(replay)
    if (isOver(replay)) {
      this.#open.delete(replay.id)
      log.info({ replayId: replay.id, status: replay.status, ...countsOf(replay) }, 'replay.settled')
    } else this.#open.set(replay.id, { replay, at: isDue ? now : told.at })
    this.#pollLater(tellEveryMs)
  }

  #tell(replay: Replay): void {
    const { id: replayId, tenant, status } = replay
    this.#parts.notices.publish({ kind: 'replay.changed', tenant, replayId, status, ...countsOf(replay) })
  }

  #pollLater(ms: number): void {
    if (this.#timer !== null || this.#isPolling || this.#stopped || this.#open.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#polling = this.#poll()
    }, ms)
    this.#timer.unref()
  }

  async #poll(): Promise<void> {
    const { clock, log } = this.#parts
    const began = clock.steady()
    this.#isPolling = true
    try {
      for (const [id, told] of [...this.#open]) if (!this.#stopped) await this.#pollOne(id, told)
    } catch (err) {
      log.warn({ err }, 'replays.not_read')
    }
    this.#isPolling = false
    this.#pollLater(Math.max(tellEveryMs, restFactor * (clock.steady() - began)))
  }

  async #pollOne(id: string, told: Told): Promise<void> {
    const replay = await this.#parts.store.getReplay(id)
    // Seen by somebody else meanwhile: what was read may be older than that.
    if (this.#open.get(id) !== told) return
    if (replay === null) this.#open.delete(id)
    else if (replay.status !== told.replay.status || hasMoved(told.replay, replay)) this.saw(replay)
  }
}

function isOver(replay: Replay): boolean {
  return replay.endedAt !== null && (waitingOf(replay) ?? 0) === 0
}

function hasMoved(before: Replay, after: Replay): boolean {
  const [a, b] = [countsOf(before), countsOf(after)]
  return a.requeued !== b.requeued || a.delivered !== b.delivered || a.failedAgain !== b.failedAgain
}
