import type { Clock } from '../core/clock.ts'
import type { DeliveryFilter } from '../core/delivery.ts'
import type { Notices } from '../notices.ts'
import { Pace } from '../store/pace.ts'
import type { Store } from '../store/store.ts'

/** Deliveries that are looked for at once, aside from the writer. */
const foundMax = 20_000
const chunkMin = 100
const chunkMax = 500

export type CancelParts = Readonly<{
  store: Store
  clock: Clock
  notices: Notices
  /** Hears at which endpoints deliveries were cancelled: lanes there may have a new head. */
  onCancelled: (endpointIds: readonly string[]) => void
}>

export type CancelMany = Readonly<{
  /** Only deliveries older than this one; null: from the newest. */
  before: string | null
  limit: number
  /** Hears how many were cancelled, whether or not all of them were. */
  audit: (cancelled: number) => void
}>

/** `next` is where to go on; null: that was all. */
export type CancelledMany = Readonly<{ cancelled: number; next: string | null }>

/**
 * Ends deliveries that wait as failed, a few at a time, newest first: the head of a lane comes last, so that none is tried
 * only because the one before it was cancelled. What arrives while this runs was not meant.
 */
export async function cancelMatching(
  parts: CancelParts,
  filter: DeliveryFilter,
  { before, limit, audit }: CancelMany,
): Promise<CancelledMany> {
  let cancelled = 0
  let last = before
  const pace = new Pace({ limitMin: chunkMin, limitMax: chunkMax, hurriesAt: 0 })
  try {
    for (let left = limit; ; ) {
      const wanted = Math.min(foundMax, left)
      const found = await parts.store.findWaiting(filter, last, wanted)
      let done = 0
      await pace.work(async (size) => {
        const ids = found.slice(done, done + size)
        cancelled += await cancel(parts, ids)
        done += ids.length
        return done === found.length ? 'done' : 'wrote'
      })
      last = found.at(-1) ?? last
      left -= found.length
      if (found.length < wanted) return { cancelled, next: null }
      if (left <= 0) return { cancelled, next: last }
    }
  } finally {
    audit(cancelled)
  }
}

async function cancel({ store, clock, notices, onCancelled }: CancelParts, ids: readonly string[]): Promise<number> {
  const ended = await store.cancelWaiting(ids, clock.steady())
  const end = { kind: 'delivery.ended', status: 'failed', reason: 'cancelled' } as const
  if (notices.heard) for (const delivery of ended) notices.publish({ ...end, ...delivery })
  onCancelled([...new Set(ended.map(({ endpointId }) => endpointId))])
  return ended.length
}
