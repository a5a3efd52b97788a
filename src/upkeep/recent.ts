/** What is counted of one tenant or endpoint. */
export type Tallied = { accepted: number; delivered: number; attempts: number; failedAttempts: number }

type Bucket = Readonly<{ number: number; counts: Map<string, Tallied> }>

/**
 * Counts by name over the last while, in buckets of time: nothing has to be remembered per event, and who has not been
 * heard of for as long as the window takes no memory any more.
 */
export class RecentCounts {
  readonly #bucketMs: number
  readonly #bucketsMax: number
  readonly #now: () => number
  readonly #startedAt: number
  /** Oldest first; the last one is being filled. */
  readonly #buckets: Bucket[] = []

  constructor(settings: Readonly<{ bucketMs: number; buckets: number }>, now: () => number) {
    this.#bucketMs = settings.bucketMs
    this.#bucketsMax = settings.buckets
    this.#now = now
    this.#startedAt = now()
  }

  /** The counts of this name, to be added to. */
  of(name: string): Tallied {
    const { counts } = this.#current()
    let tallied = counts.get(name)
    if (tallied === undefined) {
      tallied = { accepted: 0, delivered: 0, attempts: 0, failedAttempts: 0 }
      counts.set(name, tallied)
    }
    return tallied
  }

  /** What was counted of this name within the window; null: of all of them. */
  sum(name: string | null): Readonly<Tallied> {
    const sum = { accepted: 0, delivered: 0, attempts: 0, failedAttempts: 0 }
    this.#current()
    for (const { counts } of this.#buckets) {
      if (name === null) for (const tallied of counts.values()) add(sum, tallied)
      else add(sum, counts.get(name))
    }
    return sum
  }

  /** How long the counts reach back: as long as the window, or since the start. */
  get spanMs(): number {
    const now = this.#now()
    const first = (Math.floor(now / this.#bucketMs) - this.#bucketsMax + 1) * this.#bucketMs
    return now - Math.max(first, this.#startedAt)
  }

  #current(): Bucket {
    const number = Math.floor(this.#now() / this.#bucketMs)
    const last = this.#buckets.at(-1)
    if (last?.number === number) return last
    const bucket: Bucket = { number, counts: new Map() }
    this.#buckets.push(bucket)
    while ((this.#buckets[0]?.number ?? number) <= number - this.#bucketsMax) this.#buckets.shift()
    return bucket
  }
}

function add(sum: Tallied, tallied: Tallied | undefined): void {
  if (tallied === undefined) return
  sum.accepted += tallied.accepted
  sum.delivered += tallied.delivered
  sum.attempts += tallied.attempts
  sum.failedAttempts += tallied.failedAttempts
}
