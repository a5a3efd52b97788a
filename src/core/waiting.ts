import { allowance, type Breaker } from './circuit-breaker.ts'
import { holdEndsAt } from './condition.ts'
import type { Delivery } from './delivery.ts'
import type { Endpoint, EndpointKind } from './endpoint.ts'
import { kindFacts } from './endpoint-kinds.ts'

export const waits = [
  'all_paused',
  'paused',
  'disabled',
  'handler',
  'hub',
  'route',
  'backoff',
  'hold',
  'breaker',
  'lane',
] as const
/** What a delivery waits for before it is tried. */
export type WaitsFor = (typeof waits)[number]

/** `until` null: nobody knows when that ends. */
export type Wait = Readonly<{ for: WaitsFor; until: number | null }>

export type Surroundings = Readonly<{
  endpoint: Endpoint
  /** Whether there is somebody who could take it. */
  served: boolean
  /** Whether its hub is there, and does not have its route: no waiting will help. */
  lacksRoute: boolean
  allPaused: boolean
  breaker: Breaker
  heldUntil: number | null
  now: number
}>

/**
 * Why a pending delivery is not tried now; null when it is its turn, and when it does not wait. Of several reasons it is
 * the one that will be there when the others are gone: what a person has to end comes first.
 */
export function waitOf(delivery: Delivery, surroundings: Surroundings): Wait | null {
  if (delivery.status !== 'pending') return null
  const { endpoint, allPaused, served, lacksRoute } = surroundings
  if (allPaused) return { for: 'all_paused', until: null }
  if (endpoint.status !== 'active') return { for: endpoint.status, until: null }
  const absent = served ? null : absentee(endpoint.kind, lacksRoute)
  return absent === null ? waitForTime(delivery.dueAt, surroundings) : { for: absent, until: null }
}

/** Who has to come before anything can be tried; null: nobody. */
function absentee(kind: EndpointKind, lacksRoute: boolean): WaitsFor | null {
  const { absentee } = kindFacts[kind]
  return absentee === 'hub' && lacksRoute ? 'route' : absentee
}

function waitForTime(dueAt: number | null, { endpoint, breaker, heldUntil, now }: Surroundings): Wait | null {
  const allowed = endpoint.breaker === null ? null : allowance(breaker, now)
  const heldFor = (holdEndsAt({ heldUntil }, now) ?? now) - now
  const brokenFor = allowed?.kind === 'wait' ? allowed.until - now : 0
  const dueIn = dueAt === null ? 0 : Math.max(0, dueAt - now)
  const longest = Math.max(heldFor, brokenFor, dueIn)
  if (longest === 0) return dueAt === null ? { for: 'lane', until: null } : null
  const until = now + longest
  if (longest === heldFor) return { for: 'hold', until }
  if (longest > brokenFor) return { for: 'backoff', until }
  // A probe that is under way ends before that, and nobody knows when.
  return { for: 'breaker', until: breaker.state === 'half_open' ? null : until }
}
