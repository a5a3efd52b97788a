import type { Clock } from '../core/clock.ts'
import { retried } from '../core/lifecycle.ts'
import { mayRetry } from '../core/selection.ts'
import type { Store } from '../store/store.ts'

export type RetryAnswer = 'retried' | 'not_found' | 'in_progress' | 'endpoint_gone'

type Desk = Readonly<{ known: (endpointId: string) => boolean; hurry: (endpointId: string) => Promise<void> }>

const readsMax = 3

/**
 * A person's retry: due now, and tried now even if the breaker is open or the endpoint held. A dead letter gets a
 * fresh budget, a delivered one is sent again.
 */
export async function retryDelivery(store: Store, clock: Clock, deliveryId: string, desk: Desk): Promise<RetryAnswer> {
  for (let reads = 0; reads < readsMax; reads++) {
    const record = await store.getDelivery(deliveryId)
    if (record === null) return 'not_found'
    const { delivery } = record
    if (!desk.known(delivery.endpointId)) return 'endpoint_gone'
    if (!mayRetry(delivery)) return 'in_progress'
    const to = retried(delivery, clock.steady())
    const [result] = await store.commit([{ to, attempt: null, claimNext: null }])
    if (result?.kind !== 'applied') continue
    await desk.hurry(to.endpointId)
    return 'retried'
  }
  return 'in_progress'
}
