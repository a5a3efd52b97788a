import { Buffer } from 'node:buffer'
import { defaultBreaker } from '../src/core/circuit-breaker.ts'
import type { Endpoint } from '../src/core/endpoint.ts'
import { defaultTenant, type Event } from '../src/core/event.ts'
import { presets } from '../src/core/retry-policy.ts'
import { envelope } from '../src/intake/envelope.ts'
import { IdSource } from '../src/intake/ids.ts'
import type { OpenedStore } from '../src/store/database.ts'

const appendsMax = 500
const type = 'bench.event'
/** 200 bytes, as everywhere in the bench. */
const data = Buffer.from(`{"text":"${'x'.repeat(189)}"}`)

export const benchEndpoints: readonly Endpoint[] = ['a', 'b', 'c', 'd'].map((letter) => ({
  id: `ep_${letter.repeat(23)}`,
  tenant: defaultTenant,
  kind: 'http',
  url: 'http://127.0.0.1:9/',
  forwardHeaders: false,
  disableAfterMs: null,
  description: '',
  types: [type],
  ordering: 'none',
  concurrency: 64,
  rateLimit: null,
  timeoutMs: 15_000,
  retry: presets.webhook,
  breaker: defaultBreaker,
  classify: {},
  headers: {},
  secrets: [{ secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', expiresAt: null }],
  status: 'active',
  statusReason: null,
  createdAt: 0,
  updatedAt: 0,
}))

/** Events with one pending delivery each, for each of the endpoints in turn, by way of the store. */
export async function appendPending({ store, lastNumber }: OpenedStore, count: number): Promise<void> {
  for (const endpoint of benchEndpoints) await store.putEntry('endpoint', endpoint, 0)
  const ids = new IdSource(lastNumber)
  // The same body for all, so that backlogs made in different ways can be compared.
  const { body, dataOffset } = envelope(type, Date.UTC(2026, 0, 1), data)
  for (let from = 0; from < count; from += appendsMax) {
    const length = Math.min(appendsMax, count - from)
    const arrivals = Array.from({ length }, (_, at) => {
      const now = Date.now()
      const event: Event = {
        id: ids.next('evt', now),
        tenant: defaultTenant,
        type,
        key: null,
        receivedAt: now,
        contentType: 'application/json',
        headers: {},
        request: null,
        body,
        dataOffset,
      }
      const endpointId = benchEndpoints[(from + at) % benchEndpoints.length]?.id ?? ''
      const deliveries = [{ id: ids.next('dlv', now), endpointId, lane: null, dueAt: now, leaseEndsAt: null }]
      return { event, idempotency: null, deliveries }
    })
    await store.append(arrivals)
  }
}
