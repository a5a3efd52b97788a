import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Event } from '../core/event.ts'
import { classify } from '../core/failure-classifier.ts'
import type { Outcome, Report } from '../core/outcome.ts'
import type { Transport } from '../transports/transport.ts'

export type Tried = Readonly<{ report: Report; outcome: Outcome; attempt: Attempt }>

/** Makes one try and says what it meant. */
export async function tryOnce(
  parts: { transport: Pick<Transport, 'deliver'>; clock: Clock },
  parcel: { event: Event; endpoint: Endpoint; deliveryId: string; attempt: number; bornAt: number },
  signal: AbortSignal,
): Promise<Tried> {
  const startedAt = parts.clock.wall()
  const began = parts.clock.steady()
  const report = await Promise.try(() => parts.transport.deliver({ ...parcel, sentAt: startedAt }, signal)).catch(
    defect,
  )
  const tookMs = Math.round(parts.clock.steady() - began)
  const outcome = classify(report, parcel.endpoint.classify, parts.clock.wall())
  const answered = report.kind === 'answered'
  const attempt: Attempt = {
    number: parcel.attempt,
    startedAt,
    tookMs,
    outcome: outcome.kind,
    statusCode: answered ? report.statusCode : null,
    error: outcome.kind === 'delivered' ? null : outcome.error,
    responseHeaders: answered ? report.headers : null,
    responseBody: answered ? report.body : null,
    stack: report.kind === 'thrown' ? report.stack : null,
  }
  return { report, outcome, attempt }
}

/** A transport never throws or rejects; if one does, that is a failed try and not a lost one. */
function defect(error: unknown): Report {
  return { kind: 'unreachable', code: 'DEFECT', message: String(error) }
}
