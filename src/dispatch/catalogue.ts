import type { Endpoint } from '../core/endpoint.ts'
import { PosthornError } from '../core/errors.ts'
import { typeMatcher } from '../core/routing.ts'
import type { Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'

type Entry = Readonly<{ endpoint: Endpoint; wants: (type: string) => boolean }>

/** What happens to the catalogue, for those that keep state per endpoint. */
export type CatalogueListener = (
  change: { kind: 'put'; endpoint: Endpoint } | { kind: 'removed'; endpoint: Endpoint },
) => void

const typesRememberedMax = 10_000
/** Of one tenant. */
const endpointsMax = 10_000

/** The endpoints, in memory: the store has the truth, every change goes there first. */
export class Catalogue {
  readonly #store: Store
  readonly #notices: Notices
  readonly #endpointsMax: number
  readonly #entries = new Map<string, Entry>()
  /** tenant and type → endpoints, emptied by every change. */
  readonly #routes = new Map<string, readonly Endpoint[]>()
  readonly #listeners = new Set<CatalogueListener>()
  #lastTurn: Promise<void> = Promise.resolve()

  constructor(store: Store, notices: Notices, limits = { endpointsMax }) {
    this.#store = store
    this.#endpointsMax = limits.endpointsMax
    this.#notices = notices
  }

  async load(): Promise<void> {
    for (const endpoint of await this.#store.listEndpoints()) this.#remember(endpoint)
  }

  list(): Endpoint[] {
    return [...this.#entries.values()].map((entry) => entry.endpoint)
  }

  get(id: string): Endpoint | null {
    return this.#entries.get(id)?.endpoint ?? null
  }

  /** Paused and disabled endpoints are routed to as well: their deliveries wait. */
  route(tenant: string, type: string): readonly Endpoint[] {
    const name = `${tenant}\n${type}`
    const known = this.#routes.get(name)
    if (known !== undefined) return known
    const found: Endpoint[] = []
    for (const { endpoint, wants } of this.#entries.values()) {
      if (endpoint.tenant === tenant && wants(type)) found.push(endpoint)
    }
    if (this.#routes.size >= typesRememberedMax) this.#routes.clear()
    this.#routes.set(name, found)
    return found
  }

  /** A new one. Rejects with `conflict` when its tenant has as many as there may be. */
  add(endpoint: Endpoint): Promise<void> {
    return this.#inTurn(async () => {
      const { tenant } = endpoint
      if (this.list().filter((other) => other.tenant === tenant).length >= this.#endpointsMax) {
        const message = `The tenant ${tenant} has ${this.#endpointsMax} endpoints, and that is the limit (POSTHORN_TENANT_ENDPOINTS_MAX). Delete some first.`
        throw new PosthornError('conflict', message)
      }
      await this.#put(endpoint)
    })
  }

  put(endpoint: Endpoint): Promise<void> {
    return this.#inTurn(() => this.#put(endpoint))
  }

  /** Changes an endpoint as it is when its turn comes, so that of two changes at once none is lost. */
  async update(id: string, change: (endpoint: Endpoint) => Endpoint): Promise<Endpoint | null> {
    let changed: Endpoint | null = null
    await this.#inTurn(async () => {
      const before = this.get(id)
      if (before === null) return
      changed = change(before)
      await this.#put(changed)
    })
    return changed
  }

  /** Answers whether it was there. Its pending deliveries end as failed, in the background. */
  async remove(id: string): Promise<boolean> {
    let removed = false
    await this.#inTurn(async () => {
      const endpoint = this.get(id)
      if (endpoint === null) return
      await this.#store.removeEndpoint(id)
      this.#entries.delete(id)
      this.#routes.clear()
      this.#tell({ kind: 'removed', endpoint })
      removed = true
    })
    return removed
  }

  onChange(listener: CatalogueListener): void {
    this.#listeners.add(listener)
  }

  async #put(endpoint: Endpoint): Promise<void> {
    await this.#store.putEndpoint(endpoint)
    this.#remember(endpoint)
    this.#tell({ kind: 'put', endpoint })
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(work)
    this.#lastTurn = turn.catch(() => {})
    return turn
  }

  #remember(endpoint: Endpoint): void {
    this.#entries.set(endpoint.id, { endpoint, wants: typeMatcher(endpoint.types) })
    this.#routes.clear()
  }

  #tell(change: Parameters<CatalogueListener>[0]): void {
    for (const listener of this.#listeners) listener(change)
    const { id: endpointId, tenant, status, statusReason } = change.endpoint
    const after = change.kind === 'put' ? { status, statusReason } : { status: null, statusReason: null }
    this.#notices.publish({ kind: 'endpoint.changed', tenant, endpointId, ...after })
  }
}
