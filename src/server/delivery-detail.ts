import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { lacksRoute } from '../core/relay.ts'
import { type Wait, waitOf } from '../core/waiting.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { DeliveryRecord } from '../store/store.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import type { Relays } from './relays.ts'
import { attemptShown, deliveryFacts, instant } from './shown.ts'

export type DetailParts = Readonly<{
  catalogue: Catalogue
  dispatcher: Dispatcher
  relays: Relays
  gate: RelayGate
  clock: Clock
}>

/** Shows deliveries with what they wait for, and the error of the endpoint that keeps them waiting. */
export function deliveryShown(parts: DetailParts) {
  return (record: DeliveryRecord) => {
    const wait = waitAt(parts, record)
    const isEndpoints = wait?.for === 'breaker' || wait?.for === 'hold' || wait?.for === 'disabled'
    const { lastError } = parts.dispatcher.conditionOf(record.delivery.endpointId)
    return {
      ...deliveryFacts(record),
      waitsFor: wait?.for ?? null,
      waitsUntil: instant(wait?.until ?? null),
      endpointError: isEndpoints ? lastError : null,
    }
  }
}

/** A delivery as it is shown by itself: with what was tried. */
export function deliveryDetail(parts: DetailParts, record: DeliveryRecord, attempts: readonly Attempt[]) {
  return { ...deliveryShown(parts)(record), attemptLog: attempts.map(attemptShown) }
}

function waitAt(parts: DetailParts, { delivery }: DeliveryRecord): Wait | null {
  if (delivery.status !== 'pending') return null
  const { catalogue, dispatcher, clock } = parts
  const endpoint = catalogue.get(delivery.endpointId)
  if (endpoint === null) return null
  const { breaker, heldUntil } = dispatcher.conditionOf(endpoint.id)
  const served = dispatcher.isServed(endpoint.id)
  return waitOf(delivery, {
    ...{ endpoint, served, breaker, heldUntil },
    lacksRoute: hubLacksRoute(parts, endpoint),
    allPaused: dispatcher.paused,
    now: clock.steady(),
  })
}

/** Whether the hub of a relay endpoint is there, and does not have its route. */
export function hubLacksRoute({ relays, gate }: Pick<DetailParts, 'relays' | 'gate'>, endpoint: Endpoint): boolean {
  if (endpoint.kind !== 'relay') return false
  const relay = relays.named(endpoint.tenant, endpoint.relay)
  return relay !== null && lacksRoute(gate.linkOf(relay.id), endpoint.route)
}
