import type { Attempt } from '../../core/attempt.ts'
import type { Delivery, DeliveryFacts, DeliveryStatus } from '../../core/delivery.ts'
import type { Event } from '../../core/event.ts'
import type { OutcomeKind, Reason } from '../../core/outcome.ts'
import { largeBytesMin } from '../store.ts'

/** A value as SQLite gives and takes it. */
export type Cell = string | number | null | Uint8Array

const headColumns = 'e.id, e.tenant, e.type, e.key, e.received_at, e.content_type, e.headers, e.data_offset, e.request'
export const eventColumns = `${headColumns}, e.body`
export const eventCells = 10

/** For work: of a large body only the length is read. */
export const lightEventColumns = `${headColumns},
  CASE WHEN length(e.body) < ${largeBytesMin} THEN e.body ELSE length(e.body) END`

/** An event without its body if that is a large one: then `body` is its length. */
export type LightEvent = Readonly<Omit<Event, 'body'> & { body: Uint8Array | number }>

export function bytesOf({ body }: LightEvent): number {
  return typeof body === 'number' ? body : body.length
}

export function toEvent(row: readonly Cell[], at: number): Event {
  return toLightEvent(row, at) as Event
}

/** Of a row that was read with `lightEventColumns`. */
export function toLightEvent(row: readonly Cell[], at: number): LightEvent {
  return {
    id: row[at] as string,
    tenant: row[at + 1] as string,
    type: row[at + 2] as string,
    key: row[at + 3] as string | null,
    receivedAt: row[at + 4] as number,
    contentType: row[at + 5] as string,
    headers: toHeaders(row[at + 6] as string | null),
    dataOffset: row[at + 7] as number | null,
    request: toRequest(row[at + 8] as Uint8Array | null),
    body: row[at + 9] as Uint8Array | number,
  }
}

export const deliveryColumns =
  'd.id, d.lane, d.received_at, d.attempts, d.tries_in_budget, d.version, d.retry_after, d.last_error, ' +
  'd.last_attempt_at, d.replayed_at, d.status, d.due_at, d.settled_at, d.reason'
export const deliveryCells = 14
/** Where the version and the status are among them. */
export const versionCell = 5
export const statusCell = 10

export function toFacts(row: readonly Cell[], at: number, ids: { eventId: string; endpointId: string }): DeliveryFacts {
  return {
    id: row[at] as string,
    eventId: ids.eventId,
    endpointId: ids.endpointId,
    lane: row[at + 1] as string | null,
    receivedAt: row[at + 2] as number,
    attempts: row[at + 3] as number,
    triesInBudget: row[at + 4] as number,
    version: row[at + 5] as number,
    retryAfter: row[at + 6] as number | null,
    lastError: row[at + 7] as string | null,
    lastAttemptAt: row[at + 8] as number | null,
    replayedAt: row[at + 9] as number | null,
  }
}

export function toDelivery(row: readonly Cell[], at: number, ids: { eventId: string; endpointId: string }): Delivery {
  const facts = toFacts(row, at, ids)
  const status = row[at + statusCell] as DeliveryStatus
  const dueAt = row[at + 11] as number | null
  const settledAt = row[at + 12] as number
  const reason = row[at + 13] as Reason
  switch (status) {
    case 'pending':
      return { ...facts, status, dueAt }
    case 'processing':
      return { ...facts, status, leaseEndsAt: dueAt ?? 0 }
    case 'delivered':
      return { ...facts, status, deliveredAt: settledAt }
    case 'failed':
      return { ...facts, status, reason, settledAt }
    case 'dead_letter':
      return { ...facts, status, reason, settledAt }
  }
}

/** What a status says beyond the facts: due_at, settled_at, reason. */
export function statusCells(delivery: Delivery): readonly [number | null, number | null, Reason | null] {
  switch (delivery.status) {
    case 'pending':
      return [delivery.dueAt, null, null]
    case 'processing':
      return [delivery.leaseEndsAt, null, null]
    case 'delivered':
      return [null, delivery.deliveredAt, null]
    case 'failed':
      return [null, delivery.settledAt, delivery.reason]
    case 'dead_letter':
      return [null, delivery.settledAt, delivery.reason]
  }
}

export const attemptColumns =
  'number, started_at, took_ms, outcome, status_code, error, response_headers, response_body, stack, error_class, dependency'

export function toAttempt(row: readonly Cell[]): Attempt {
  return {
    number: row[0] as number,
    startedAt: row[1] as number,
    tookMs: row[2] as number,
    outcome: row[3] as OutcomeKind,
    statusCode: row[4] as number | null,
    error: row[5] as string | null,
    responseHeaders: row[6] === null ? null : toHeaders(row[6] as string),
    responseBody: row[7] as string | null,
    stack: row[8] as string | null,
    errorClass: row[9] as string | null,
    dependency: row[10] as string | null,
  }
}

export function toHeaders(text: string | null): Readonly<Record<string, string>> {
  return text === null ? {} : JSON.parse(text)
}

export function toRequest(bytes: Uint8Array | null): Event['request'] {
  return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes))
}

export function fromHeaders(headers: Readonly<Record<string, string>>): string | null {
  for (const _name in headers) return JSON.stringify(headers)
  return null
}
