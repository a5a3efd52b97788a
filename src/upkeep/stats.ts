import type { Store } from '../store/store.ts'
import type { StoreStats } from '../store/upkeep-store.ts'

/** Counting a large backlog is work for the reader: whoever asks more often than this gets the same answer. */
const keptMs = 10_000

/** What the store has to tell of itself, asked for no more often than is good for it. */
export class Stats {
  readonly #store: Pick<Store, 'stats'>
  readonly #steady: () => number
  #kept: Promise<StoreStats> | null = null
  #askedAt = 0

  constructor(store: Pick<Store, 'stats'>, steady: () => number) {
    this.#store = store
    this.#steady = steady
  }

  read(): Promise<StoreStats> {
    const now = this.#steady()
    if (this.#kept !== null && now - this.#askedAt < keptMs) return this.#kept
    this.#askedAt = now
    const asked: Promise<StoreStats> = this.#store.stats().catch((error) => {
      if (this.#kept === asked) this.#kept = null
      throw error
    })
    this.#kept = asked
    return asked
  }
}
