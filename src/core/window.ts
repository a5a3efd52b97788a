/** What one endpoint needs room for. */
export type WindowNeeds = Readonly<{
  /** How many attempts may be under way at once. */
  concurrency: number
  /** How long its attempts take; null: none has been made. */
  attemptMs: number | null
  /** Other processes could take what is not in memory here. */
  isShared: boolean
}>

/** What is in memory is about to be tried: the endpoint is through with it in this time. */
const aheadMs = 500
const perSlotMax = 64
export const windowMax = 4_096
/** Before anything is known of an endpoint that no other process serves. */
const unknown = { perSlot: 16, min: 64, max: 1_024 } as const

/**
 * How many deliveries of an endpoint may be in memory. What is there costs no read from the store, but no other process can
 * take it, and all of it is suspected after a crash.
 */
export function windowOf({ concurrency, attemptMs, isShared }: WindowNeeds): number {
  // It is filled up when half of it is free, which must not leave slots empty.
  const least = 2 * concurrency
  if (concurrency === 0 || (attemptMs === null && isShared)) return least
  if (attemptMs === null) {
    return Math.max(least, Math.min(unknown.max, Math.max(unknown.min, unknown.perSlot * concurrency)))
  }
  const inTime = Math.floor((concurrency * aheadMs) / Math.max(attemptMs, 0.001))
  return Math.max(least, Math.min(windowMax, perSlotMax * concurrency, inTime))
}
