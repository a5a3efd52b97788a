import { PosthornError } from '../core/errors.ts'
import type { Event } from '../core/event.ts'
import type { Source } from '../core/source.ts'
import { parseTemplate, type Template } from '../core/type-template.ts'
import { Registry, type RegistryChange } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { sourceScope } from './intake.ts'
import { providerRules } from './providers/providers.ts'

/** A source with what every event of it needs, made once. `scope` is where its event ids are known. */
export type SourceEntry = Readonly<{ source: Source; scope: string; type: Template; key: Template | null }>

/** Of one tenant. */
const sourcesMax = 1_000

/** The sources, by their addresses. */
export class Sources {
  readonly #sources: Registry<'source'>
  readonly #sourcesMax: number
  readonly #byName = new Map<string, SourceEntry>()

  constructor(store: RegistryStore, limits = { sourcesMax }) {
    this.#sources = new Registry(store, 'source', (change) => this.#note(change))
    this.#sourcesMax = limits.sourcesMax
  }

  load(): Promise<void> {
    return this.#sources.load()
  }

  /** Takes over what other processes have changed. */
  refresh(): Promise<void> {
    return this.#sources.refresh()
  }

  list(): Source[] {
    return this.#sources.list()
  }

  /** By the last part of its address. */
  find(name: string): SourceEntry | null {
    return this.#byName.get(name) ?? null
  }

  /** By its id or its name, whichever a person has at hand. */
  get(idOrName: string): Source | null {
    return this.#byName.get(idOrName)?.source ?? this.#sources.get(idOrName)
  }

  /**
   * Headers of this event's request that carry a signature: a reader of one and the body could send both again. Those of
   * all providers and of all sources of the tenant, and the one that its own source had at the time: sources change.
   */
  signatureHeaders({ tenant, request }: Pick<Event, 'tenant' | 'request'>): ReadonlySet<string> {
    const ofProviders = Object.values(providerRules).flatMap(({ signatures }) => signatures)
    const own = this.list().flatMap((source) => (source.tenant === tenant && source.hmac ? [source.hmac.header] : []))
    const atTheTime = request?.signatureHeader === undefined ? [] : [request.signatureHeader]
    return new Set([...ofProviders, ...own, ...atTheTime])
  }

  /** Rejects with `conflict` when the name is taken, or its tenant has as many as there may be. */
  add(source: Source): Promise<void> {
    const { name, tenant } = source
    return this.#sources.put(source, () => {
      if (this.#byName.has(name)) {
        throw new PosthornError('conflict', `There is a source ${name} already; choose another name.`)
      }
      if (this.list().filter((other) => other.tenant === tenant).length < this.#sourcesMax) return
      const message = `The tenant ${tenant} has ${this.#sourcesMax} sources, and that is the limit (POSTHORN_TENANT_SOURCES_MAX). Delete some first.`
      throw new PosthornError('conflict', message)
    })
  }

  /** Changes a source as it is when its turn comes, so that of two changes at once none is lost. Its name stays. */
  async update(idOrName: string, change: (source: Source) => Source): Promise<Source | null> {
    const id = this.get(idOrName)?.id
    if (id === undefined) return null
    return this.#sources.update(id, (before) => ({ ...change(before), id: before.id, name: before.name }))
  }

  /** Answers whether it was there. */
  async remove(idOrName: string): Promise<boolean> {
    const id = this.get(idOrName)?.id
    return id !== undefined && (await this.#sources.remove(id)) !== null
  }

  #note({ kind, item: source, before }: RegistryChange<Source>): void {
    if (before !== null) this.#byName.delete(before.name)
    if (kind === 'removed') return
    const key = source.key === null ? null : parseTemplate(source.key)
    const entry = { source, scope: sourceScope(source.id), type: parseTemplate(source.type), key }
    this.#byName.set(source.name, entry)
  }
}
