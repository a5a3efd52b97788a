import { PosthornError } from '../core/errors.ts'
import type { RegistryItems, RegistryKind } from '../core/registry.ts'
import type { RegistryEntry, RegistryStore } from './registry-store.ts'

/** `before`: what the entry was; null: it is new here. */
export type RegistryChange<Item> = Readonly<{ kind: 'loaded' | 'put' | 'removed'; item: Item; before: Item | null }>

type Kept = Pick<RegistryStore, 'listEntries' | 'putEntry' | 'removeEntry'>

/** Another process may change an entry again while we read it. */
const triesMax = 5

/**
 * The entries of one kind, in memory: the store has the truth, every change goes there first. One change after the other,
 * so that of two changes at once none is lost. Where another process was faster, it reads again and decides again.
 */
export class Registry<K extends RegistryKind> {
  readonly #store: Kept
  readonly #kind: K
  readonly #onChange: (change: RegistryChange<RegistryItems[K]>) => void
  readonly #entries = new Map<string, RegistryEntry<K>>()
  #lastTurn: Promise<unknown> = Promise.resolve()

  constructor(store: Kept, kind: K, onChange: (change: RegistryChange<RegistryItems[K]>) => void) {
    this.#store = store
    this.#kind = kind
    this.#onChange = onChange
  }

  load(): Promise<void> {
    return this.#inTurn(async () => {
      for (const entry of await this.#store.listEntries(this.#kind)) this.#keep(entry, 'loaded')
    })
  }

  /** Takes over what others have changed in the store. */
  refresh(): Promise<void> {
    return this.#inTurn(() => this.#readAgain())
  }

  list(): RegistryItems[K][] {
    return [...this.#entries.values()].map(({ item }) => item)
  }

  get(id: string): RegistryItems[K] | null {
    return this.#entries.get(id)?.item ?? null
  }

  /** Creates or replaces. `check` runs when its turn comes, and throws what speaks against it. */
  async put(item: RegistryItems[K], check: () => void = () => {}): Promise<void> {
    await this.#write(item.id, () => {
      check()
      return item
    })
  }

  /** Changes an entry as it is when its turn comes; answers null when there is none. */
  update(id: string, change: (item: RegistryItems[K]) => RegistryItems[K]): Promise<RegistryItems[K] | null> {
    return this.#write(id, (known) => (known === null ? null : change(known)))
  }

  /** Answers what was removed; null: it was not there. */
  remove(id: string): Promise<RegistryItems[K] | null> {
    return this.#inTurn(async () => {
      if (!this.#entries.has(id)) return null
      await this.#store.removeEntry(this.#kind, id)
      return this.#drop(id)
    })
  }

  #write(
    id: string,
    decide: (known: RegistryItems[K] | null) => RegistryItems[K] | null,
  ): Promise<RegistryItems[K] | null> {
    return this.#inTurn(async () => {
      for (let tries = 1; ; tries += 1) {
        const known = this.#entries.get(id) ?? null
        const item = decide(known?.item ?? null)
        if (item === null) return null
        try {
          const version = await this.#store.putEntry(this.#kind, item, known?.version ?? 0)
          this.#keep({ item, version }, 'put')
          return item
        } catch (error) {
          if (tries === triesMax || !(await this.#wasStale(id, known, error))) throw error
        }
      }
    })
  }

  /** Whether a conflict was about the version, which is known now. A name that is taken stays a conflict. */
  async #wasStale(id: string, known: RegistryEntry<K> | null, error: unknown): Promise<boolean> {
    if (!(error instanceof PosthornError) || error.code !== 'conflict') return false
    await this.#readAgain()
    return this.#entries.get(id)?.version !== known?.version
  }

  async #readAgain(): Promise<void> {
    const entries = await this.#store.listEntries(this.#kind)
    const ids = new Set(entries.map(({ item }) => item.id))
    for (const id of [...this.#entries.keys()]) if (!ids.has(id)) this.#drop(id)
    for (const entry of entries) {
      if (this.#entries.get(entry.item.id)?.version !== entry.version) this.#keep(entry, 'put')
    }
  }

  #keep(entry: RegistryEntry<K>, kind: 'loaded' | 'put'): void {
    const { item } = entry
    const before = this.get(item.id)
    this.#entries.set(item.id, entry)
    this.#onChange({ kind, item, before })
  }

  #drop(id: string): RegistryItems[K] | null {
    const item = this.get(id)
    if (item === null) return null
    this.#entries.delete(id)
    this.#onChange({ kind: 'removed', item, before: item })
    return item
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#lastTurn.then(work)
    this.#lastTurn = turn.catch(() => {})
    return turn
  }
}
