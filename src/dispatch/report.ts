import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Change, ChangeResult, Claim } from '../store/pipeline-store.ts'
import type { AttemptMade } from './attempt.ts'

export type ReportParts = Readonly<{ log: Logger; notices: Notices; clock: Clock }>

/** One wide line per try, and its notice once it is on disk. */
export function report(
  parts: ReportParts,
  endpoint: Endpoint,
  claim: Claim,
  { outcome, attempt }: AttemptMade,
  settled: { to: Change['to']; result: ChangeResult },
): void {
  const { to, result } = settled
  const fields = {
    deliveryId: to.id,
    eventId: to.eventId,
    endpointId: to.endpointId,
    type: claim.event.type,
    attempt: attempt.number,
    outcome: outcome.kind,
    status: result.kind === 'stale' ? 'stale' : to.status,
    statusCode: attempt.statusCode,
    tookMs: attempt.tookMs,
    error: attempt.error,
    retryAfter: to.retryAfter === null ? null : new Date(to.retryAfter).toISOString(),
  }
  if (outcome.kind === 'delivered') parts.log.info(fields, 'attempt.settled')
  else parts.log.warn(fields, 'attempt.settled')
  if (result.kind === 'stale' || !parts.notices.heard) return
  const { tenant, type, receivedAt, headers } = claim.event
  parts.notices.publish({
    kind: 'attempt.settled',
    tenant,
    deliveryId: to.id,
    eventId: to.eventId,
    endpointId: to.endpointId,
    endpointKind: endpoint.kind,
    type,
    number: attempt.number,
    outcome: outcome.kind,
    statusCode: attempt.statusCode,
    error: attempt.error,
    startedAt: attempt.startedAt,
    tookMs: attempt.tookMs,
    status: to.status,
    reason: 'reason' in to ? to.reason : null,
    queuedMs: attempt.number === 1 ? Math.max(0, attempt.startedAt - receivedAt) : null,
    endToEndMs: to.status === 'pending' ? null : Math.max(0, parts.clock.wall() - receivedAt),
    traceparent: headers.traceparent ?? null,
  })
}

/** A delivery that ended without a try: nobody shall have to look for it. */
export function reportUntried(
  { log, notices }: Pick<ReportParts, 'log' | 'notices'>,
  to: Change['to'],
  { tenant, type }: Readonly<{ tenant: string; type: string }>,
): void {
  if (to.status !== 'failed' && to.status !== 'dead_letter') return
  const { id: deliveryId, eventId, endpointId, status, reason } = to
  log.warn({ deliveryId, eventId, endpointId, status, reason }, 'delivery.ended')
  if (!notices.heard) return
  notices.publish({ kind: 'delivery.ended', tenant, deliveryId, eventId, endpointId, type, status, reason })
}
