import { z } from 'zod'
import { formatDuration } from '../core/duration.ts'
import type { Endpoint, EndpointKind, HttpTarget, RelayTarget } from '../core/endpoint.ts'
import { checkedText, duration, relayName, says, urlFacts } from './schemas.ts'

// Where an endpoint of each kind leads, in the words of the API: what it takes, what it refuses, and what it shows.

const urlLengthMax = 2_048
const hourMs = 3_600_000
const disableAfterDefaultMs = 5 * 24 * hourMs
const disableAfterMsMax = 365 * 24 * hourMs

const disableAfter = z
  .union([z.literal(false), duration(hourMs, disableAfterMsMax)], {
    error: says(`must be false, or a duration from 1h to ${formatDuration(disableAfterMsMax)}`),
  })
  .transform((value) => (value === false ? null : value))
  .meta({ description: 'With nothing but failures for this long the endpoint is disabled; false: never.' })

const forwardHeaders = z
  .boolean({ error: says('must be true or false') })
  .meta({ description: 'Whether the headers that a source kept are sent on with its events.' })

export const httpFields = {
  url: checkedText(urlProblem)
    .transform((text) => new URL(text).href)
    .meta({ ...urlFacts, maxLength: urlLengthMax, examples: ['https://shop.example/hooks'] }),
  disableAfter: disableAfter.optional(),
  forwardHeaders: forwardHeaders.optional(),
}
export const relayFields = {
  relay: relayName.meta({ description: 'The name of a relay of the same tenant.' }),
  route: relayName.meta({ description: 'What the hub calls the place where these events go.', examples: ['github'] }),
}

/** The fields of all kinds, none of which a change has to name. */
export const targetChangeFields = {
  url: httpFields.url.optional(),
  disableAfter: httpFields.disableAfter,
  forwardHeaders: httpFields.forwardHeaders,
  relay: relayFields.relay.optional(),
  route: relayFields.route.optional(),
}

type TargetChange = Readonly<{
  url?: string | undefined
  disableAfter?: number | null | undefined
  forwardHeaders?: boolean | undefined
  relay?: string | undefined
  route?: string | undefined
}>

const onlyForRelays = 'is only for endpoints of the kind relay'
const notForHandlers = 'is not for handlers'

/** Fields that are known and wrong for a kind, and why. */
export const wrongFields = {
  http: { relay: onlyForRelays, route: onlyForRelays },
  handler: {
    url: notForHandlers,
    headers: notForHandlers,
    classify: notForHandlers,
    disableAfter: notForHandlers,
    forwardHeaders: notForHandlers,
    relay: onlyForRelays,
    route: onlyForRelays,
  },
  relay: {
    url: 'is not for relays: the hub says where a route leads',
    disableAfter: 'is not for relays: while a hub is away, its deliveries wait',
    forwardHeaders: 'is not for relays: what a source kept is always sent on',
  },
} as const satisfies Readonly<Record<EndpointKind, Readonly<Record<string, string>>>>

type NewTarget = Readonly<{ kind?: 'http' | undefined; url: string } | { kind: 'relay'; relay: string; route: string }>

/** Where a new endpoint leads; what else can be said of its target is the default. */
export function newTarget(given: NewTarget): HttpTarget | RelayTarget {
  if ('relay' in given) return { kind: 'relay', relay: given.relay, route: given.route }
  return { kind: 'http', url: given.url, forwardHeaders: false, disableAfterMs: disableAfterDefaultMs }
}

/** The endpoint with the fields of its target that a change names; the others stay. */
export function withTarget(endpoint: Endpoint, change: TargetChange): Endpoint {
  switch (endpoint.kind) {
    case 'handler':
      return endpoint
    case 'relay':
      return { ...endpoint, relay: change.relay ?? endpoint.relay, route: change.route ?? endpoint.route }
    case 'http':
      return {
        ...endpoint,
        url: change.url ?? endpoint.url,
        forwardHeaders: change.forwardHeaders ?? endpoint.forwardHeaders,
        disableAfterMs: change.disableAfter === undefined ? endpoint.disableAfterMs : change.disableAfter,
      }
  }
}

export function targetShown(endpoint: Endpoint) {
  switch (endpoint.kind) {
    case 'http':
      return { url: endpoint.url }
    case 'handler':
      return { handler: endpoint.handler }
    case 'relay':
      return { relay: endpoint.relay, route: endpoint.route }
  }
}

/** What can be set for endpoints that are reached by a URL. */
export function targetSettingsShown(endpoint: Endpoint) {
  if (endpoint.kind !== 'http') return {}
  const { forwardHeaders, disableAfterMs } = endpoint
  return { forwardHeaders, disableAfter: disableAfterMs === null ? (false as const) : formatDuration(disableAfterMs) }
}

function urlProblem(text: string): string | null {
  if (text.length > urlLengthMax) return `must have at most ${urlLengthMax} characters`
  const url = URL.parse(text)
  if (url === null) return 'must be a URL like https://shop.example/hooks'
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must begin with http:// or https://'
  if (url.username !== '' || url.password !== '') {
    return 'must not carry a user name or password; use headers, like {"authorization": "…"}'
  }
  return url.hash === '' && !text.includes('#') ? null : 'must not have a fragment (#…): it is never sent'
}
