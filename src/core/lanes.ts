import { type DeliveryStatus, isSettled } from './delivery.ts'
import type { Ordering } from './endpoint.ts'

/**
 * The rules of ordered lanes. A store reads the few facts that a rule asks for, under whatever lock it needs, and does
 * what the rule says.
 *
 * A live delivery (pending or processing) has a position in its lane. The one with the smallest position is the head, and
 * it alone may be tried. The others wait behind it without a due time. When the head ends, the live delivery with the
 * smallest position is the next head. A delivery that is replayed enters its lane again at the tail.
 */

/**
 * The lane of a delivery inside its endpoint: deliveries of one lane are attempted one after another, in the order
 * of acceptance. null: order does not matter.
 */
export function laneOf(ordering: Ordering, key: string | null): string | null {
  switch (ordering) {
    case 'none':
      return null
    case 'key':
      return key === null ? null : `key:${key}`
    case 'endpoint':
      return 'all'
  }
}

// ── Entering a lane ───────────────────────────────────────────────────────────────────────────────────────────────

/** Whether what enters a lane waits behind others. `tail` is the largest live position in the lane; null: it is empty. */
export function waitsBehind(tail: number | null): boolean {
  return tail !== null
}

/**
 * The position of an arrival: its own number, which grows with acceptance. A replay may have taken a position beyond all
 * numbers of its time, and the arrival still goes behind it.
 */
export function arrivalPosition(number: number, tail: number | null): number {
  return tail === null || number > tail ? number : tail + 1
}

/** The position of a delivery that is replayed or backfilled: behind all of its lane, and behind every number given so far. */
export function replayPosition(newestNumber: number, tail: number | null): number {
  return 1 + (tail === null || newestNumber > tail ? newestNumber : tail)
}

// ── Changing inside a lane ────────────────────────────────────────────────────────────────────────────────────────

/** Where a delivery stands in its lane. `out`: it has ended, and the lane goes on without it. */
export type Place = 'head' | 'behind' | 'out'

/** `isPromoted`: the head before it has just ended in the same call, and nothing else was brought up (`follows`). */
export function placeOf(status: DeliveryStatus, dueAt: number | null, isPromoted: boolean): Place {
  if (isSettled(status)) return 'out'
  return isPromoted || status === 'processing' || dueAt !== null ? 'head' : 'behind'
}

/**
 * Whether a delivery waits behind another after a change, without a due time whatever the change says. Only what is pending
 * can be parked: a lease and an end are as the change says. `tail` as above, without the delivery itself; it is only asked
 * for what enters the lane.
 */
export function isParkedAfter(before: Place, status: DeliveryStatus, tail: number | null): boolean {
  if (status !== 'pending') return false
  switch (before) {
    case 'head':
      return false
    case 'behind':
      return true
    case 'out':
      return waitsBehind(tail)
  }
}

/** What a change means for the lane. `enters`: the delivery gets a replay's position. `moves`: the head has ended. */
export type LaneEffect = 'none' | 'enters' | 'moves'

export function laneEffect(before: Place, status: DeliveryStatus): LaneEffect {
  switch (before) {
    case 'head':
      return isSettled(status) ? 'moves' : 'none'
    case 'behind':
      return 'none'
    case 'out':
      return status === 'pending' ? 'enters' : 'none'
  }
}

// ── The next head ─────────────────────────────────────────────────────────────────────────────────────────────────

/** How the next in a lane becomes its head: claimed for a dispatcher that asked for it, or released, due when the head ended. */
export type Promotion = Readonly<{ kind: 'claim'; leaseEndsAt: number }> | Readonly<{ kind: 'release'; dueAt: number }>

/** A large body is never claimed this way: whoever claims it says what fits into memory. */
export function promotionOf(claimNext: number | null, isLarge: boolean, headEndedAt: number): Promotion {
  if (claimNext === null || isLarge) return { kind: 'release', dueAt: headEndedAt }
  return { kind: 'claim', leaseEndsAt: claimNext }
}

/**
 * Whether a change that `follows` may end the next in the lane together with its head: that one is still pending, with
 * the version that was read. Otherwise the chain is void from here on.
 */
export function continuesChain(status: DeliveryStatus, version: number, readVersion: number): boolean {
  return status === 'pending' && version === readVersion
}

/** Whether a change is stale because of its chain: it follows a change that did not end the head before it. */
export function isChainVoid(follows: boolean, isHeadEnded: boolean): boolean {
  return follows && !isHeadEnded
}
