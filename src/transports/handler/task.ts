import { dataOf } from '../../core/event.ts'
import type { Code, Task } from '../../engines/engine.ts'
import type { Parcel } from '../transport.ts'

/** One try of this code, as plain data. */
export function taskOf(name: string, code: Code, { event, endpoint, attempt, deliveryId }: Parcel): Task {
  const { id, type, key, tenant, contentType, receivedAt } = event
  const headers = { ...event.request?.headers, ...event.headers }
  return {
    name,
    code,
    event: { id, type, key, tenant, contentType, headers, receivedAt },
    bytes: dataOf(event),
    attempt,
    ref: deliveryId,
    timeoutMs: endpoint.timeoutMs,
  }
}
