import type { SharedState, Swap, SwapAnswer } from './shared-state.ts'

type Entry = Readonly<{ value: string; endsAt: number }>

export type MemoryStateLimits = Readonly<{
  /** Beyond it, those that were put first are forgotten. */
  entriesMax?: number
  pruneEveryMs?: number
}>

const entriesMaxDefault = 200_000
const pruneEveryMsDefault = 1_000
const lookedAtOnce = 20_000
/** One hundredth at a time: finding the first of a Map takes the longer the more have gone before it. */
const forgottenPart = 100

/** For one process alone. `steady`: its clock. */
export class MemoryState implements SharedState {
  readonly name = 'memory'
  readonly #steady: () => number
  readonly #entriesMax: number
  /** In the order in which they were put. */
  readonly #entries = new Map<string, Entry>()
  readonly #pruning: NodeJS.Timeout
  /** Where pruning goes on: it looks at a bounded number at a time. */
  #unlooked = this.#entries.entries()

  constructor(steady: () => number, limits: MemoryStateLimits = {}) {
    const { entriesMax = entriesMaxDefault, pruneEveryMs = pruneEveryMsDefault } = limits
    this.#steady = steady
    this.#entriesMax = entriesMax
    this.#pruning = setInterval(() => this.#prune(), pruneEveryMs).unref()
  }

  get size(): number {
    return this.#entries.size
  }

  async read(keys: readonly string[]): Promise<readonly (string | null)[]> {
    return keys.map((key) => this.#at(key))
  }

  async swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[]> {
    return swaps.map(({ key, from, to, ttlMs }) => {
      const found = this.#at(key)
      if (found !== from) return { swapped: false, found }
      this.#entries.delete(key)
      if (to !== null) this.#put(key, { value: to, endsAt: this.#steady() + ttlMs })
      return { swapped: true }
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#pruning)
    this.#entries.clear()
  }

  #put(key: string, entry: Entry): void {
    this.#entries.set(key, entry)
    if (this.#entries.size > this.#entriesMax) this.#forgetOldest(Math.ceil(this.#entriesMax / forgottenPart))
  }

  #forgetOldest(count: number): void {
    let left = count
    for (const oldest of this.#entries.keys()) {
      if (left === 0) return
      this.#entries.delete(oldest)
      left -= 1
    }
  }

  #at(key: string): string | null {
    const entry = this.#entries.get(key)
    if (entry === undefined) return null
    if (this.#steady() < entry.endsAt) return entry.value
    this.#entries.delete(key)
    return null
  }

  /** What has ended goes, also if nobody asks for it again. */
  #prune(): void {
    const now = this.#steady()
    for (let looked = 0; looked < lookedAtOnce; looked += 1) {
      const { value, done } = this.#unlooked.next()
      if (done) {
        this.#unlooked = this.#entries.entries()
        return
      }
      const [key, { endsAt }] = value
      if (endsAt <= now) this.#entries.delete(key)
    }
  }
}
