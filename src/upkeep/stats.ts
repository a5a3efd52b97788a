import { setTimeout as wait } from 'node:timers/promises'
import type { Store } from '../store/store.ts'
import type { StoreStats } from '../store/upkeep-store.ts'

/** Counting a large backlog is work for the reader: whoever asks more often than this gets the same answer. */
const keptMs = 10_000
const readMsMax = 1_000
/** Who wants it fresh gets it while counting is as quick as this; beyond, the reader rests for so many times as long. */
const quickMs = 100
const restPerCount = 20

/** What the store has to tell of itself, asked for no more often than is good for it. */
export class Stats {
  readonly #store: Pick<Store, 'stats'>
  readonly #steady: () => number
  #kept: Promise<StoreStats> | null = null
  #askedAt = 0
  #tookMs: number | null = null
  #last: StoreStats | null = null

  constructor(store: Pick<Store, 'stats'>, steady: () => number) {
    this.#store = store
    this.#steady = steady
  }

  read(): Promise<StoreStats> {
    return this.#readSince(keptMs)
  }

  /** Counted now, unless counting takes so long that the last time has to do. */
  readFresh(): Promise<StoreStats> {
    const tookMs = this.#tookMs ?? keptMs
    return this.#readSince(tookMs <= quickMs ? 0 : Math.min(keptMs, tookMs * restPerCount))
  }

  #readSince(agedMsMax: number): Promise<StoreStats> {
    const now = this.#steady()
    if (this.#kept !== null && now - this.#askedAt < agedMsMax) return this.#kept
    this.#askedAt = now
    this.#tookMs = null
    const asked: Promise<StoreStats> = this.#store.stats().then(
      (stats) => {
        this.#tookMs = this.#steady() - now
        this.#last = stats
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

  /** For whoever cannot wait for a store that is busy counting something else: then it is what it was last time. */
  async readSoon(): Promise<StoreStats> {
    const patience = new AbortController()
    const late = wait(readMsMax, null, { signal: patience.signal, ref: false }).catch(() => null)
    const read = await Promise.race([this.read(), late]).finally(() => patience.abort())
    const known = read ?? this.#last
    if (known === null) throw new Error(`the store did not answer within ${readMsMax} ms`)
    return known
  }
}
