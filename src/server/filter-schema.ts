import { z } from 'zod'
import { type DeliveryFilter, type DeliveryStatus, deadStatuses } from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import { choice, closedObject, eventType, instant, says, tenant } from './schemas.ts'
import type { Scope } from './scope.ts'
import { instant as instantShown } from './shown.ts'

// Which deliveries are meant: the same words in a query, in the body of a replay and in what is shown of it.

const textError = says('must be a text of 1 to 300 characters')
export const filterText = z.string({ error: textError }).min(1, { error: textError }).max(300, { error: textError })

const idsMax = 1_000
const idsError = says(`must be a list of 1 to ${idsMax} ids of deliveries`)
const idError = says('must be the id of a delivery, like dlv_…')

/** What a list of deliveries can be narrowed down by, besides page and tenant. */
export const filterQuery = {
  endpoint: filterText.exactOptional(),
  replay: filterText.meta({ description: 'The replay that requeued it last.' }).exactOptional(),
  reason: choice(reasons).exactOptional(),
  error: filterText.meta({ description: 'A part of lastError.' }).exactOptional(),
}

export function filterBody<const T extends readonly [DeliveryStatus, ...DeliveryStatus[]]>(statuses: T) {
  const status = choice(statuses)
  return closedObject(
    {
      ...filterQuery,
      status: z.union([status, z.array(status).min(1).max(statuses.length)], {
        error: says(`must be one of ${statuses.join(', ')}, or a list of them`),
      }),
      type: eventType,
      tenant,
      from: instant,
      to: instant,
      ids: z
        .array(z.string({ error: idError }).regex(/^dlv_[0-9a-z]{1,64}$/, { error: idError }), { error: idsError })
        .min(1, { error: idsError })
        .max(idsMax, { error: idsError }),
    },
    'a field of a filter',
  ).partial()
}

export const replayFilter = filterBody([...deadStatuses, 'delivered'])
export const discardFilter = filterBody(deadStatuses)

type Asked = Readonly<{
  [Name in 'endpoint' | 'replay' | 'event' | 'type' | 'tenant' | 'error']?: string | undefined
}> &
  Readonly<{
    status?: DeliveryStatus | readonly DeliveryStatus[] | undefined
    reason?: DeliveryFilter['reason'] | undefined
    from?: number | undefined
    to?: number | undefined
    ids?: readonly string[] | undefined
  }>

/** The filter in the words of core, within what the caller may see. */
export function filterOf(asked: Asked, scope: Scope): DeliveryFilter {
  const { endpoint, replay, event, status, type, reason, error, from, to, ids } = asked
  return {
    ...scope.filter(asked.tenant),
    ...(endpoint !== undefined && { endpointId: endpoint }),
    ...(replay !== undefined && { replayId: replay }),
    ...(event !== undefined && { eventId: event }),
    ...(status !== undefined && { statuses: [status].flat() }),
    ...(type !== undefined && { type }),
    ...(reason !== undefined && { reason }),
    ...(error !== undefined && { error }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(ids !== undefined && { ids }),
  }
}

/** The same filter as it was asked for. */
export function filterShown(filter: DeliveryFilter): Record<string, unknown> {
  const { tenant, endpointId, replayId, statuses, type, reason, error, from, to, ids } = filter
  return {
    ...(tenant !== undefined && { tenant }),
    ...(endpointId !== undefined && { endpoint: endpointId }),
    ...(replayId !== undefined && { replay: replayId }),
    ...(statuses !== undefined && { status: statuses }),
    ...(type !== undefined && { type }),
    ...(reason !== undefined && { reason }),
    ...(error !== undefined && { error }),
    ...(from !== undefined && { from: instantShown(from) }),
    ...(to !== undefined && { to: instantShown(to) }),
    ...(ids !== undefined && { ids }),
  }
}
