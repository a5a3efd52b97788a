import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Event } from '../core/event.ts'
import { envelope } from './envelope.ts'
import type { IdSource } from './ids.ts'

/** Makes the events of try-outs: like any other, never kept. */
export function testEvents(ids: IdSource, clock: Clock) {
  return (endpoint: Endpoint, content: { type: string; data: Uint8Array }): Event => {
    const receivedAt = clock.wall()
    return {
      id: ids.next('evt', receivedAt),
      tenant: endpoint.tenant,
      type: content.type,
      key: null,
      receivedAt,
      contentType: 'application/json',
      headers: {},
      request: null,
      ...envelope(content.type, receivedAt, content.data),
    }
  }
}
