/** What a claim weighs besides its body. */
const overheadBytes = 1_024
/** One holder may have this part of the whole, so that one with large bodies leaves room for the others. */
const holderShare = 1 / 4
/** What is set aside for one claim from the store. */
const claimShare = 1 / 32

/** Who holds events: an endpoint. */
export interface Holder {
  /** Owned by Memory. */
  heldBytes: number
}

/**
 * Bounds the bytes of events that the dispatcher holds, whatever the backlog. Beyond the bound goes only what keeps
 * everybody moving: one event for an endpoint that holds nothing.
 */
export class Memory {
  readonly #max: number
  #used = 0

  constructor(max: number) {
    this.#max = max
  }

  get used(): number {
    return this.#used
  }

  get overdrawn(): boolean {
    return this.#used > this.#max
  }

  /** Answers whether there was room. */
  take(holder: Holder, bytes: number): boolean {
    if (this.#used > 0 && !this.#fits(holder, bytes + overheadBytes)) return false
    this.force(holder, bytes)
    return true
  }

  /** For what is in hand already. */
  force(holder: Holder, bytes: number): void {
    this.#used += bytes + overheadBytes
    holder.heldBytes += bytes + overheadBytes
  }

  free(holder: Holder, bytes: number): void {
    this.#used -= bytes + overheadBytes
    holder.heldBytes -= bytes + overheadBytes
  }

  /** Sets room aside for a claim whose size is not known before it is there; null when there is none. */
  setAside(holder: Holder): number | null {
    const bytes = Math.floor(this.#max * claimShare)
    if (!this.#fits(holder, bytes)) return null
    this.#used += bytes
    return bytes
  }

  release(setAside: number): void {
    this.#used -= setAside
  }

  #fits(holder: Holder, bytes: number): boolean {
    if (this.#used + bytes > this.#max) return false
    return holder.heldBytes === 0 || holder.heldBytes + bytes <= this.#max * holderShare
  }
}
