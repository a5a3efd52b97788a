type Entry<T> = Readonly<{ at: number; sleeper: T }>

const timerMsMax = 60_000
const staleMin = 1_024

/** Wakes sleepers in order of time with one timer, however many there are: a binary heap with stale entries left in. */
export class Wakeups<T> {
  readonly #now: () => number
  readonly #wake: (sleeper: T) => void
  #heap: Entry<T>[] = []
  /** When each sleeper is to be woken. An entry of the heap with another instant is stale. */
  readonly #wakeAt = new Map<T, number>()
  /** When the heap has grown to this, the stale entries are thrown out. */
  #tidyAt = staleMin
  #timer: NodeJS.Timeout | null = null
  #timerAt = Number.POSITIVE_INFINITY
  #stopped = false

  constructor(now: () => number, wake: (sleeper: T) => void) {
    this.#now = now
    this.#wake = wake
  }

  /** Entries that are kept, stale ones included. */
  get size(): number {
    return this.#heap.length
  }

  /** Wakes the sleeper at `at`, or earlier if it was to be woken earlier. */
  schedule(sleeper: T, at: number): void {
    if (this.#stopped || (this.#wakeAt.get(sleeper) ?? Number.POSITIVE_INFINITY) <= at) return
    if (this.#heap.length >= this.#tidyAt) this.#tidy()
    this.#wakeAt.set(sleeper, at)
    this.#push({ at, sleeper })
    this.#arm()
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #arm(): void {
    const first = this.#heap[0]
    if (first === undefined || first.at >= this.#timerAt) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timerAt = first.at
    const waitMs = Math.min(timerMsMax, Math.max(0, first.at - this.#now()))
    this.#timer = setTimeout(() => this.#ring(), Math.ceil(waitMs))
  }

  #ring(): void {
    this.#timer = null
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = this.#now()
    for (let first = this.#heap[0]; first !== undefined && first.at <= now; first = this.#heap[0]) {
      this.#pop()
      if (this.#wakeAt.get(first.sleeper) !== first.at) continue
      this.#wakeAt.delete(first.sleeper)
      this.#wake(first.sleeper)
    }
    if (!this.#stopped) this.#arm()
  }

  /** An endpoint that is woken early again and again would leave an entry for its far instant each time. */
  #tidy(): void {
    this.#heap = []
    for (const [sleeper, at] of this.#wakeAt) this.#push({ at, sleeper })
    this.#tidyAt = Math.max(staleMin, 2 * this.#heap.length)
  }

  #push(entry: Entry<T>): void {
    const heap = this.#heap
    let at = heap.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = heap[parent]
      if (above === undefined || above.at <= entry.at) break
      heap[at] = above
      at = parent
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      const child = (heap[right]?.at ?? Number.POSITIVE_INFINITY) < (heap[left]?.at ?? 0) ? right : left
      const below = heap[child]
      if (below === undefined || below.at >= last.at) break
      heap[at] = below
      at = child
    }
    heap[at] = last
  }
}
