import { randomBytes } from 'node:crypto'
import { defaultBreaker } from '../../src/core/circuit-breaker.ts'
import type { Pending, Processing } from '../../src/core/delivery.ts'
import type { Endpoint, HandlerEndpoint, HttpEndpoint, RelayEndpoint } from '../../src/core/endpoint.ts'
import type { Event } from '../../src/core/event.ts'
import type { IdPrefix } from '../../src/core/id.ts'
import type { Replay } from '../../src/core/replay.ts'
import { presets } from '../../src/core/retry-policy.ts'
import type { Selection } from '../../src/core/selection.ts'
import type { Source } from '../../src/core/source.ts'
import { IdSource } from '../../src/intake/ids.ts'
import type { Arrival, Claim, NewDelivery } from '../../src/store/pipeline-store.ts'
import type { UpkeepSettings } from '../../src/upkeep/upkeep.ts'

export const t0 = Date.UTC(2026, 0, 1)
const weekMs = 7 * 86_400_000

/** The defaults of upkeep, without the wait after a start. */
export const keptForAWeek: UpkeepSettings = {
  everyMs: 3_600_000,
  afterMs: 0,
  retention: { deliveredMs: weekMs, failedMs: weekMs, deadLetterMs: 2 * weekMs, eventMs: weekMs },
  replayMs: 30 * 86_400_000,
}

const ids = new IdSource(0)

export function anId(prefix: IdPrefix): string {
  return ids.next(prefix, t0)
}

export function aSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

export function anEndpoint(given: Partial<HttpEndpoint> = {}): HttpEndpoint {
  return {
    id: anId('ep'),
    tenant: 'default',
    kind: 'http',
    url: 'https://shop.example/hooks',
    forwardHeaders: false,
    disableAfterMs: null,
    description: '',
    types: ['*'],
    ordering: 'none',
    concurrency: 10,
    rateLimit: null,
    timeoutMs: 15_000,
    retry: presets.webhook,
    breaker: defaultBreaker,
    classify: {},
    headers: {},
    secrets: [{ secret: aSecret(), expiresAt: null }],
    status: 'active',
    statusReason: null,
    createdAt: t0,
    updatedAt: t0,
    ...given,
  }
}

export function aHandler(given: Partial<HandlerEndpoint> = {}): HandlerEndpoint {
  const { url: _, forwardHeaders: __, disableAfterMs: ___, ...rules } = anEndpoint()
  return { ...rules, kind: 'handler', handler: 'orders', breaker: null, secrets: [], ...given }
}

export function aRelayEndpoint(given: Partial<RelayEndpoint> = {}): RelayEndpoint {
  const { url: _, forwardHeaders: __, disableAfterMs: ___, ...rules } = anEndpoint()
  const defaults = { ordering: 'endpoint', concurrency: 100, breaker: null, classify: { '4xx': 'permanent' } } as const
  return { ...rules, ...defaults, kind: 'relay', relay: 'home', route: 'default', ...given }
}

export function anEvent(given: Partial<Event> = {}): Event {
  return {
    id: anId('evt'),
    tenant: 'default',
    type: 'order.created',
    key: null,
    receivedAt: t0,
    contentType: 'application/json',
    headers: {},
    request: null,
    body: new TextEncoder().encode('{"id":1}'),
    dataOffset: null,
    ...given,
  }
}

export function aSource(given: Partial<Source> = {}): Source {
  const id = anId('src')
  return {
    id,
    name: `source-${id}`,
    tenant: 'default',
    provider: 'github',
    description: '',
    type: 'github.{x-github-event}',
    key: null,
    secrets: [{ secret: aSecret(), expiresAt: null }],
    toleranceMs: 300_000,
    bodyBytesMax: 1_048_576,
    contentTypes: null,
    url: null,
    hmac: null,
    createdAt: t0,
    updatedAt: t0,
    ...given,
  }
}

export function aReplay(selection: Selection, given: Partial<Replay> = {}): Omit<Replay, 'matched'> {
  return {
    id: anId('rpl'),
    tenant: null,
    selection,
    rate: null,
    note: '',
    by: 'tester',
    status: 'running',
    requeued: 0,
    delivered: 0,
    failedAgain: 0,
    skipped: 0,
    createdAt: t0,
    updatedAt: t0,
    endedAt: null,
    settledAt: null,
    ...given,
  }
}

export function aNewDelivery(endpoint: Endpoint, given: Partial<NewDelivery> = {}): NewDelivery {
  return { id: anId('dlv'), endpointId: endpoint.id, lane: null, dueAt: t0, leaseEndsAt: null, ...given }
}

export function anArrival(
  endpoint: Endpoint,
  given: Partial<Pick<Arrival, 'idempotency' | 'origin'>> & {
    event?: Partial<Event>
    delivery?: Partial<NewDelivery>
  } = {},
): Arrival {
  return {
    event: anEvent(given.event),
    idempotency: given.idempotency ?? null,
    ...(given.origin && { origin: given.origin }),
    deliveries: [aNewDelivery(endpoint, given.delivery)],
  }
}

/** The delivery that a claim holds, delivered. */
export function delivered({ delivery }: Claim, now = t0 + 10) {
  const { leaseEndsAt: _, ...facts } = delivery
  return {
    to: { ...facts, status: 'delivered' as const, deliveredAt: now, version: delivery.version + 1, attempts: 1 },
    attempt: null,
    claimNext: null,
  }
}

/** The delivery that a claim holds, to be tried again. */
export function retryAt(delivery: Processing, dueAt: number): Pending {
  const { leaseEndsAt: _, ...facts } = delivery
  return { ...facts, status: 'pending', version: delivery.version + 1, dueAt, retryAfter: dueAt, attempts: 1 }
}
