import { PosthornError } from '../core/errors.ts'
import type { Event } from '../core/event.ts'
import type { Source } from '../core/source.ts'
import { parseTemplate, type Template } from '../core/type-template.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { sourceScope } from './intake.ts'
import { providerRules } from './providers/providers.ts'

/** A source with what every event of it needs, made once. `scope` is where its event ids are known. */
export type SourceEntry = Readonly<{ source: Source; scope: string; type: Template; key: Template | null }>

type SourceStore = Pick<RegistryStore, 'putSource' | 'removeSource' | 'listSources'>

/** Of one tenant. */
const sourcesMax = 1_000

/** The sources, in memory: the store has the truth, every change goes there first. */
export class Sources {
  readonly #store: SourceStore
  readonly #sourcesMax: number
  readonly #byName = new Map<string, SourceEntry>()
  #lastTurn: Promise<void> = Promise.resolve()

  constructor(store: SourceStore, limits = { sourcesMax }) {
    this.#store = store
    this.#sourcesMax = limits.sourcesMax
  }

  async load(): Promise<void> {
    for (const source of await this.#store.listSources()) this.#remember(source)
  }

  list(): Source[] {
    return [...this.#byName.values()].map((entry) => entry.source)
  }

  /** By the last part of its address. */
  find(name: string): SourceEntry | null {
    return this.#byName.get(name) ?? null
  }

  /** By its id or its name, whichever a person has at hand. */
  get(idOrName: string): Source | null {
    const named = this.#byName.get(idOrName)?.source
    return named ?? this.list().find(({ id }) => id === idOrName) ?? null
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
    return this.#inTurn(async () => {
      if (this.#byName.has(source.name)) {
        throw new PosthornError('conflict', `There is a source ${source.name} already; choose another name.`)
      }
      const { tenant } = source
      if (this.list().filter((other) => other.tenant === tenant).length >= this.#sourcesMax) {
        const message = `The tenant ${tenant} has ${this.#sourcesMax} sources, and that is the limit (POSTHORN_TENANT_SOURCES_MAX). Delete some first.`
        throw new PosthornError('conflict', message)
      }
      await this.#store.putSource(source)
      this.#remember(source)
    })
  }

  /** Changes a source as it is when its turn comes, so that of two changes at once none is lost. Its name stays. */
  async update(id: string, change: (source: Source) => Source): Promise<Source | null> {
    let changed: Source | null = null
    await this.#inTurn(async () => {
      const before = this.get(id)
      if (before === null) return
      changed = { ...change(before), id: before.id, name: before.name }
      await this.#store.putSource(changed)
      this.#remember(changed)
    })
    return changed
  }

  /** Answers whether it was there. */
  async remove(id: string): Promise<boolean> {
    let removed = false
    await this.#inTurn(async () => {
      const source = this.get(id)
      if (source === null) return
      await this.#store.removeSource(source.id)
      this.#byName.delete(source.name)
      removed = true
    })
    return removed
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(work)
    this.#lastTurn = turn.catch(() => {})
    return turn
  }

  #remember(source: Source): void {
    const key = source.key === null ? null : parseTemplate(source.key)
    const entry = { source, scope: sourceScope(source.id), type: parseTemplate(source.type), key }
    this.#byName.set(source.name, entry)
  }
}
