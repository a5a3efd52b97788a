import type { Endpoint } from '../core/endpoint.ts'
import { PosthornError } from '../core/errors.ts'
import { typeMatcher } from '../core/routing.ts'
import type { Notices } from '../notices.ts'
import { Registry, type RegistryChange } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'

/** What happens to the catalogue, for those that keep state per endpoint. */
export type CatalogueListener = (
  change: { kind: 'put'; endpoint: Endpoint } | { kind: 'removed'; endpoint: Endpoint },
) => void

const typesRememberedMax = 10_000
/** Of one tenant. */
const endpointsMax = 10_000

/** The endpoints, and which of them want an event. */
export class Catalogue {
  readonly #endpoints: Registry<'endpoint'>
  readonly #notices: Notices
  readonly #endpointsMax: number
  readonly #wants = new Map<string, (type: string) => boolean>()
  /** tenant and type → endpoints, emptied by every change. */
  readonly #routes = new Map<string, readonly Endpoint[]>()
  readonly #listeners = new Set<CatalogueListener>()

  constructor(store: RegistryStore, notices: Notices, limits = { endpointsMax }) {
    this.#endpoints = new Registry(store, 'endpoint', (change) => this.#changed(change))
    this.#endpointsMax = limits.endpointsMax
    this.#notices = notices
  }

  load(): Promise<void> {
    return this.#endpoints.load()
  }

  /** Takes over what other processes have changed. */
  refresh(): Promise<void> {
    return this.#endpoints.refresh()
  }

  list(): Endpoint[] {
    return this.#endpoints.list()
  }

  get(id: string): Endpoint | null {
    return this.#endpoints.get(id)
  }

  /** Paused and disabled endpoints are routed to as well: their deliveries wait. */
  route(tenant: string, type: string): readonly Endpoint[] {
    const name = `${tenant}\n${type}`
    const known = this.#routes.get(name)
    if (known !== undefined) return known
    const found = this.list().filter((endpoint) => endpoint.tenant === tenant && this.#wants.get(endpoint.id)?.(type))
    if (this.#routes.size >= typesRememberedMax) this.#routes.clear()
    this.#routes.set(name, found)
    return found
  }

  /** A new one. Rejects with `conflict` when its tenant has as many as there may be. */
  add(endpoint: Endpoint): Promise<void> {
    const { tenant } = endpoint
    return this.#endpoints.put(endpoint, () => {
      if (this.list().filter((other) => other.tenant === tenant).length < this.#endpointsMax) return
      const message = `The tenant ${tenant} has ${this.#endpointsMax} endpoints, and that is the limit (POSTHORN_TENANT_ENDPOINTS_MAX). Delete some first.`
      throw new PosthornError('conflict', message)
    })
  }

  put(endpoint: Endpoint): Promise<void> {
    return this.#endpoints.put(endpoint)
  }

  /** Changes an endpoint as it is when its turn comes, so that of two changes at once none is lost. */
  update(id: string, change: (endpoint: Endpoint) => Endpoint): Promise<Endpoint | null> {
    return this.#endpoints.update(id, change)
  }

  /** Answers whether it was there. Its pending deliveries end as failed, in the background. */
  async remove(id: string): Promise<boolean> {
    return (await this.#endpoints.remove(id)) !== null
  }

  onChange(listener: CatalogueListener): void {
    this.#listeners.add(listener)
  }

  #changed({ kind, item: endpoint }: RegistryChange<Endpoint>): void {
    this.#routes.clear()
    if (kind === 'removed') this.#wants.delete(endpoint.id)
    else this.#wants.set(endpoint.id, typeMatcher(endpoint.types))
    if (kind !== 'loaded') this.#tell({ kind, endpoint })
  }

  #tell(change: Parameters<CatalogueListener>[0]): void {
    for (const listener of this.#listeners) listener(change)
    const { id: endpointId, tenant, status, statusReason } = change.endpoint
    const after = change.kind === 'put' ? { status, statusReason } : { status: null, statusReason: null }
    this.#notices.publish({ kind: 'endpoint.changed', tenant, endpointId, ...after })
  }
}
