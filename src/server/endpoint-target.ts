import { type Endpoint, isRelayEndpoint, targetOf, urlOf } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import { didYouMean } from '../core/spelling.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import type { FieldError } from './problem.ts'
import type { Relays } from './relays.ts'
import type { ServerParts } from './server.ts'

type Target = Readonly<{ url?: string | undefined; relay?: string | undefined }>
type TargetParts = Pick<ServerParts, 'refusal' | 'relays'>

/** Why an endpoint of this tenant may not lead there, by field; what is not named is not looked at. */
export async function targetProblems(
  { refusal, relays }: TargetParts,
  tenant: string,
  { url, relay }: Target,
  who = { isOperator: false },
): Promise<readonly FieldError[]> {
  const refused = url === undefined ? null : await refusal(url, who)
  const unknown = relay === undefined ? null : unknownRelay(relays, tenant, relay)
  return [
    ...(refused === null ? [] : [{ path: 'url', message: refused }]),
    ...(unknown === null ? [] : [{ path: 'relay', message: unknown }]),
  ]
}

function unknownRelay(relays: Relays, tenant: string, name: string): string | null {
  if (relays.named(tenant, name) !== null) return null
  const names = relays.list().flatMap((relay) => (relay.tenant === tenant ? [relay.name] : []))
  const meant = didYouMean(name, names)
  const hint = meant === '' ? '; make it first, with POST /v1/relays or posthorn relays create' : meant
  return `is no relay of the tenant ${tenant}${hint}`
}

/** What is allowed and probably not meant, in sentences: another endpoint of the tenant with the same target and types. */
export function endpointWarnings(endpoint: Endpoint, others: readonly Endpoint[]): readonly string[] {
  const target = comparable(endpoint)
  const types = typesOf(endpoint)
  const twin = others.find(
    (other) =>
      other.id !== endpoint.id &&
      other.tenant === endpoint.tenant &&
      other.kind === endpoint.kind &&
      comparable(other) === target &&
      typesOf(other) === types,
  )
  if (twin === undefined) return []
  return [
    `${twin.id} has the same ${kindFacts[endpoint.kind].targetFields} and types: every event of these types is delivered to both.`,
  ]
}

/** The same for two URLs that differ in their spelling alone. */
function comparable(endpoint: Endpoint): string {
  const url = urlOf(endpoint)
  return url === null ? targetOf(endpoint) : new URL(url).href
}

function typesOf({ types }: Endpoint): string {
  return types.toSorted().join(' ')
}

/** Why nothing can be tried at a relay's endpoint now, in a sentence; null when it can. */
export function absence(
  { relays, gate }: Readonly<{ relays: Relays; gate: RelayGate }>,
  endpoint: Endpoint,
): string | null {
  if (!isRelayEndpoint(endpoint)) return null
  const { tenant, relay: name, route } = endpoint
  const relay = relays.named(tenant, name)
  if (relay === null) return `The relay ${name} was revoked: make one of that name, and connect its hub.`
  const link = gate.linkOf(relay.id)
  if (link === null) return `The hub of the relay ${name} is not connected: start it with posthorn relay.`
  const asked = `Ask the process ${link.member} (posthorn members): the hub of the relay ${name} is connected to that one.`
  if (link.routes.includes(route)) return link.isHere ? null : asked
  const routes = link.routes.length === 0 ? 'it has none' : `it has ${link.routes.join(', ')}`
  return `The hub of the relay ${name} has no route ${route} (${routes}): start it with --route ${route}=<url>.`
}

/** Why an endpoint cannot be deleted now; null: it can. Code that runs would go on without one, and get nothing. */
export function deletionProblem(endpoint: Endpoint, dispatcher: Pick<Dispatcher, 'isServed'>): string | null {
  if (!kindFacts[endpoint.kind].runsHere || !dispatcher.isServed(endpoint.id)) return null
  return `The code of the handler ${targetOf(endpoint)} runs, and ${endpoint.id} is its endpoint: stop the code first, or pause the endpoint.`
}
