import type { Clock } from '../core/clock.ts'
import type { DeliveryStatus } from '../core/delivery.ts'
import type { OutcomeKind } from '../core/outcome.ts'
import type { Logger } from '../log.ts'
import type { Change, ChangeResult, Claim } from '../store/store.ts'
import type { Tried } from './attempt.ts'

/** Told of every outcome that is on disk. */
export type Counted = (settled: {
  /** null: it ended without a try. */
  outcome: OutcomeKind | null
  status: DeliveryStatus
  tookMs: number
  /** From acceptance to the end of the delivery; null while it goes on. */
  endToEndMs: number | null
}) => void

type ReportParts = Readonly<{ log: Logger; count: Counted; clock: Clock }>

/** One wide line per try, and its numbers. */
export function report(
  { log, count, clock }: ReportParts,
  claim: Claim,
  { outcome, attempt }: Tried,
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
  if (outcome.kind === 'delivered') log.info(fields, 'attempt.settled')
  else log.warn(fields, 'attempt.settled')
  if (result.kind === 'stale') return
  const endToEndMs = to.status === 'pending' ? null : clock.wall() - claim.event.receivedAt
  count({ outcome: outcome.kind, status: to.status, tookMs: attempt.tookMs, endToEndMs })
}

/** A delivery that ended without a try: nobody shall have to look for it. */
export function reportUntried({ log, count, clock }: ReportParts, to: Change['to']): void {
  if (to.status !== 'failed') return
  const { id: deliveryId, eventId, endpointId, reason } = to
  log.warn({ deliveryId, eventId, endpointId, status: to.status, reason }, 'delivery.ended')
  count({ outcome: null, status: to.status, tookMs: 0, endToEndMs: clock.wall() - to.receivedAt })
}
