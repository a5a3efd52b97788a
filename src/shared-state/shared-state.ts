/**
 * The port for what several processes have to agree on while they work and could do without: how endpoints are doing,
 * which messages were seen. Small texts under keys, each for a limited time.
 *
 * Nothing here has to survive. A value may vanish at any time: it has expired, the server was flushed, or another one has
 * taken its place that knew less. Callers go on without it.
 *
 * Every call answers within `callMsMax`, or throws. What a call that threw has written is not known.
 */
export interface SharedState {
  /** The values under these keys, in their order; null where there is none. */
  read(keys: readonly string[]): Promise<readonly (string | null)[]>

  /**
   * Puts each value in the place of the one that it was made from, and of no other; `to` null removes it. What is put
   * vanishes after its time. The answers are in the order of the swaps, of which each has another key. Of several that are
   * made from the same value at the same moment, one succeeds.
   */
  swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[]>

  /** May be called twice. */
  close(): Promise<void>

  /** What people call it: `Redis`. */
  readonly name: string
}

export type Swap = Readonly<{
  key: string
  /** null: there was none. */
  from: string | null
  to: string | null
  ttlMs: number
}>

/** `found`: what is there instead of `from`. */
export type SwapAnswer = Readonly<{ swapped: true }> | Readonly<{ swapped: false; found: string | null }>

export const callMsMax = 1_000
