import { setTimeout as wait } from 'node:timers/promises'
import type { DeliveryFilter } from '../core/delivery.ts'
import type { Store } from '../store/store.ts'

/** Dead letters of one step: a transaction that others' commits wait for. */
const chunk = 500
/** After a step the store belongs to the others for as long as the step took. */
const restFactor = 1

/**
 * Deletes dead letters, a few at a time: those that are such `now`, by the steady clock. What fails while this runs was
 * not meant. `audit` hears how many were deleted, whether or not all of them were.
 */
export async function discardMatching(
  store: Store,
  filter: DeliveryFilter,
  { now, audit }: Readonly<{ now: number; audit: (discarded: number) => void }>,
): Promise<number> {
  let discarded = 0
  try {
    for (;;) {
      const began = performance.now()
      const count = await store.discard(filter, chunk, now)
      discarded += count
      if (count === 0) return discarded
      await wait(restFactor * (performance.now() - began))
    }
  } finally {
    audit(discarded)
  }
}
