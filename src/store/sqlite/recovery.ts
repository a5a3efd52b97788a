import type { DeliveryStatus } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { typeMatcher } from '../../core/routing.ts'
import { mayGoAgain, mayRecover, type Recovery, recoveryStep } from '../../core/selection.ts'
import { firstNumberSince, type Span } from './matching.ts'
import type { Cell } from './rows.ts'
import type { Statements } from './statements.ts'

/** What an endpoint should have had: a delivery to make, or one to send again. */
export type Recoverable =
  | Readonly<{ kind: 'missing'; eventNo: number; eventId: string; key: string | null; receivedAt: number }>
  | Readonly<{ kind: 'again'; no: number }>

export type RecoveryEndpoint = Readonly<{ no: number; tenant: string; types: readonly string[] }>

export type Recovered = Readonly<{ items: readonly Recoverable[]; doneNo: number; exhausted: boolean }>

const eventsSql = `
  SELECT e.no, e.tenant, e.type, e.key, e.received_at, e.id FROM events e WHERE e.no > ? AND e.no <= ? ORDER BY e.no`
const deliveriesSql = `
  SELECT d.no, d.status, d.reason FROM deliveries d INDEXED BY deliveries_of_event
  WHERE d.event_no = ? AND d.endpoint_no = ? ORDER BY d.no`

const endpointSql = `
  SELECT p.no, p.tenant, r.settings FROM endpoints p JOIN registry r ON r.kind = 'endpoint' AND r.id = p.id
  WHERE p.id = ?`

/** null: nobody knows it any more. */
export function readEndpoint(statements: Statements, id: string): RecoveryEndpoint | null {
  const row = statements.row(endpointSql, [id])
  if (row === undefined) return null
  const { types } = JSON.parse(row[2] as string)
  return { no: row[0] as number, tenant: row[1] as string, types }
}

/**
 * Walks over events, oldest first, until `limit` were found or `looksMax` looked at. What was found for one event is
 * never torn apart.
 */
export function walkRecovery(
  statements: Statements,
  selection: Recovery,
  endpoint: RecoveryEndpoint,
  { span, limit, looksMax }: { span: Span; limit: number; looksMax: number },
): Recovered {
  const wants = typeMatcher(endpoint.types)
  const items: Recoverable[] = []
  const events = statements.walk(eventsSql, [span.after, span.last])
  let doneNo = span.after
  try {
    for (let looks = 0; looks < looksMax && items.length < limit; looks++) {
      const next = events.next()
      if (next.done === true) return { items, doneNo: span.last, exhausted: true }
      doneNo = next.value[0] as number
      items.push(...recoverables(statements, selection, endpoint, wants, next.value))
    }
  } finally {
    events.return?.()
  }
  return { items, doneNo, exhausted: false }
}

export function countRecovery(
  statements: Statements,
  selection: Recovery,
  endpoint: RecoveryEndpoint,
  lastNo: number,
): number {
  let span: Span = { after: firstNumberSince(selection.since) - 1, last: lastNo }
  let count = 0
  for (;;) {
    const bounds = { span, limit: countedAtOnce, looksMax: countedAtOnce }
    const { items, doneNo, exhausted } = walkRecovery(statements, selection, endpoint, bounds)
    count += items.length
    if (exhausted) return count
    span = { after: doneNo, last: lastNo }
  }
}
const countedAtOnce = 10_000

function recoverables(
  statements: Statements,
  selection: Recovery,
  endpoint: RecoveryEndpoint,
  wants: (type: string) => boolean,
  row: readonly Cell[],
): readonly Recoverable[] {
  const [eventNo, tenant, type, key, receivedAt, eventId] = row as [
    number,
    string,
    string,
    string | null,
    number,
    string,
  ]
  const isWanted = tenant === endpoint.tenant && wants(type)
  if (!mayRecover(selection, receivedAt, isWanted)) return []
  const deliveries = statements.rows(deliveriesSql, [eventNo, endpoint.no])
  switch (recoveryStep(selection.only, isWanted, deliveries.length)) {
    case 'none':
      return []
    case 'make':
      return [{ kind: 'missing', eventNo, eventId, key, receivedAt }]
    case 'again':
      return deliveries
        .filter(([, status, reason]) => mayGoAgain(status as DeliveryStatus, reason as Reason | null))
        .map(([no]) => ({ kind: 'again', no: no as number }))
  }
}
