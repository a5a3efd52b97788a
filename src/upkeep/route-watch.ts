import { type Endpoint, isRelayEndpoint } from '../core/endpoint.ts'
import type { Notice } from '../core/notice.ts'
import { fullRelayName, lacksRoute, type RelayLink, relayOf } from '../core/relay.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'

export type RouteWatchParts = Readonly<{
  endpoints: () => readonly Endpoint[]
  endpointOf: (id: string) => Endpoint | null
  /** The link that a relay has now; null: none. */
  linkOf: (relayId: string) => RelayLink | null
  notices: Notices
  log: Logger
}>

/** Tells of endpoints that name a route which their hub, being there, does not have: these would wait in silence. */
export class RouteWatch {
  readonly #parts: RouteWatchParts
  /** The relays whose hubs are there, by what endpoints call them. */
  readonly #here = new Map<string, string>()
  readonly #unsubscribe: () => void

  constructor(parts: RouteWatchParts) {
    this.#parts = parts
    this.#unsubscribe = parts.notices.subscribe((notice) => this.#hear(notice))
  }

  stop(): void {
    this.#unsubscribe()
  }

  #hear(notice: Notice): void {
    if (notice.kind === 'endpoint.changed') {
      const endpoint = this.#parts.endpointOf(notice.endpointId)
      if (endpoint !== null) this.#look([endpoint])
    } else if (notice.kind === 'relay.changed') {
      const name = fullRelayName(notice.tenant, notice.name)
      if (!notice.connected) this.#here.delete(name)
      else {
        this.#here.set(name, notice.relayId)
        this.#look(this.#parts.endpoints().filter((endpoint) => relayOf(endpoint) === name))
      }
    }
  }

  #look(endpoints: readonly Endpoint[]): void {
    for (const endpoint of endpoints) {
      if (!isRelayEndpoint(endpoint) || endpoint.status !== 'active') continue
      const { id: endpointId, relay, route, tenant } = endpoint
      const relayId = this.#here.get(fullRelayName(tenant, relay))
      if (relayId === undefined) continue
      const link = this.#parts.linkOf(relayId)
      if (!lacksRoute(link, route)) continue
      this.#parts.log.warn({ relayId, relay, tenant, route, routes: link?.routes, endpointId }, 'relay.route_missing')
    }
  }
}
