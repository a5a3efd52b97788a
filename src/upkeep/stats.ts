import { setTimeout as wait } from 'node:timers/promises'
import type { Store } from '../store/store.ts'
import type { SpaceSizes, StoreStats } from '../store/upkeep-store.ts'

/** Counting a large backlog is work for the reader: whoever asks more often than this gets the same answer. */
const keptMs = 10_000
const readMsMax = 1_000
/** Who wants it fresh gets it while counting is as quick as this; beyond, the reader rests for so many times as long. */
const quickMs = 100
const restPerCount = 20

/** `sizes` null: the store's files are not ours. */
export type StatsRead = StoreStats & Readonly<{ sizes: SpaceSizes | null }>

/** `countedAt`: how old it is. */
export type CountedStats = Readonly<{ stats: StatsRead; countedAt: number; tookMs: number }>

/** What the store has to tell of itself, asked for no more often than is good for it. */
export class Stats {
  readonly #store: Pick<Store, 'stats' | 'space'>
  readonly #steady: () => number
  #kept: Promise<StatsRead> | null = null
  #askedAt = 0
  #tookMs: number | null = null
  #last: CountedStats | null = null

  constructor(store: Pick<Store, 'stats' | 'space'>, steady: () => number) {
    this.#store = store
    this.#steady = steady
  }

  read(): Promise<StatsRead> {
    return this.#readSince(keptMs)
  }

  /** Counted now, unless counting takes so long that the last time has to do. */
  readFresh(): Promise<StatsRead> {
    const tookMs = this.#tookMs ?? keptMs
    return this.#readSince(tookMs <= quickMs ? 0 : Math.min(keptMs, tookMs * restPerCount))
  }

  /**
   * What is known, at a price that does not grow with the backlog: however often somebody asks, the reader counts for no
   * more than one twentieth of the time, and nobody waits for a count that is not quick: then it is what it was the last
   * time. null: it has not been counted yet.
   */
  async readKnown(): Promise<CountedStats | null> {
    const last = this.#last
    const asked = this.#readSince(last === null ? keptMs : last.tookMs * restPerCount).catch(() => null)
    if (last === null || last.tookMs <= quickMs) await this.#soon(asked)
    return this.#last
  }

  #readSince(agedMsMax: number): Promise<StatsRead> {
    const now = this.#steady()
    if (this.#kept !== null && now - this.#askedAt < agedMsMax) return this.#kept
    this.#askedAt = now
    this.#tookMs = null
    const asked: Promise<StatsRead> = this.#count().then(
      (stats) => {
        this.#tookMs = this.#steady() - now
        this.#last = { stats, countedAt: now, tookMs: this.#tookMs }
        return stats
      },
      (error) => {
        if (this.#kept === asked) this.#kept = null
        throw error
      },
    )
    this.#kept = asked
    return asked
  }

  async #count(): Promise<StatsRead> {
    const [stats, sizes] = await Promise.all([this.#store.stats(), this.#store.space?.sizes() ?? null])
    return { ...stats, sizes }
  }

  /** For whoever cannot wait for a store that is busy counting something else: then it is what it was last time. */
  async readSoon(): Promise<StatsRead> {
    const read = await this.#soon(this.read())
    const known = read ?? this.#last?.stats
    if (known === undefined) throw new Error(`the store did not answer within ${readMsMax} ms`)
    return known
  }

  /** null: it takes longer than somebody can wait. */
  async #soon(asked: Promise<StatsRead | null>): Promise<StatsRead | null> {
    const patience = new AbortController()
    const late = wait(readMsMax, null, { signal: patience.signal, ref: false }).catch(() => null)
    return Promise.race([asked, late]).finally(() => patience.abort())
  }
}
