import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import { waitsFor } from '../core/waiting.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { DeliveryRecord } from '../store/store.ts'
import { attemptShown, deliveryShown } from './shown.ts'

export type DetailParts = Readonly<{ catalogue: Catalogue; dispatcher: Dispatcher; clock: Clock }>

/** A delivery as it is shown by itself: with what it waits for, and what was tried. */
export function deliveryDetail(parts: DetailParts, record: DeliveryRecord, attempts: readonly Attempt[]) {
  return { ...deliveryShown(record), waitsFor: reasonToWait(parts, record), attemptLog: attempts.map(attemptShown) }
}

function reasonToWait({ catalogue, dispatcher, clock }: DetailParts, { delivery }: DeliveryRecord) {
  const endpoint = catalogue.get(delivery.endpointId)
  if (endpoint === null) return null
  const { breaker, heldUntil } = dispatcher.conditionOf(endpoint.id)
  const served = dispatcher.isServed(endpoint.id)
  return waitsFor(delivery, {
    ...{ endpoint, served, breaker, heldUntil },
    allPaused: dispatcher.paused,
    now: clock.steady(),
  })
}
