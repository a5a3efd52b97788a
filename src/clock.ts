/** The machine's clock, and beside it one that nobody can set, in whole milliseconds. */
export function openClock(): StoreClock {
  let startedAt = Date.now() - performance.now()
  const steady = () => Math.floor(startedAt + performance.now())
  return {
    wall: Date.now,
    steady,
    follow: (storeNow) => {
      startedAt += Math.max(0, storeNow - steady())
    },
  }
}

/** Its steady time is that of the store, so that all processes that share it agree on what is due. */
export type StoreClock = Readonly<{
  wall(): number
  steady(): number
  /** The store's time now. The steady clock goes on from there, and never back. */
  follow(storeNow: number): void
}>
