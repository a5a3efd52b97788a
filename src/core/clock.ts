/** Time comes in from outside. All of it counts epoch milliseconds. */
export type Clock = Readonly<{
  /**
   * What people and signatures see, and how old something is: the machine's clock, or the time of a store that several
   * processes share. Jumps when somebody sets that clock.
   */
  wall(): number
  /** What schedules: begins at the store's time and then only goes forward, whatever happens to the wall clock. */
  steady(): number
  /** Begins with the steady clock, and nobody sets it, not even a store: by it others are seen to be set. */
  monotonic(): number
}>

/** By which a wall clock that was set is known. */
export type AgeClock = Pick<Clock, 'wall' | 'monotonic'>

/** No clock that is right shows less: an instant before it was taken while a machine did not know the time. */
export const plausibleSince = Date.UTC(2024, 0, 1)

const clocksApartMsMax = 3_600_000

/** Wall and monotonic clock disagree by more than an hour: somebody set the wall clock, and ages mean nothing. */
export function areApart(clock: AgeClock): boolean {
  return Math.abs(clock.wall() - clock.monotonic()) > clocksApartMsMax
}

/** A wall clock that was set is believed once it has gone side by side with the monotonic one for so long. */
export const correctedMsMin = 10 * 60_000
/** Side by side: apart by no more than this from what was seen before. */
const driftMsMax = 60_000

/** How far the wall clock is ahead of the monotonic one, and since when (by that one) it was seen to be. */
export type Skew = Readonly<{ aheadMs: number; since: number }>

/** What is seen now, after what was seen before. */
export function skewAfter(before: Skew | null, clock: AgeClock): Skew {
  const since = clock.monotonic()
  const aheadMs = clock.wall() - since
  return before !== null && Math.abs(aheadMs - before.aheadMs) <= driftMsMax ? before : { aheadMs, since }
}

/** Instants from `from` to `to` were taken by a clock that was behind by so much. */
export type Correction = Readonly<{ from: number; to: number; byMs: number }>

/** What ages are measured by. */
export type Reckoning = Readonly<{ now: number; correction: Correction | null }>

/**
 * What ages are measured by; null while nobody can say. After the clock was set, that is the wall clock, once it has
 * gone steadily for a while. What this process has written until then by the wrong time is taken for as much younger as
 * the clock was behind: nothing goes too early, and some things later.
 */
export function reckoning(skew: Skew, clock: AgeClock, startedAt: number): Reckoning | null {
  const [wall, monotonic] = [clock.wall(), clock.monotonic()]
  if (!areApart(clock)) return { now: Math.min(wall, monotonic), correction: null }
  if (monotonic - skew.since < correctedMsMin || wall < plausibleSince) return null
  return { now: wall, correction: wall > monotonic ? { from: startedAt, to: monotonic, byMs: wall - monotonic } : null }
}

/** What ages are measured by, as one observer sees it: it believes only what it has looked at. */
export class Ages {
  readonly #clock: AgeClock
  readonly #startedAt: number
  #skew: Skew | null = null

  constructor(clock: AgeClock) {
    this.#clock = clock
    this.#startedAt = clock.monotonic()
  }

  look(): Reckoning | null {
    this.#skew = skewAfter(this.#skew, this.#clock)
    return reckoning(this.#skew, this.#clock, this.#startedAt)
  }
}

export function corrected(instant: number, correction: Correction | null): number {
  if (correction === null || instant < correction.from || instant > correction.to) return instant
  return instant + correction.byMs
}
