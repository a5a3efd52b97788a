import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { lacksRoute } from '../core/relay.ts'
import { waitsFor } from '../core/waiting.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { DeliveryRecord } from '../store/store.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import type { Relays } from './relays.ts'
import { attemptShown, deliveryShown } from './shown.ts'

export type DetailParts = Readonly<{
  catalogue: Catalogue
  dispatcher: Dispatcher
  relays: Relays
  gate: RelayGate
  clock: Clock
}>

/** A delivery as it is shown by itself: with what it waits for, and what was tried. */
export function deliveryDetail(parts: DetailParts, record: DeliveryRecord, attempts: readonly Attempt[]) {
  return { ...deliveryShown(record), waitsFor: reasonToWait(parts, record), attemptLog: attempts.map(attemptShown) }
}

function reasonToWait(parts: DetailParts, { delivery }: DeliveryRecord) {
  const { catalogue, dispatcher, clock } = parts
  const endpoint = catalogue.get(delivery.endpointId)
  if (endpoint === null) return null
  const { breaker, heldUntil } = dispatcher.conditionOf(endpoint.id)
  const served = dispatcher.isServed(endpoint.id)
  return waitsFor(delivery, {
    ...{ endpoint, served, breaker, heldUntil },
    lacksRoute: hubLacksRoute(parts, endpoint),
    allPaused: dispatcher.paused,
    now: clock.steady(),
  })
}

function hubLacksRoute({ relays, gate }: DetailParts, endpoint: Endpoint): boolean {
  if (endpoint.kind !== 'relay') return false
  const relay = relays.named(endpoint.tenant, endpoint.relay)
  return relay !== null && lacksRoute(gate.linkOf(relay.id), endpoint.route)
}
