import type { ApiKey, Caller } from '../core/api-key.ts'
import { quotaProblem } from '../core/quota.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { hashOfKey, newKeyText } from './key-text.ts'
import { Problem } from './problem.ts'

export const keyPrefix = 'phk_'
const keysMax = 10_000
const tenantMaxDefault = 1_000

type Kept = Readonly<{ key: ApiKey; caller: Caller }>

/** The kept keys, in memory by their hash: the store has the truth, every change goes there first. */
export class Keys {
  readonly #store: Pick<RegistryStore, 'putApiKey' | 'removeApiKey' | 'listApiKeys'>
  readonly #byHash = new Map<string, Kept>()
  readonly #onRevoked = new Set<() => void>()
  readonly #tenantMax: number
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    store: Pick<RegistryStore, 'putApiKey' | 'removeApiKey' | 'listApiKeys'>,
    { tenantMax } = { tenantMax: tenantMaxDefault },
  ) {
    this.#store = store
    this.#tenantMax = tenantMax
  }

  async load(): Promise<void> {
    for (const key of await this.#store.listApiKeys()) this.#remember(key)
  }

  /** Who this key stands for; null when it is none of ours. */
  find(text: string): Caller | null {
    if (!text.startsWith(keyPrefix)) return null
    return this.#byHash.get(hashOfKey(text))?.caller ?? null
  }

  list(): ApiKey[] {
    return [...this.#byHash.values()].map(({ key }) => key)
  }

  /** The kept key and its text, which nobody can ask for again. `maker` is the tenant of who makes it; null: the operator. */
  create(given: Omit<ApiKey, 'hash'>, maker: string | null): Promise<Readonly<{ key: ApiKey; text: string }>> {
    // One after the other: many at once must not pass the limit together.
    const made = this.#last.then(() => this.#make(given, maker))
    this.#last = made.catch(() => undefined)
    return made
  }

  async #make(given: Omit<ApiKey, 'hash'>, maker: string | null) {
    const quota = {
      things: 'API keys',
      max: keysMax,
      tenantMax: this.#tenantMax,
      setting: 'POSTHORN_TENANT_KEYS_MAX',
    }
    const tenants = this.list().map(({ tenant }) => tenant)
    const problem = quotaProblem(quota, maker, tenants)
    if (problem !== null) throw new Problem('conflict', `${problem} Delete some first.`)
    const text = newKeyText(keyPrefix)
    const key = { ...given, hash: hashOfKey(text) }
    await this.#store.putApiKey(key)
    this.#remember(key)
    return { key, text }
  }

  /** From the moment this resolves nobody gets in with it. */
  async remove({ id, hash }: ApiKey): Promise<void> {
    await this.#store.removeApiKey(id)
    this.#byHash.delete(hash)
    for (const listener of this.#onRevoked) listener()
  }

  /** For those who let callers in for longer than a request. Returns what ends it. */
  onRevoked(listener: () => void): () => void {
    this.#onRevoked.add(listener)
    return () => this.#onRevoked.delete(listener)
  }

  #remember(key: ApiKey): void {
    const { id, name, role, tenant } = key
    this.#byHash.set(key.hash, { key, caller: { name: name === '' ? id : name, role, tenant } })
  }
}
