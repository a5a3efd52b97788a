import type { Attempt } from '../core/attempt.ts'
import type { Condition } from '../core/condition.ts'
import type { Event, EventHead, InboundRequestFacts } from '../core/event.ts'
import type { DeliveryRecord, EventSummary } from '../store/record-store.ts'

// Things as the API shows them: instants in RFC 3339, and nothing that is not meant for the outside.

/** A delivery without what keeps it waiting: delivery-detail.ts adds that. */
export function deliveryFacts({ delivery, type, tenant, key }: DeliveryRecord) {
  return {
    id: delivery.id,
    eventId: delivery.eventId,
    endpointId: delivery.endpointId,
    type,
    tenant,
    key,
    status: delivery.status,
    attempts: delivery.attempts,
    retryAfter: instant(delivery.retryAfter),
    lastError: delivery.lastError,
    reason: 'reason' in delivery ? delivery.reason : null,
    receivedAt: instant(delivery.receivedAt),
    lastAttemptAt: instant(delivery.lastAttemptAt),
    deliveredAt: delivery.status === 'delivered' ? instant(delivery.deliveredAt) : null,
  }
}

export function attemptShown(attempt: Attempt) {
  return {
    number: attempt.number,
    startedAt: instant(attempt.startedAt),
    tookMs: attempt.tookMs,
    outcome: attempt.outcome,
    statusCode: attempt.statusCode,
    error: attempt.error,
    responseHeaders: attempt.responseHeaders,
    responseBody: attempt.responseBody,
    errorClass: attempt.errorClass,
    dependency: attempt.dependency,
    stack: attempt.stack,
  }
}

export function summaryShown(event: EventSummary) {
  return { ...factsShown(event), size: event.size, deliveries: event.deliveries }
}

/** What stands for a value that this caller may not see. */
export const hidden = '•••'

/** Of how it came in, the headers named in `masked` are shown without their values. */
export function eventShown<D>(event: Event, deliveries: readonly D[], masked: ReadonlySet<string>) {
  const request = event.request && requestShown(event.request, masked)
  return { ...factsShown(event), request, size: event.body.length, deliveries }
}

function requestShown({ source, method, query, headers }: InboundRequestFacts, masked: ReadonlySet<string>) {
  return { source, method, query, headers: maskedHeaders(headers, masked) }
}

export function maskedHeaders(headers: Event['headers'], masked: ReadonlySet<string>): Event['headers'] {
  const shown = Object.entries(headers).map(([name, value]) => [name, masked.has(name) ? hidden : value])
  return Object.fromEntries(shown)
}

function factsShown(event: EventHead) {
  return {
    id: event.id,
    type: event.type,
    tenant: event.tenant,
    key: event.key,
    receivedAt: instant(event.receivedAt),
    contentType: event.contentType,
    headers: event.headers,
  }
}

export function conditionShown(condition: Omit<Condition, 'endpointId'>) {
  const { breaker, heldUntil, failingSince, lastError, lastErrorAt } = condition
  return {
    state: breaker.state,
    until: breaker.state === 'open' ? instant(breaker.until) : null,
    failures: breaker.failures,
    heldUntil: instant(heldUntil),
    failingSince: instant(failingSince),
    lastError,
    lastErrorAt: instant(lastErrorAt),
  }
}

export function instant(at: number): string
export function instant(at: number | null): string | null
export function instant(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
