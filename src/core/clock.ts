/** Time comes in from outside. Both count epoch milliseconds. */
export type Clock = Readonly<{
  /** What people and signatures see. May jump when somebody sets the machine's clock. */
  wall(): number
  /** What schedules: begins at the wall clock's time and then only goes forward, whatever happens to that clock. */
  steady(): number
}>

/** No clock that is right shows less: an instant before it was taken while a machine did not know the time. */
export const plausibleSince = Date.UTC(2024, 0, 1)

const clocksApartMsMax = 3_600_000

/** Wall and steady clock disagree by more than an hour: somebody set the machine's clock, and ages mean nothing. */
export function areApart(clock: Clock): boolean {
  return Math.abs(clock.wall() - clock.steady()) > clocksApartMsMax
}
