/** The machine's clock, and beside it one that nobody can set, in whole milliseconds. */
export function openClock(): StoreClock {
  let startedAt = Date.now() - performance.now()
  let follows = false
  const steady = () => Math.floor(startedAt + performance.now())
  return {
    wall: Date.now,
    steady,
    follow: (storeNow) => {
      const aheadMs = storeNow - steady()
      if (!follows || aheadMs > 0) startedAt += aheadMs
      follows = true
    },
  }
}

/** Its steady time is that of the store, so that all processes that share it agree on what is due. */
export type StoreClock = Readonly<{
  wall(): number
  steady(): number
  /**
   * The store's time now. With the first call, before anything is scheduled, the steady clock becomes that, whatever this
   * machine's clock says. From then on it is set forward by it, and never back.
   */
  follow(storeNow: number): void
}>
