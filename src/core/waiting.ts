import { allowance, type Breaker } from './circuit-breaker.ts'
import type { Delivery } from './delivery.ts'
import type { Endpoint, EndpointKind } from './endpoint.ts'

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
export function waitsFor(delivery: Delivery, surroundings: Surroundings): WaitsFor | null {
  if (delivery.status !== 'pending') return null
  const { endpoint, allPaused, served, lacksRoute } = surroundings
  if (allPaused) return 'all_paused'
  if (endpoint.status !== 'active') return endpoint.status
  return (served ? null : absentee(endpoint.kind, lacksRoute)) ?? waitsForTime(delivery.dueAt, surroundings)
}

/** Who has to come before anything can be tried; null: an http endpoint needs nobody. */
function absentee(kind: EndpointKind, lacksRoute: boolean): WaitsFor | null {
  switch (kind) {
    case 'http':
      return null
    case 'handler':
      return 'handler'
    case 'relay':
      return lacksRoute ? 'route' : 'hub'
  }
}

function waitsForTime(dueAt: number | null, { endpoint, breaker, heldUntil, now }: Surroundings): WaitsFor | null {
  const allowed = endpoint.breaker === null ? null : allowance(breaker, now)
  const heldFor = Math.max(0, (heldUntil ?? 0) - now)
  const brokenFor = allowed?.kind === 'wait' ? (allowed.until ?? now + 1) - now : 0
  const dueIn = dueAt === null ? 0 : Math.max(0, dueAt - now)
  const longest = Math.max(heldFor, brokenFor, dueIn)
  if (longest === 0) return dueAt === null ? 'lane' : null
  if (longest === heldFor) return 'hold'
  return longest === brokenFor ? 'breaker' : 'backoff'
}
