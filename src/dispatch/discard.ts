import type { DeliveryFilter } from '../core/delivery.ts'
import { Pace } from '../store/pace.ts'
import type { Store } from '../store/store.ts'

const chunkMin = 100
const chunkMax = 500

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
    await new Pace({ limitMin: chunkMin, limitMax: chunkMax, hurriesAt: 0 }).work(async (limit) => {
      const count = await store.discard(filter, limit, now)
      discarded += count
      return count === 0 ? 'done' : 'wrote'
    })
    return discarded
  } finally {
    audit(discarded)
  }
}
