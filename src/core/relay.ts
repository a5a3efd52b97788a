import { type Endpoint, isRelayEndpoint } from './endpoint.ts'

/** A hub that may connect. Its key is shown once and never kept. */
export type Relay = Readonly<{
  id: string
  /** Unique within its tenant: endpoints name it. */
  name: string
  tenant: string
  /** SHA-256 of the key, in hex. */
  hash: string
  createdAt: number
}>

/** How a link ended: it broke, nothing was heard, one side went on purpose, or the edge did not want it any more. */
export const linkEndings = ['lost', 'silent', 'left', 'replaced', 'revoked', 'refused'] as const
export type LinkEnding = (typeof linkEndings)[number]

/** How a hub is doing, as its edge sees it. */
export type RelayLink = Readonly<{
  connectedAt: number
  /** What the hub says it is, e.g. `posthorn/1.2.0`. */
  software: string
  protocol: number
  routes: readonly string[]
  /** null: not measured yet. */
  roundTripMs: number | null
  lastAckAt: number | null
  /** Deliveries that are with the hub, unanswered. */
  outstanding: number
}>

/** The same, as all processes see it that share the store. Another process may have seen more since. */
export type PlacedLink = RelayLink &
  Readonly<{
    /** The process that the hub is connected to. */
    member: string
    isHere: boolean
  }>

/** Whether the hub is there and cannot take what is for this route. One that is away may have it when it comes. */
export function lacksRoute(link: RelayLink | null, route: string): boolean {
  return link !== null && !link.routes.includes(route)
}

/**
 * The link was lost after a delivery had been written to it. The code stands at the beginning of the delivery's
 * `lastError`: when the hub is back, the wait of those that carry it is over.
 */
export const linkLost = 'LINK_LOST'

/** The hub has not answered in time: its link may have been dead by then. When there is a new one, that wait is over too. */
export const noAck = 'NO_ACK'

/** The hub cannot write its memory, so it has not tried: the fault is on our side, not the target's. */
export const hubMemoryFailed = 'HUB_MEMORY'

/** What a hub connects to, below the edge's address. */
export const relayPath = '/v1/relay'

export const relayKeyPrefix = 'phr_'
/** 32 random bytes in base64url. */
export const relayKeyPattern = /^phr_[\w-]{43}$/

export const relayNameLengthMax = 64
export const relayNamePattern = /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$/

/** Why this cannot be the name of a relay or a route, in words for its author; null when it can. */
export function relayNameProblem(name: string): string | null {
  if (name.length >= 1 && name.length <= relayNameLengthMax && relayNamePattern.test(name)) return null
  return `must have 1 to ${relayNameLengthMax} characters: lower-case letters, digits and . _ - inside`
}

/** Why a route cannot lead to this address, in words for its author; null when it can. The address is not repeated. */
export function routeTargetProblem(address: string): string | null {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol)) return 'must lead to an http:// or https:// address'
  if (url.username === '' && url.password === '') return null
  return 'must not carry a user name or password, which are not sent; give the endpoint an authorization header'
}

/** Names are told apart within a tenant only. A name has no space, so that no two pairs look the same. */
export function fullRelayName(tenant: string, name: string): string {
  return `${name} ${tenant}`
}

/** The full name of the relay that an endpoint leads to; null: to none. */
export function relayOf(endpoint: Endpoint): string | null {
  return isRelayEndpoint(endpoint) ? fullRelayName(endpoint.tenant, endpoint.relay) : null
}
