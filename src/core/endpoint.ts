import type { BreakerPolicy } from './circuit-breaker.ts'
import type { Classification } from './failure-classifier.ts'
import type { RetryPolicy } from './retry-policy.ts'

export const endpointKinds = ['http', 'handler', 'relay'] as const
export type EndpointKind = (typeof endpointKinds)[number]
export const orderings = ['none', 'key', 'endpoint'] as const
export type Ordering = (typeof orderings)[number]
export const endpointStatuses = ['active', 'paused', 'disabled'] as const
export type EndpointStatus = (typeof endpointStatuses)[number]

/** A signing secret; during a rotation the old one has a date of expiry and both sign. */
export type SigningSecret = Readonly<{ secret: string; expiresAt: number | null }>

/** Where events go, and by which rules. */
export type Endpoint = EndpointRules & (HttpTarget | HandlerTarget | RelayTarget)

/** What every endpoint has, whatever its kind. */
export type EndpointRules = Readonly<{
  id: string
  tenant: string
  description: string
  types: readonly string[]
  ordering: Ordering
  concurrency: number
  rateLimit: Readonly<{ perSecond: number }> | null
  timeoutMs: number
  retry: RetryPolicy
  /** null: no breaker. */
  breaker: BreakerPolicy | null
  classify: Classification
  headers: Readonly<Record<string, string>>
  /** Newest first; never empty for http and relay endpoints, empty for handlers. */
  secrets: readonly SigningSecret[]
  status: EndpointStatus
  /** Why it is not active; null while it is. */
  statusReason: string | null
  createdAt: number
  updatedAt: number
}>

export type HttpTarget = Readonly<{
  kind: 'http'
  url: string
  /** Whether the method, query and headers that a source kept are sent on. */
  forwardHeaders: boolean
  /** With nothing but failures for this long it is disabled; null: never. */
  disableAfterMs: number | null
}>

/** Code of ours, in this process. While nobody has registered it, its deliveries wait. */
export type HandlerTarget = Readonly<{
  kind: 'handler'
  /** What the code registers itself by; unique within a tenant. */
  handler: string
}>

/** A route of a hub that connects to us. While it is not connected, its deliveries wait. */
export type RelayTarget = Readonly<{
  kind: 'relay'
  /** The name of the relay, within the endpoint's tenant. */
  relay: string
  /** What the hub calls the place where these events go. */
  route: string
}>

export type HttpEndpoint = EndpointRules & HttpTarget
export type HandlerEndpoint = EndpointRules & HandlerTarget
export type RelayEndpoint = EndpointRules & RelayTarget

/** What people know it by: its description, else where it leads. */
export function endpointName(endpoint: Endpoint): string {
  if (endpoint.description !== '') return endpoint.description
  const host = /^[a-z]+:\/\/(?:[^/@]*@)?([^/?#]+)/i.exec(urlOf(endpoint) ?? '')?.[1]
  return host ?? targetOf(endpoint)
}

/** null: it is not reached by a URL of its own. */
export function urlOf(endpoint: Endpoint): string | null {
  return 'url' in endpoint ? endpoint.url : null
}

export function isRelayEndpoint(endpoint: Endpoint): endpoint is RelayEndpoint {
  return endpoint.kind === 'relay'
}

/** Where it delivers to, in one text: a URL, the name of a handler, or relay/route. */
export function targetOf(endpoint: Endpoint): string {
  switch (endpoint.kind) {
    case 'http':
      return endpoint.url
    case 'handler':
      return endpoint.handler
    case 'relay':
      return `${endpoint.relay}/${endpoint.route}`
  }
}
