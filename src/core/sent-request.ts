import type { Attempt } from './attempt.ts'
import { type Endpoint, targetOf, urlOf } from './endpoint.ts'
import { kindFacts } from './endpoint-kinds.ts'
import type { Event } from './event.ts'
import { headerProblem, isHeaderText } from './headers.ts'
import { hopsHeader, hopsOf } from './hops.ts'

/** What the last attempt sent beside the body, as far as it is known: headers of the endpoint are those of now. */
export type SentRequest = Readonly<{
  attempt: number
  /** A URL, `handler orders` or `relay home/github`; null: the endpoint was deleted. */
  target: string | null
  headers: Readonly<Record<string, string>>
  /** Bytes of the body. */
  size: number
  /** When the endpoint was changed after the attempt: target and headers may be others. Null: it was not. */
  endpointChangedAt: number | null
}>

/** In place of what is not kept, or not for these eyes. */
export const hiddenValue = '•••'

type Headers = Readonly<Record<string, string>>
type Last = Pick<Attempt, 'number' | 'startedAt'>

/**
 * Signatures are not kept: the header is there, its value is hidden. So are values that the endpoint or a source brings,
 * unless `showHeaders`. `user-agent` and what HTTP itself adds are left out: they are the sending version's.
 */
export function sentRequest(
  event: Event,
  endpoint: Endpoint | null,
  { deliveryId, last, showHeaders }: Readonly<{ deliveryId: string; last: Last; showHeaders: boolean }>,
): SentRequest {
  const shown = (headers: Headers): Headers => (showHeaders ? sendable(headers) : hidden(sendable(headers)))
  const forwards = endpoint !== null && forwardsRequest(endpoint)
  const { 'content-type': _, ...forwarded } = forwards ? shown(event.request?.headers ?? {}) : {}
  const runsHere = endpoint !== null && kindFacts[endpoint.kind].runsHere
  const headers = {
    ...forwarded,
    'content-type': isHeaderText(event.contentType) ? event.contentType : 'application/octet-stream',
    ...(runsHere ? {} : shown(endpoint?.headers ?? {})),
    ...sendable(event.headers),
    ...(runsHere ? {} : ownHeaders(event, endpoint, deliveryId, last)),
  }
  const isChanged = endpoint !== null && endpoint.updatedAt > last.startedAt
  return {
    attempt: last.number,
    target: endpoint === null ? null : (urlOf(endpoint) ?? `${endpoint.kind} ${targetOf(endpoint)}`),
    headers,
    size: event.body.length,
    endpointChangedAt: isChanged ? endpoint.updatedAt : null,
  }
}

function ownHeaders(event: Event, endpoint: Endpoint | null, deliveryId: string, last: Last): Headers {
  return {
    'webhook-id': event.id,
    'webhook-timestamp': String(Math.floor(last.startedAt / 1_000)),
    ...((endpoint?.secrets.length ?? 0) > 0 && { 'webhook-signature': hiddenValue }),
    'posthorn-delivery': deliveryId,
    'posthorn-attempt': String(last.number),
    [hopsHeader]: String(hopsOf(event.headers) + 1),
    'posthorn-event-type': isHeaderText(event.type) ? event.type : encodeURIComponent(event.type),
  }
}

function forwardsRequest(endpoint: Endpoint): boolean {
  return kindFacts[endpoint.kind].forwardsRequest || ('forwardHeaders' in endpoint && endpoint.forwardHeaders)
}

function sendable(headers: Headers): Headers {
  const entries = Object.entries(headers).filter(([name, value]) => headerProblem(name, value) === null)
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}

function hidden(headers: Headers): Headers {
  return Object.fromEntries(Object.keys(headers).map((name) => [name, hiddenValue]))
}
