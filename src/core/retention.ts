import { plausibleSince } from './clock.ts'
import type { DeliveryStatus } from './delivery.ts'

/** How long what has ended is kept. */
export type Retention = Readonly<{
  /** Since it was delivered. */
  deliveredMs: number
  /** Since it failed, and at least since it became a dead letter of any kind. */
  failedMs: number
  /** Since it was received; never less than `failedMs` since it became a dead letter. */
  deadLetterMs: number
  /** Since it was received, for an event that went to nobody. */
  eventMs: number
}>

/** What the end of a delivery is judged by; `settledAt` is null while it has not ended. */
export type Ending = Readonly<{ status: DeliveryStatus; receivedAt: number; settledAt: number | null }>

/** Until when a delivery is kept; null: it has not ended. Infinity: until somebody discards it. */
export function keptUntil({ status, receivedAt, settledAt }: Ending, retention: Retention): number | null {
  if (settledAt === null || status === 'pending' || status === 'processing') return null
  // Settled while the machine did not know the time: nobody can say that it is old.
  if (settledAt < plausibleSince) return Number.POSITIVE_INFINITY
  switch (status) {
    case 'delivered':
      return settledAt + retention.deliveredMs
    case 'failed':
      return settledAt + retention.failedMs
    case 'dead_letter':
      return Math.max(receivedAt + retention.deadLetterMs, settledAt + retention.failedMs)
  }
}

/** Until when an event that went to nobody is kept. Infinity: it came while the machine did not know the time. */
export function eventKeptUntil(receivedAt: number, retention: Retention): number {
  return receivedAt < plausibleSince ? Number.POSITIVE_INFINITY : receivedAt + retention.eventMs
}
