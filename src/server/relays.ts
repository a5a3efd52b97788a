import { quotaProblem } from '../core/quota.ts'
import { fullRelayName, type Relay, relayKeyPrefix } from '../core/relay.ts'
import { Registry, type RegistryChange } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { hashOfKey, newKeyText } from './key-text.ts'
import { notFound, Problem } from './problem.ts'

const relaysMax = 10_000
const tenantMaxDefault = 1_000

type WithKey = Readonly<{ relay: Relay; text: string }>

/** The hubs that may connect, by their keys and names. */
export class Relays {
  readonly #relays: Registry<'relay'>
  readonly #byHash = new Map<string, Relay>()
  readonly #byName = new Map<string, Relay>()
  readonly #tenantMax: number
  readonly #shutOutListeners = new Set<(relayId: string) => void>()

  constructor(store: RegistryStore, { tenantMax } = { tenantMax: tenantMaxDefault }) {
    this.#relays = new Registry(store, 'relay', (change) => this.#note(change))
    this.#tenantMax = tenantMax
  }

  load(): Promise<void> {
    return this.#relays.load()
  }

  /** Takes over what other processes have changed. */
  refresh(): Promise<void> {
    return this.#relays.refresh()
  }

  /** Calls back when a relay was revoked or has another key, at any process: its link must end. */
  onShutOut(listener: (relayId: string) => void): void {
    this.#shutOutListeners.add(listener)
  }

  list(): Relay[] {
    return this.#relays.list()
  }

  byId(id: string): Relay | null {
    return this.#relays.get(id)
  }

  /** Whose key this is; null when it is none of ours. */
  find(keyText: string): Relay | null {
    if (!keyText.startsWith(relayKeyPrefix)) return null
    return this.#byHash.get(hashOfKey(keyText)) ?? null
  }

  named(tenant: string, name: string): Relay | null {
    return this.#byName.get(fullRelayName(tenant, name)) ?? null
  }

  /** The kept relay and the text of its key, which nobody can ask for again. A name that its tenant has is a `conflict`. `maker` is the tenant of who makes it; null: the operator. */
  async create(given: Omit<Relay, 'hash'>, maker: string | null): Promise<WithKey> {
    const text = newKeyText(relayKeyPrefix)
    const relay = { ...given, hash: hashOfKey(text) }
    await this.#relays.put(relay, () => {
      const problem = quotaProblem(
        { things: 'relays', max: relaysMax, tenantMax: this.#tenantMax, setting: 'POSTHORN_TENANT_RELAYS_MAX' },
        maker,
        this.list().map(({ tenant }) => tenant),
      )
      if (problem !== null) throw new Problem('conflict', `${problem} Revoke some first.`)
    })
    return { relay, text }
  }

  /** From the moment this resolves the old key lets nobody in. */
  async rotateKey({ id }: Relay): Promise<WithKey> {
    const text = newKeyText(relayKeyPrefix)
    const hash = hashOfKey(text)
    const relay = await this.#relays.update(id, (before) => ({ ...before, hash }))
    if (relay === null) throw notFound('relay', id)
    return { relay, text }
  }

  /** From the moment this resolves nobody gets in with its key. */
  async remove({ id }: Relay): Promise<void> {
    await this.#relays.remove(id)
  }

  #note({ kind, item: relay, before }: RegistryChange<Relay>): void {
    if (before !== null) {
      this.#byHash.delete(before.hash)
      this.#byName.delete(fullRelayName(before.tenant, before.name))
    }
    if (kind !== 'removed') {
      this.#byHash.set(relay.hash, relay)
      this.#byName.set(fullRelayName(relay.tenant, relay.name), relay)
    }
    if (kind === 'removed' || (before !== null && before.hash !== relay.hash)) {
      for (const listener of this.#shutOutListeners) listener(relay.id)
    }
  }
}
