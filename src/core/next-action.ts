import type { Allowance, WhileOpen } from './circuit-breaker.ts'
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

/** Whether the endpoint takes one more at once. */
function hasSlot({ concurrency, onWire, answered }: Load): boolean {
  return onWire < concurrency && answered < concurrency
}

/** What may be done with a delivery that is due: an attempt, a probe of the breaker, nothing yet, or its end. */
export type Gate = 'attempt' | 'probe' | 'wait' | 'refuse'

/** What breaker and hold let through, whatever the endpoint has in hand. */
export function passage(allowed: Allowance, open: WhileOpen): Gate {
  switch (allowed.kind) {
    case 'open_to':
      return 'attempt'
    case 'probe':
      return 'probe'
    case 'wait':
      return open === 'fail' ? 'refuse' : 'wait'
  }
}

/** The same for one delivery: an attempt and a probe need a slot, its end does not. */
export function gate(load: Load, allowed: Allowance, open: WhileOpen): Gate {
  const passed = passage(allowed, open)
  if (passed === 'wait' || passed === 'refuse') return passed
  if (!hasSlot(load)) return 'wait'
  // After the breaker has closed, only so many at once.
  if (allowed.kind !== 'open_to' || allowed.limit === null) return passed
  return load.onWire + load.answered < allowed.limit ? passed : 'wait'
}

/** For one that a person has asked for, past breaker and hold. Until the breaker has closed, it counts as a probe. */
export function urgentGate(load: Load, open: WhileOpen): Gate {
  if (!hasSlot(load)) return 'wait'
  return open === null ? 'attempt' : 'probe'
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
  open: WhileOpen
  /** Nothing more may be brought into memory: a suspect runs alone. */
  keptOut: boolean
}>

export type NextAction =
  /** Ends what waits, in memory and in the store: the endpoint was deleted. */
  | Readonly<{ kind: 'end' }>
  /** Hands what waits in memory back to the store: all of it, or what may not be tried for now. */
  | Readonly<{ kind: 'hand_back'; which: 'all' | 'ready' }>
  /** Takes its turn at the slots. */
  | Readonly<{ kind: 'start' }>
  /** Claims what is due in the store. */
  | Readonly<{ kind: 'claim'; limit: number }>
  /** Claims what is due in the store, and ends it: the breaker is open. */
  | Readonly<{ kind: 'refuse'; limit: number }>
  | Readonly<{ kind: 'wait'; until: number }>
  /** Waits until no suspect runs alone any more. */
  | Readonly<{ kind: 'keep_out' }>
  /** Nothing, until something changes. */
  | Readonly<{ kind: 'rest' }>

const end: NextAction = { kind: 'end' }
const handBackAll: NextAction = { kind: 'hand_back', which: 'all' }
const handBackReady: NextAction = { kind: 'hand_back', which: 'ready' }
const start: NextAction = { kind: 'start' }
const keepOut: NextAction = { kind: 'keep_out' }
const rest: NextAction = { kind: 'rest' }

/** What an endpoint does next. When that is done, it is asked again, until it waits or rests. */
export function nextAction(situation: Situation, now: number): NextAction {
  const { standing, ready, urgent, inTurn, allowed, nextDueAt } = situation
  const queued = ready + urgent
  if (standing === 'removed') return queued > 0 || nextDueAt !== null ? end : rest
  if (standing !== 'serving') return queued > 0 ? handBackAll : rest
  if (allowed.kind === 'wait' && ready > 0) return handBackReady
  if (queued > 0 && !inTurn) return start
  return nextFromStore(situation, now)
}

function nextFromStore(situation: Situation, now: number): NextAction {
  const { nextDueAt, allowed, open, keptOut, inHand, window } = situation
  if (nextDueAt === null) return rest
  if (keptOut) return keepOut
  const passed = passage(allowed, open)
  if (passed === 'wait' && allowed.kind === 'wait') return { kind: 'wait', until: Math.max(allowed.until, nextDueAt) }
  if (nextDueAt > now) return { kind: 'wait', until: nextDueAt }
  if (passed === 'refuse') return { kind: 'refuse', limit: window }
  const room = passed === 'probe' ? 1 : window - inHand
  // A claim for every delivery that ends would be dear: half of the window has to be free for it.
  const isWorthIt = inHand === 0 || room >= window / 2
  return room > 0 && isWorthIt ? { kind: 'claim', limit: room } : rest
}

// ── What starts next ──────────────────────────────────────────────────────────────────────────────────────────────

/** All that decides whether the first of what waits in memory starts, when its endpoint has its turn at the slots. */
export type Turn = Readonly<{
  standing: Standing
  load: Load
  allowed: Allowance
  open: WhileOpen
  /** A person asked for it. */
  isUrgent: boolean
  /** Of all members this one may start the probe. */
  mayProbe: boolean
  leaseEndsAt: number
  timeoutMs: number
  /** When the rate limit has a token; null: now. */
  tokenAt: number | null
}>

export type NextStart =
  | Readonly<{ kind: 'start'; probe: boolean }>
  /** It has to be asked for first. */
  | Readonly<{ kind: 'ask_probe' }>
  /** Hands it back to the store, for a new lease: this one could end before the attempt does, and another might begin. */
  | Readonly<{ kind: 'hand_back' }>
  | Readonly<{ kind: 'wait'; until: number }>
  /** Nothing, until something changes. */
  | Readonly<{ kind: 'rest' }>

export function nextStart(turn: Turn, now: number): NextStart {
  const { standing, load, allowed, open, isUrgent, mayProbe, leaseEndsAt, timeoutMs, tokenAt } = turn
  if (standing !== 'serving') return { kind: 'rest' }
  const may = isUrgent ? urgentGate(load, open) : gate(load, allowed, open)
  if (may === 'wait' || may === 'refuse') return { kind: 'rest' }
  const probe = may === 'probe'
  // A person's retry need not ask.
  if (probe && !mayProbe && !isUrgent) return { kind: 'ask_probe' }
  if (leaseEndsAt < now + timeoutMs) return { kind: 'hand_back' }
  return tokenAt === null ? { kind: 'start', probe } : { kind: 'wait', until: tokenAt }
}

// ── What others ask ───────────────────────────────────────────────────────────────────────────────────────────────

/** What an endpoint has in hand, and what it knows of the store. */
export type Outlook = Readonly<{
  standing: Standing
  inHand: number
  window: number
  nextDueAt: number | null
  /** A claim is under way: nobody knows yet what it leaves. */
  isClaiming: boolean
}>

/** Whether a fresh event may be born in hand. Behind a backlog it may not: it waits in the store like the others. */
export function mayReserve(outlook: Outlook, allowed: Allowance, now: number): boolean {
  const { standing, inHand, window } = outlook
  return standing === 'serving' && allowed.kind === 'open_to' && inHand < window && !hasBacklog(outlook, now)
}

/** Whether it could take more and still has something due in the store. */
export function isCrowded(outlook: Outlook, allowed: Allowance, now: number): boolean {
  return outlook.standing === 'serving' && allowed.kind !== 'wait' && hasBacklog(outlook, now)
}

/** Whether the next of a lane is claimed together with the outcome before it. A probe comes alone. */
export function wantsNext(standing: Standing, allowed: Allowance, keptOut: boolean): boolean {
  return standing === 'serving' && allowed.kind === 'open_to' && !keptOut
}

function hasBacklog({ isClaiming, nextDueAt }: Outlook, now: number): boolean {
  return isClaiming || (nextDueAt !== null && nextDueAt <= now)
}
