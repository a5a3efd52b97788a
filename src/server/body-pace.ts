/** A body that has begun to come and is not complete. */
export type Paced = Readonly<{
  /** Bytes that have come so far. */
  size: () => number
  tooSlow: () => void
}>

const bytesPerSecondMin = 1_024
const windowMsDefault = 5_000

/**
 * Ends bodies that come more slowly than is allowed, so that nobody holds a share of the memory by stalling. Looked at in
 * windows: a body that got too little in a whole one is ended, one that joined in the middle has until the next.
 */
export class BodyPace {
  readonly #windowMs: number
  /** With the size at the last look; -1: it has not been looked at. */
  readonly #watched = new Map<Paced, number>()
  #timer: NodeJS.Timeout | null = null

  constructor(windowMs = windowMsDefault) {
    this.#windowMs = windowMs
  }

  watch(body: Paced): void {
    this.#watched.set(body, -1)
    this.#timer ??= setInterval(() => this.#look(), this.#windowMs).unref()
  }

  forget(body: Paced): void {
    if (!this.#watched.delete(body) || this.#watched.size > 0 || this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  #look(): void {
    const bytesMin = (bytesPerSecondMin * this.#windowMs) / 1_000
    for (const [body, before] of this.#watched) {
      const size = body.size()
      if (before >= 0 && size - before < bytesMin) body.tooSlow()
      else this.#watched.set(body, size)
    }
  }
}
