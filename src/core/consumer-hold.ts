/**
 * Why a consumer starts nothing new.
 *
 *   infrastructure   a handler said that something of our own is down: tried again with one record, at growing distances
 *   budget           too many records in a row would be dead letters: one record is tried per cool-down
 *   paused           a person says so
 */
export type HoldReason = 'infrastructure' | 'budget' | 'paused'

/** `until`: then one record is tried; null: not before a person says so. */
export type Hold = Readonly<{ reason: HoldReason; since: number; until: number | null; times: number }>

const firstMs = 1_000
const infrastructureMsMax = 30_000
export const budgetCooldownMs = 5 * 60_000

/** One more attempt ended like this. */
export function heldAgain(before: Hold | null, reason: Exclude<HoldReason, 'paused'>, now: number): Hold {
  const goesOn = before?.reason === reason
  const times = goesOn ? before.times + 1 : 1
  const waitMs = reason === 'budget' ? budgetCooldownMs : Math.min(infrastructureMsMax, firstMs * 2 ** (times - 1))
  return { reason, since: goesOn ? before.since : now, until: now + waitMs, times }
}

/** How many attempts may be under way: all that there is room for, one as a probe, or none. */
export function startsAllowed(hold: Hold | null, concurrency: number, now: number): number {
  if (hold === null) return concurrency
  return hold.until !== null && now >= hold.until ? 1 : 0
}
