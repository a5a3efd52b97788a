import type { ApiKey, Caller } from '../core/api-key.ts'
import { quotaProblem } from '../core/quota.ts'
import { Registry, type RegistryChange } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { hashOfKey, newKeyText } from './key-text.ts'
import { Problem } from './problem.ts'

export const keyPrefix = 'phk_'
const keysMax = 10_000
const tenantMaxDefault = 1_000

/** The kept keys, by their hashes. */
export class Keys {
  readonly #keys: Registry<'key'>
  readonly #callers = new Map<string, Caller>()
  readonly #onRevoked = new Set<() => void>()
  readonly #tenantMax: number

  constructor(store: RegistryStore, { tenantMax } = { tenantMax: tenantMaxDefault }) {
    this.#keys = new Registry(store, 'key', (change) => this.#note(change))
    this.#tenantMax = tenantMax
  }

  load(): Promise<void> {
    return this.#keys.load()
  }

  /** Takes over what other processes have changed. */
  refresh(): Promise<void> {
    return this.#keys.refresh()
  }

  /** Who this key stands for; null when it is none of ours. */
  find(text: string): Caller | null {
    if (!text.startsWith(keyPrefix)) return null
    return this.#callers.get(hashOfKey(text)) ?? null
  }

  list(): ApiKey[] {
    return this.#keys.list()
  }

  /** The kept key and its text, which nobody can ask for again. `maker` is the tenant of who makes it; null: the operator. */
  async create(given: Omit<ApiKey, 'hash'>, maker: string | null): Promise<Readonly<{ key: ApiKey; text: string }>> {
    const text = newKeyText(keyPrefix)
    const key = { ...given, hash: hashOfKey(text) }
    await this.#keys.put(key, () => {
      const problem = quotaProblem(
        { things: 'API keys', max: keysMax, tenantMax: this.#tenantMax, setting: 'POSTHORN_TENANT_KEYS_MAX' },
        maker,
        this.list().map(({ tenant }) => tenant),
      )
      if (problem !== null) throw new Problem('conflict', `${problem} Delete some first.`)
    })
    return { key, text }
  }

  /** From the moment this resolves nobody gets in with it. */
  async remove({ id }: ApiKey): Promise<void> {
    await this.#keys.remove(id)
  }

  /** For those who let callers in for longer than a request. Returns what ends it. */
  onRevoked(listener: () => void): () => void {
    this.#onRevoked.add(listener)
    return () => this.#onRevoked.delete(listener)
  }

  #note({ kind, item: key, before }: RegistryChange<ApiKey>): void {
    if (before !== null) this.#callers.delete(before.hash)
    if (kind === 'removed') {
      for (const listener of this.#onRevoked) listener()
      return
    }
    const { id, name, role, tenant } = key
    this.#callers.set(key.hash, { name: name === '' ? id : name, role, tenant })
  }
}
