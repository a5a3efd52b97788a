/** A delivery that came in for a lane, as far as its order matters. */
export type Placed = Readonly<{
  delivery: string
  /** The delivery after whose end this one may begin; null: all before it have ended, and the edge has that on disk. */
  behind: string | null
}>

/**
 * The order of one lane at the hub: one at a time, and none before the one that it is behind has ended. What cannot be
 * sure of that is given back, which is always right: the edge sends it again, with nothing before it.
 */
export class Lane<T extends Placed> {
  #waiting: T[] = []
  #running: T | null = null
  /** The last that ended here on this link, if nothing has broken the chain since. */
  #lastEnded: string | null = null

  /** Takes it in or gives it back, and gives back what must not be tried any more because of it. */
  arrive(item: T): readonly T[] {
    if (item.behind === null) {
      // What still waits is before it, and then it has ended elsewhere, or after it, and then it comes again.
      const stale = this.#waiting
      this.#waiting = [item]
      return stale
    }
    if (item.behind !== this.#lastEnded && !this.#holds(item.behind)) return [item]
    this.#waiting.push(item)
    return []
  }

  /** Whether one may begin now. */
  get isReady(): boolean {
    return this.#running === null && this.#waiting.length > 0
  }

  /** Nothing runs, nothing waits. */
  get isIdle(): boolean {
    return this.#running === null && this.#waiting.length === 0
  }

  /** The next one; null when none may begin. */
  begin(): T | null {
    if (this.#running !== null) return null
    this.#running = this.#waiting.shift() ?? null
    return this.#running
  }

  /** The one that runs is done. Gives back what cannot follow: it is behind one that has not ended, or not just now. */
  settle(hasEnded: boolean): readonly T[] {
    const done = this.#running
    this.#running = null
    this.#lastEnded = hasEnded && done !== null ? done.delivery : null
    const [next] = this.#waiting
    if (next === undefined || next.behind === null || next.behind === this.#lastEnded) return []
    // One that is behind none began a chain of its own meanwhile.
    const first = this.#waiting.findIndex(({ behind }) => behind === null)
    return this.#waiting.splice(0, first < 0 ? this.#waiting.length : first)
  }

  /** Gives back all that has not begun. What comes next may be behind the one that runs, or behind the last that ended. */
  recall(): readonly T[] {
    return this.#waiting.splice(0)
  }

  /** The link is lost: what has not begun comes again, and what is to come has another beginning. */
  forget(): readonly T[] {
    this.#lastEnded = null
    return this.#waiting.splice(0)
  }

  #holds(delivery: string): boolean {
    // Nearly always it is the last that came.
    return (
      this.#waiting.at(-1)?.delivery === delivery ||
      this.#running?.delivery === delivery ||
      this.#waiting.some((item) => item.delivery === delivery)
    )
  }
}
