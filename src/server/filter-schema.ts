import { z } from 'zod'
import {
  type DeliveryFilter,
  type DeliveryStatus,
  deadStatuses,
  type StatusClass,
  statusClasses,
} from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import { choice, closedObject, instant, key, oneOrMore, says, severalOf, tenant, typePattern } from './schemas.ts'
import type { Scope } from './scope.ts'
import { instant as instantShown } from './shown.ts'

// Which deliveries are meant: the same words in a query, in the body of a replay and in what is shown of it.

const textError = says('must be a text of 1 to 300 characters')
export const filterText = z.string({ error: textError }).min(1, { error: textError }).max(300, { error: textError })

const idsMax = 1_000
const idsError = says(`must be a list of 1 to ${idsMax} ids of deliveries`)
const idError = says('must be the id of a delivery, like dlv_…')

const filterFields = {
  endpoint: filterText.exactOptional(),
  event: filterText.exactOptional(),
  replay: filterText.meta({ description: 'The replay that requeued it last.' }).exactOptional(),
  reason: choice(reasons).exactOptional(),
  error: filterText.meta({ description: 'A part of lastError.' }).exactOptional(),
}

const ofLastAttempt = 'The class of the HTTP status of the last attempt.'

/** What a list of deliveries can be narrowed down by, besides what every list of what happened takes. */
export function filterQuery<const T extends readonly [DeliveryStatus, ...DeliveryStatus[]]>(statuses: T) {
  return {
    ...filterFields,
    status: severalOf(statuses).exactOptional(),
    statusClass: severalOf(statusClasses)
      .meta({ description: `${ofLastAttempt} Several: with commas between them, or repeated.` })
      .exactOptional(),
  }
}

const filterBodyFields = {
  ...filterFields,
  statusClass: oneOrMore(statusClasses).meta({ description: ofLastAttempt }),
  key,
  type: typePattern,
  tenant,
  from: instant,
  to: instant,
  ids: z
    .array(z.string({ error: idError }).regex(/^dlv_[0-9a-z]{1,64}$/, { error: idError }), { error: idsError })
    .min(1, { error: idsError })
    .max(idsMax, { error: idsError }),
}

function filterBody<S extends z.ZodRawShape>(fields: S) {
  return closedObject({ ...filterBodyFields, ...fields }, 'a field of a filter').partial()
}

export const replayFilter = filterBody({ status: oneOrMore([...deadStatuses, 'delivered']) })
export const discardFilter = filterBody({ status: oneOrMore(deadStatuses) })
/** All that it is about waits. */
export const cancelFilter = filterBody({})

type Asked = Readonly<{
  [Name in 'endpoint' | 'replay' | 'event' | 'key' | 'type' | 'tenant' | 'error']?: string | undefined
}> &
  Readonly<{
    status?: DeliveryStatus | readonly DeliveryStatus[] | undefined
    statusClass?: StatusClass | readonly StatusClass[] | undefined
    reason?: DeliveryFilter['reason'] | undefined
    from?: number | undefined
    to?: number | undefined
    ids?: readonly string[] | undefined
  }>

/** The filter in the words of core, within what the caller may see. */
export function filterOf(asked: Asked, scope: Scope): DeliveryFilter {
  const { endpoint, replay, event, status, statusClass, key, type, reason, error, from, to, ids } = asked
  return {
    ...scope.filter(asked.tenant),
    ...(endpoint !== undefined && { endpointId: endpoint }),
    ...(replay !== undefined && { replayId: replay }),
    ...(event !== undefined && { eventId: event }),
    ...(status !== undefined && { statuses: [status].flat() }),
    ...(statusClass !== undefined && { statusClasses: [statusClass].flat() }),
    ...(key !== undefined && { key }),
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
  const { tenant, endpointId, replayId, eventId, statuses, statusClasses, key, type } = filter
  const { reason, error, from, to, ids } = filter
  return {
    ...(tenant !== undefined && { tenant }),
    ...(endpointId !== undefined && { endpoint: endpointId }),
    ...(replayId !== undefined && { replay: replayId }),
    ...(eventId !== undefined && { event: eventId }),
    ...(statuses !== undefined && { status: statuses }),
    ...(statusClasses !== undefined && { statusClass: statusClasses }),
    ...(key !== undefined && { key }),
    ...(type !== undefined && { type }),
    ...(reason !== undefined && { reason }),
    ...(error !== undefined && { error }),
    ...(from !== undefined && { from: instantShown(from) }),
    ...(to !== undefined && { to: instantShown(to) }),
    ...(ids !== undefined && { ids }),
  }
}
