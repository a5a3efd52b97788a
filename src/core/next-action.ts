import type { Allowance } from './circuit-breaker.ts'
import type { EndpointStatus } from './endpoint.ts'

/**
 * How an endpoint stands. It is served only while nothing speaks against it; of several reasons, the one that lasts
 * longest is named.
 */
export type Standing =
  | 'serving'
  /** A person has paused it. */
  | 'paused'
  /** It said that it is gone, or failed for too long. */
  | 'disabled'
  /** Nobody is there who could take a delivery: no hub is connected, no handler is registered. */
  | 'unserved'
  /** It is about to be disabled: the decision is made, and not on disk yet. */
  | 'leaving'
  /** It was deleted. */
  | 'removed'
  /** All delivery is paused. */
  | 'halted'

export type StandingFacts = Readonly<{
  status: EndpointStatus
  served: boolean
  leaving: boolean
  removed: boolean
  halted: boolean
}>

export function standingOf({ status, served, leaving, removed, halted }: StandingFacts): Standing {
  if (removed) return 'removed'
  if (status !== 'active') return status
  if (leaving) return 'leaving'
  if (!served) return 'unserved'
  return halted ? 'halted' : 'serving'
}

/** How much of its concurrency an endpoint uses. */
export type Load = Readonly<{
  concurrency: number
  /** Attempts that have not been answered. */
  onWire: number
  /** Delivered, and waiting for the disk: these hold no slot, but no more than `concurrency` of them may wait. */
  answered: number
}>

/** Whether the endpoint takes one more at once. A person's retry needs this and nothing else. */
export function hasSlot({ concurrency, onWire, answered }: Load): boolean {
  return onWire < concurrency && answered < concurrency
}

/** What may be done with a delivery that is due: an attempt, a probe of the breaker, nothing yet, or its end. */
export type Gate = 'attempt' | 'probe' | 'wait' | 'refuse'

/** `refuses`: what is due while the breaker is open fails at once (`whenOpen: 'fail'`). */
export function gate(load: Load, allowed: Allowance, refuses: boolean): Gate {
  if (!hasSlot(load)) return 'wait'
  switch (allowed.kind) {
    case 'open_to':
      return allowed.limit === null || load.onWire + load.answered < allowed.limit ? 'attempt' : 'wait'
    case 'probe':
      return 'probe'
    case 'wait':
      return refuses ? 'refuse' : 'wait'
  }
}

/** All that decides what an endpoint does next. */
export type Situation = Readonly<{
  standing: Standing
  /** In memory, waiting for a slot. */
  ready: number
  /** The same, asked for by a person: past breaker and hold. */
  urgent: number
  /** Whether it waits for its turn at the slots already. */
  inTurn: boolean
  /** All it has in memory: promised, waiting and under way; and how many that may be. */
  inHand: number
  window: number
  /** When the first delivery in the store is due; null: none waits there. */
  nextDueAt: number | null
  /** What breaker and hold allow. */
  allowed: Allowance
  refuses: boolean
}>

export type NextAction =
  /** Gives what waits in memory back to the store: all of it, or what may not be tried for now. */
  | Readonly<{ kind: 'hand_back'; which: 'all' | 'ready' }>
  /** Takes its turn at the slots. */
  | Readonly<{ kind: 'start' }>
  /** Claims what is due in the store. */
  | Readonly<{ kind: 'claim'; limit: number }>
  /** Claims what is due in the store, and ends it: the breaker is open. */
  | Readonly<{ kind: 'refuse'; limit: number }>
  | Readonly<{ kind: 'wait'; until: number }>
  /** Nothing, until something changes. */
  | Readonly<{ kind: 'rest' }>

const handBackAll: NextAction = { kind: 'hand_back', which: 'all' }
const handBackReady: NextAction = { kind: 'hand_back', which: 'ready' }
const start: NextAction = { kind: 'start' }
const rest: NextAction = { kind: 'rest' }

/** What an endpoint does next. When that is done, it is asked again, until it waits or rests. */
export function nextAction(situation: Situation, now: number): NextAction {
  const { standing, ready, urgent, inTurn, allowed, nextDueAt } = situation
  // What waits in the store for an endpoint that was deleted ends too.
  if (standing === 'removed' && nextDueAt !== null) return handBackAll
  if (standing !== 'serving') return ready + urgent > 0 ? handBackAll : rest
  if (allowed.kind === 'wait' && ready > 0) return handBackReady
  if (ready + urgent > 0 && !inTurn) return start
  return nextFromStore(situation, now)
}

function nextFromStore({ nextDueAt, allowed, refuses, inHand, window }: Situation, now: number): NextAction {
  if (nextDueAt === null) return rest
  if (allowed.kind === 'wait' && !refuses) {
    return allowed.until === null ? rest : { kind: 'wait', until: Math.max(allowed.until, nextDueAt) }
  }
  if (nextDueAt > now) return { kind: 'wait', until: nextDueAt }
  if (allowed.kind === 'wait') return { kind: 'refuse', limit: window }
  const room = allowed.kind === 'probe' ? 1 : window - inHand
  // A claim for every delivery that ends would be dear: half of the window has to be free for it.
  const isWorthIt = inHand === 0 || room >= window / 2
  return room > 0 && isWorthIt ? { kind: 'claim', limit: room } : rest
}
