import type { Clock } from '../core/clock.ts'
import { isSettled } from '../core/delivery.ts'
import { ended } from '../core/lifecycle.ts'
import { mayCancel } from '../core/selection.ts'
import type { DeliveryRecord } from '../store/record-store.ts'
import type { Store } from '../store/store.ts'

export type CancelAnswer = 'cancelled' | 'not_found' | 'in_progress' | 'settled'

const readsMax = 3

/**
 * A person's cancel: a delivery that waits ends as failed. One that is in progress cannot be called back, and one that
 * has ended stays as it is. `onCancelled` hears of it, because the next in its lane is due now.
 */
export async function cancelDelivery(
  { store, clock }: Readonly<{ store: Store; clock: Clock }>,
  deliveryId: string,
  onCancelled: (record: DeliveryRecord) => void,
): Promise<CancelAnswer> {
  for (let reads = 0; reads < readsMax; reads++) {
    const record = await store.getDelivery(deliveryId)
    if (record === null) return 'not_found'
    const { delivery } = record
    if (!mayCancel(delivery)) return isSettled(delivery.status) ? 'settled' : 'in_progress'
    const to = ended(delivery, 'cancelled', clock.steady())
    const [result] = await store.commit([{ to, attempt: null, claimNext: null }])
    if (result?.kind !== 'applied') continue
    onCancelled({ ...record, delivery: to })
    return 'cancelled'
  }
  return 'in_progress'
}
