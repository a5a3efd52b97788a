import type { Clock } from './core/clock.ts'

/** A shared store's answer may be late. Its clock was set back only if it shows clearly less than before. */
const setBackMsMin = 60_000

/** The machine's clock, and beside it those that nobody can set, in whole milliseconds. */
export function openClock(): StoreClock {
  let startedAt = Date.now() - performance.now()
  let setForwardMs = 0
  /** How far the shared store's time is ahead of the monotonic clock; null: the store is not shared. */
  let storeAheadMs: number | null = null
  let follows = false
  const monotonic = () => Math.floor(startedAt + performance.now())
  return {
    wall: () => (storeAheadMs === null ? Date.now() : monotonic() + storeAheadMs),
    steady: () => monotonic() + setForwardMs,
    monotonic,
    follow: (storeNow, { isShared }) => {
      if (!follows) startedAt += storeNow - monotonic()
      follows = true
      const aheadMs = storeNow - monotonic()
      setForwardMs = Math.max(setForwardMs, aheadMs)
      if (!isShared) return
      const behindMs = storeAheadMs === null ? 0 : storeAheadMs - aheadMs
      if (storeAheadMs === null || behindMs < 0 || behindMs > setBackMsMin) storeAheadMs = aheadMs
    },
  }
}

/** Its steady time is that of the store, so that all processes that share it agree on what is due. */
export type StoreClock = Clock &
  Readonly<{
    /**
     * The store's time now. With the first call, before anything is scheduled, the steady and the monotonic clock become
     * that, whatever this machine's clock says. From then on the steady clock is set forward by it, and never back. Where
     * processes share the store, the wall clock shows its time too: what one has written is as old to all of them.
     */
    follow(storeNow: number, store: Readonly<{ isShared: boolean }>): void
  }>
