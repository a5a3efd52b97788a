import type { DeliveryStatus } from '../../core/delivery.ts'
import type { Reason } from '../../core/outcome.ts'
import { typeMatcher } from '../../core/routing.ts'
import { mayGoAgain, mayRecover, type Recovery, recoveryStep } from '../../core/selection.ts'
import { asStored } from './arrays.ts'
import { deliveriesSql } from './delivery-rows.ts'
import { type Row, rowsOf } from './driver.ts'
import { keyBefore, type ReadParts, type Span } from './matching.ts'
import { idOf } from './row-keys.ts'

/** What an endpoint should have had: a delivery to make, or one to send again. */
export type Recoverable =
  | Readonly<{ kind: 'missing'; eventId: string; key: string | null; receivedAt: number }>
  | Readonly<{ kind: 'again'; deliveryId: string }>

export type RecoveryEndpoint = Readonly<{ no: number; tenant: string; types: readonly string[] }>

export type Recovered = Readonly<{ items: readonly Recoverable[]; doneKey: string; exhausted: boolean }>

/** How many events are read at once, with their deliveries to the endpoint. */
const eventsAtOnce = 1_000

/** null: nobody knows it any more. */
export async function readEndpoint({ on, schema }: ReadParts, id: string): Promise<RecoveryEndpoint | null> {
  const sql = `
    SELECT p.no, p.tenant, r.settings FROM ${schema}.endpoints p
    JOIN ${schema}.registry r ON r.kind = 'endpoint' AND r.id = p.id WHERE p.id = $1`
  const [row] = await rowsOf(on, sql, [asStored(id)])
  if (row === undefined) return null
  const [no, tenant, settings] = row as unknown as [number, string, string]
  return { no, tenant, types: JSON.parse(settings).types }
}

/**
 * Walks over events, oldest first, until `limit` were found or `looksMax` looked at. What was found for one event is
 * never torn apart.
 */
export async function walkRecovery(
  parts: ReadParts,
  selection: Recovery,
  endpoint: RecoveryEndpoint,
  { span, limit, looksMax }: { span: Span; limit: number; looksMax: number },
): Promise<Recovered> {
  const wants = typeMatcher(endpoint.types)
  const isWanted = ({ tenant, type }: Looked) => tenant === endpoint.tenant && wants(type)
  const items: Recoverable[] = []
  let doneKey = span.after
  for (let looks = 0; looks < looksMax && items.length < limit; ) {
    const count = Math.min(eventsAtOnce, looksMax - looks)
    const events = await eventsWithin(parts, { after: doneKey, last: span.last }, count)
    const meant = events.filter((event) => mayRecover(selection, event.receivedAt, isWanted(event)))
    const deliveries = await deliveriesOf(parts, meant, endpoint.no)
    const isMeant = new Set(meant)
    for (const event of events) {
      if (items.length >= limit) return { items, doneKey, exhausted: false }
      doneKey = event.rowKey
      if (!isMeant.has(event)) continue
      items.push(...recoverables(selection, event, isWanted(event), deliveries.get(event.rowKey) ?? []))
    }
    if (events.length < count) return { items, doneKey: span.last, exhausted: true }
    looks += events.length
  }
  return { items, doneKey, exhausted: false }
}

export async function countRecovery(
  parts: ReadParts,
  selection: Recovery,
  endpoint: RecoveryEndpoint,
  lastKey: string,
): Promise<number> {
  let span: Span = { after: keyBefore(selection.since), last: lastKey }
  let count = 0
  for (;;) {
    const bounds = { span, limit: countedAtOnce, looksMax: countedAtOnce }
    const { items, doneKey, exhausted } = await walkRecovery(parts, selection, endpoint, bounds)
    count += items.length
    if (exhausted) return count
    span = { after: doneKey, last: lastKey }
  }
}
const countedAtOnce = 10_000

type Looked = Readonly<{ rowKey: string; tenant: string; type: string; key: string | null; receivedAt: number }>

async function eventsWithin({ on, schema }: ReadParts, { after, last }: Span, count: number): Promise<Looked[]> {
  const sql = `
    SELECT e.id, e.tenant, e.type, e.key, e.received_at FROM ${schema}.events e
    WHERE e.id > $1 AND e.id <= $2 ORDER BY e.id LIMIT $3`
  const rows = await rowsOf(on, sql, [after, last, count])
  return rows.map(([rowKey, tenant, type, key, receivedAt]) => ({
    rowKey: rowKey as string,
    tenant: tenant as string,
    type: type as string,
    key: key as string | null,
    receivedAt: receivedAt as number,
  }))
}

/** The deliveries of these events to one endpoint, oldest first, by event. */
async function deliveriesOf(
  { on, schema }: ReadParts,
  events: readonly Looked[],
  endpointNo: number,
): Promise<ReadonlyMap<string, readonly Row[]>> {
  if (events.length === 0) return new Map()
  const sql = `
    SELECT d.event_id, d.id, d.status, d.reason FROM ${deliveriesSql(schema)} d
    WHERE d.event_id = ANY ($1::uuid[]) AND d.endpoint = $2 ORDER BY d.id`
  const rows = await rowsOf(on, sql, [`{${events.map(({ rowKey }) => rowKey).join(',')}}`, endpointNo])
  return Map.groupBy(rows, ([eventKey]) => eventKey as string)
}

function recoverables(
  selection: Recovery,
  { rowKey, key, receivedAt }: Looked,
  isWanted: boolean,
  deliveries: readonly Row[],
): readonly Recoverable[] {
  switch (recoveryStep(selection.only, isWanted, deliveries.length)) {
    case 'none':
      return []
    case 'make':
      return [{ kind: 'missing', eventId: idOf('evt', rowKey), key, receivedAt }]
    case 'again':
      return deliveries
        .filter(([, , status, reason]) => mayGoAgain(status as DeliveryStatus, reason as Reason | null))
        .map(([, deliveryKey]) => ({ kind: 'again', deliveryId: idOf('dlv', deliveryKey as string) }))
  }
}
