import type { Attempt } from '../core/attempt.ts'
import { closedBreaker } from '../core/circuit-breaker.ts'
import type { Clock } from '../core/clock.ts'
import { type Endpoint, isRelayEndpoint } from '../core/endpoint.ts'
import { lacksRoute } from '../core/relay.ts'
import { sentRequest } from '../core/sent-request.ts'
import { type Wait, waitOf } from '../core/waiting.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { DeliveryRecord } from '../store/record-store.ts'
import type { Store } from '../store/store.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import type { Relays } from './relays.ts'
import { attemptShown, deliveryFacts, instant } from './shown.ts'

export type DetailParts = Readonly<{
  store: Store
  catalogue: Catalogue
  dispatcher: Dispatcher
  relays: Relays
  gate: RelayGate
  clock: Clock
}>

const unhindered = { breaker: closedBreaker, heldUntil: null }

/**
 * Shows deliveries with what they wait for, and the error of the endpoint that keeps them waiting. `hurried`: a person
 * has just retried them, so that neither a breaker nor a hold keeps them.
 */
export function deliveryShown(parts: DetailParts, { hurried = false }: Readonly<{ hurried?: boolean }> = {}) {
  return (record: DeliveryRecord) => {
    const wait = waitAt(parts, record, hurried)
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

/** A delivery as it is shown by itself: with what was sent, and what was tried. */
export async function deliveryDetail(
  parts: DetailParts,
  record: DeliveryRecord,
  { showHeaders }: Readonly<{ showHeaders: boolean }>,
) {
  const attempts = await parts.store.listAttempts(record.delivery.id)
  return {
    ...deliveryShown(parts)(record),
    request: await requestShown(parts, record, attempts.at(-1), showHeaders),
    attemptLog: attempts.map(attemptShown),
  }
}

async function requestShown(
  { store, catalogue }: DetailParts,
  { delivery }: DeliveryRecord,
  last: Attempt | undefined,
  showHeaders: boolean,
) {
  const event = last === undefined ? null : await store.getEvent(delivery.eventId)
  if (last === undefined || event === null) return null
  const sent = sentRequest(event, catalogue.get(delivery.endpointId), { deliveryId: delivery.id, last, showHeaders })
  return { ...sent, endpointChangedAt: instant(sent.endpointChangedAt) }
}

function waitAt(parts: DetailParts, { delivery }: DeliveryRecord, hurried: boolean): Wait | null {
  if (delivery.status !== 'pending') return null
  const { catalogue, dispatcher, clock } = parts
  const endpoint = catalogue.get(delivery.endpointId)
  if (endpoint === null) return null
  const { breaker, heldUntil } = hurried ? unhindered : dispatcher.conditionOf(endpoint.id)
  const served = dispatcher.isServed(endpoint.id)
  return waitOf(delivery, {
    endpoint,
    served,
    breaker,
    heldUntil,
    lacksRoute: hubLacksRoute(parts, endpoint),
    allPaused: dispatcher.paused,
    now: clock.steady(),
  })
}

/** Whether the hub of a relay endpoint is there, and does not have its route. */
export function hubLacksRoute({ relays, gate }: Pick<DetailParts, 'relays' | 'gate'>, endpoint: Endpoint): boolean {
  if (!isRelayEndpoint(endpoint)) return false
  const relay = relays.named(endpoint.tenant, endpoint.relay)
  return relay !== null && lacksRoute(gate.linkOf(relay.id), endpoint.route)
}
