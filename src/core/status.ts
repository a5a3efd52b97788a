import type { Breaker, BreakerState } from './circuit-breaker.ts'
import { holdEndsAt } from './condition.ts'
import type { EndpointKind, EndpointStatus } from './endpoint.ts'
import { kindFacts } from './endpoint-kinds.ts'

// What deserves a person's attention, what comes first, and what to type next. Pure: `now` comes in.

/** What is known of one endpoint when somebody asks how it is. */
export type Signs = Readonly<{
  endpointId: string
  kind: EndpointKind
  status: EndpointStatus
  breaker: BreakerState
  heldUntil: number | null
  /** Whether there is somebody who could take its deliveries. */
  served: boolean
  /** Its hub is connected and does not have its route. */
  lacksRoute: boolean
  /** Tries of the last minutes, and how many of them failed. */
  attempts: number
  failedAttempts: number
  waiting: number
  /** When the oldest of those that wait was received; null: none waits. */
  oldestAt: number | null
  /** Of the last 24 hours, without those that a person asked for. */
  deadLetters: number
  /** Dead letters that are kept, of whatever age; null: not counted yet. */
  deadLettersKept: number | null
}>

export const attentionReasons = [
  'breaker_open',
  'disabled',
  'route_missing',
  'hub_away',
  'handler_missing',
  'dead_letters',
  'failing',
  'held',
  'flaky',
  'waiting_long',
  'paused',
] as const
/** Why an endpoint deserves attention. */
export type AttentionReason = (typeof attentionReasons)[number]

export const states = ['ok', 'degraded', 'trouble'] as const
/** `trouble`: deliveries fail, or wait for somebody to act. `degraded`: they are late, or some of them fail. */
export type State = (typeof states)[number]

/** A share says something only of so many attempts. */
const failingAttemptsMin = 5
const flakyAttemptsMin = 20
const failingShareMin = 0.5
const flakyShareMin = 0.05
/** Nothing should wait for longer without a reason. */
export const waitingLongMs = 15 * 60_000

/** When an open breaker lets the next probe through: not before a hold ends. */
export function nextProbeAt(breaker: Breaker, heldUntil: number | null): number | null {
  return breaker.state === 'open' ? Math.max(breaker.until, heldUntil ?? 0) : null
}

/** Why this endpoint deserves attention; null: it does not. */
export function attentionFor(signs: Signs, now: number): AttentionReason | null {
  const waits = signs.waiting > 0
  const failed = signs.attempts === 0 ? 0 : signs.failedAttempts / signs.attempts
  if (signs.status === 'disabled') return 'disabled'
  if (signs.breaker !== 'closed') return 'breaker_open'
  if (waits && signs.status === 'active' && !signs.served) return absenceOf(signs)
  if (signs.deadLetters > 0 && signs.deadLettersKept !== 0) return 'dead_letters'
  if (signs.attempts >= failingAttemptsMin && failed > failingShareMin) return 'failing'
  if (waits && signs.status === 'paused') return 'paused'
  if (waits && holdEndsAt(signs, now) !== null) return 'held'
  if (signs.attempts >= flakyAttemptsMin && failed >= flakyShareMin) return 'flaky'
  return signs.oldestAt !== null && now - signs.oldestAt > waitingLongMs ? 'waiting_long' : null
}

/** How bad that is. */
export function gravityOf(why: AttentionReason, { waiting }: Pick<Signs, 'waiting'>): Exclude<State, 'ok'> {
  switch (why) {
    case 'breaker_open':
    case 'route_missing':
    case 'hub_away':
    case 'handler_missing':
    case 'dead_letters':
    case 'failing':
      return 'trouble'
    case 'disabled':
      // One that nobody sends to can stay as it is.
      return waiting > 0 ? 'trouble' : 'degraded'
    case 'held':
    case 'flaky':
    case 'waiting_long':
    case 'paused':
      return 'degraded'
  }
}

export type Attention = Readonly<{ why: AttentionReason; signs: Signs }>

/** The worst first: what is in trouble, and of that the one with the most at stake. */
export function byUrgency(a: Attention, b: Attention): number {
  return (
    rank(gravityOf(b.why, b.signs)) - rank(gravityOf(a.why, a.signs)) ||
    atStake(b.signs) - atStake(a.signs) ||
    attentionReasons.indexOf(a.why) - attentionReasons.indexOf(b.why) ||
    (a.signs.endpointId < b.signs.endpointId ? -1 : 1)
  )
}

/** What concerns all endpoints. */
export type Whole = Readonly<{
  ready: boolean
  allPaused: boolean
  clocksApart: boolean
  /** Processes cannot agree: each decides by itself. */
  membersApart: boolean
}>

/** How the whole is: as bad as the worst of it. */
export function stateOf(attention: readonly Attention[], whole: Whole): State {
  const { ready, allPaused, clocksApart, membersApart } = whole
  if (!ready || attention.some(({ why, signs }) => gravityOf(why, signs) === 'trouble')) return 'trouble'
  return allPaused || clocksApart || membersApart || attention.length > 0 ? 'degraded' : 'ok'
}

export const hintsMax = 4

/** Commands to type next, the most useful first; never none. `attention`: the worst first. */
export function hintsFor(attention: readonly Attention[], whole: Whole): readonly string[] {
  const { ready, allPaused, clocksApart, membersApart } = whole
  const hints = [
    ...(ready && !clocksApart && !membersApart ? [] : ['posthorn doctor']),
    ...(allPaused ? ['posthorn dispatch resume'] : []),
    ...attention.slice(0, hintsMax).flatMap(({ why, signs }) => hintsOf(why, signs)),
  ]
  return hints.length === 0 ? ['posthorn tail'] : [...new Set(hints)].slice(0, hintsMax)
}

function hintsOf(why: AttentionReason, signs: Signs): readonly string[] {
  const { endpointId, waiting, deadLetters, deadLettersKept } = signs
  const hasDead = deadLetters > 0 && deadLettersKept !== 0
  const dead = hasDead ? [`posthorn dlq list --endpoint ${endpointId} --group error`] : []
  const pending = waiting > 0 ? [`posthorn deliveries list --endpoint ${endpointId} --status pending`] : []
  switch (why) {
    case 'dead_letters':
      return [...dead, `posthorn dlq replay --endpoint ${endpointId} --dry-run`]
    case 'breaker_open':
      return [...pending, ...dead, 'posthorn breakers list --state open']
    case 'handler_missing':
    case 'held':
    case 'waiting_long':
      return [...pending, ...dead]
    case 'failing':
    case 'flaky':
      return [`posthorn deliveries list --endpoint ${endpointId} --since 15m`, ...dead]
    case 'disabled':
    case 'paused':
      return [`posthorn endpoints show ${endpointId}`, ...dead]
    case 'hub_away':
    case 'route_missing':
      return ['posthorn relays list', ...dead]
  }
}

function absenceOf({ kind, lacksRoute }: Signs): AttentionReason {
  switch (kindFacts[kind].absentee) {
    case 'handler':
      return 'handler_missing'
    case 'hub':
      return lacksRoute ? 'route_missing' : 'hub_away'
    case null:
      return 'waiting_long'
  }
}

/** Dead letters that were replayed or discarded since are no longer at stake. */
function atStake({ waiting, deadLetters, deadLettersKept }: Signs): number {
  return waiting + Math.min(deadLetters, deadLettersKept ?? deadLetters)
}

function rank(state: State): number {
  return states.indexOf(state)
}
