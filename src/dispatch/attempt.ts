import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import type { DeliveryFacts } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Event } from '../core/event.ts'
import { classify, withAnswer } from '../core/failure-classifier.ts'
import type { Outcome, Report } from '../core/outcome.ts'
import type { Parcel, Transport } from '../transports/transport.ts'

export type AttemptMade = Readonly<{ report: Report; outcome: Outcome; attempt: Attempt }>

/** Makes one attempt and says what it meant. */
export async function makeAttempt(
  parts: { transport: Pick<Transport, 'deliver'>; clock: Clock },
  parcel: Omit<Parcel, 'sentAt'>,
  signal: AbortSignal,
): Promise<AttemptMade> {
  const startedAt = parts.clock.wall()
  const began = parts.clock.steady()
  const report = await Promise.try(() => parts.transport.deliver({ ...parcel, sentAt: startedAt }, signal)).catch(
    defect,
  )
  const tookMs = Math.round(parts.clock.steady() - began)
  return attemptOf(report, parcel.endpoint, { number: parcel.attempt, startedAt, tookMs }, parts.clock.wall())
}

/** A try-out: signed and sent like any other, but kept nowhere. */
export async function tryOut(
  parts: { transport: Pick<Transport, 'deliver'>; clock: Clock },
  endpoint: Endpoint,
  event: Event,
  signal: AbortSignal,
): Promise<Attempt> {
  const deliveryId = event.id.replace('evt_', 'dlv_')
  const parcel = { event, endpoint, deliveryId, lane: null, attempt: 1, bornAt: event.receivedAt }
  return (await makeAttempt(parts, parcel, signal)).attempt
}

/** What the next attempt of a delivery takes with it. */
export function parcelOf(endpoint: Endpoint, delivery: DeliveryFacts, event: Event): Omit<Parcel, 'sentAt'> {
  const { id, lane, attempts, replayedAt, receivedAt } = delivery
  return { event, endpoint, deliveryId: id, lane, attempt: attempts + 1, bornAt: replayedAt ?? receivedAt }
}

/** What an attempt meant, by what came back for it. */
export function attemptOf(
  report: Report,
  endpoint: Endpoint,
  { number, startedAt, tookMs }: Pick<Attempt, 'number' | 'startedAt' | 'tookMs'>,
  wallNow: number,
): AttemptMade {
  const meant = classify(report, endpoint.classify, wallNow)
  const outcome = kindFacts[endpoint.kind].answersInError ? withAnswer(meant, report) : meant
  const answered = report.kind === 'answered'
  const thrown = report.kind === 'thrown'
  const attempt: Attempt = {
    number,
    startedAt,
    tookMs,
    outcome: outcome.kind,
    statusCode: answered ? report.statusCode : null,
    error: outcome.kind === 'delivered' ? null : outcome.error,
    responseHeaders: answered ? report.headers : null,
    responseBody: answered ? report.body : null,
    errorClass: thrown ? report.errorClass : null,
    dependency: thrown ? report.dependency : null,
    stack: thrown ? report.stack : null,
  }
  return { report, outcome, attempt }
}

/** A transport never throws or rejects; if one does, that is a failed attempt and not a lost one. */
function defect(error: unknown): Report {
  return { kind: 'unreachable', code: 'DEFECT', message: String(error) }
}
