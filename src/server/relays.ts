import { quotaProblem } from '../core/quota.ts'
import { fullRelayName, type Relay, relayKeyPrefix } from '../core/relay.ts'
import type { RegistryStore } from '../store/registry-store.ts'
import { hashOfKey, newKeyText } from './key-text.ts'
import { notFound, Problem } from './problem.ts'

const relaysMax = 10_000
const tenantMaxDefault = 1_000

type KeptRelays = Pick<RegistryStore, 'putRelay' | 'removeRelay' | 'listRelays'>
type WithKey = Readonly<{ relay: Relay; text: string }>

/** The hubs that may connect, in memory: the store has the truth, every change goes there first. */
export class Relays {
  readonly #store: KeptRelays
  readonly #byId = new Map<string, Relay>()
  readonly #byHash = new Map<string, Relay>()
  readonly #byName = new Map<string, Relay>()
  #last: Promise<void> = Promise.resolve()

  readonly #tenantMax: number

  constructor(store: KeptRelays, { tenantMax } = { tenantMax: tenantMaxDefault }) {
    this.#store = store
    this.#tenantMax = tenantMax
  }

  async load(): Promise<void> {
    for (const relay of await this.#store.listRelays()) this.#remember(relay)
  }

  list(): Relay[] {
    return [...this.#byId.values()]
  }

  byId(id: string): Relay | null {
    return this.#byId.get(id) ?? null
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
  create(given: Omit<Relay, 'hash'>, maker: string | null): Promise<WithKey> {
    return this.#inTurn(() => {
      const problem = quotaProblem(
        { things: 'relays', max: relaysMax, tenantMax: this.#tenantMax, setting: 'POSTHORN_TENANT_RELAYS_MAX' },
        maker,
        this.list().map(({ tenant }) => tenant),
      )
      if (problem !== null) throw new Problem('conflict', `${problem} Revoke some first.`)
      return this.#keepWithNewKey(given)
    })
  }

  /** From the moment this resolves the old key lets nobody in. */
  rotateKey({ id }: Relay): Promise<WithKey> {
    return this.#inTurn(() => {
      const kept = this.#byId.get(id)
      if (kept === undefined) throw notFound('relay', id)
      return this.#keepWithNewKey(kept)
    })
  }

  /** From the moment this resolves nobody gets in with its key. */
  remove({ id }: Relay): Promise<void> {
    return this.#inTurn(async () => {
      await this.#store.removeRelay(id)
      this.#forget(id)
    })
  }

  /** One change after the other: a key that is made while its relay is revoked must not bring the relay back. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#last.then(change)
    this.#last = done.then(
      () => undefined,
      () => undefined,
    )
    return done
  }

  async #keepWithNewKey(given: Omit<Relay, 'hash'>): Promise<WithKey> {
    const text = newKeyText(relayKeyPrefix)
    const relay = { ...given, hash: hashOfKey(text) }
    await this.#store.putRelay(relay)
    this.#forget(relay.id)
    this.#remember(relay)
    return { relay, text }
  }

  #remember(relay: Relay): void {
    this.#byId.set(relay.id, relay)
    this.#byHash.set(relay.hash, relay)
    this.#byName.set(fullRelayName(relay.tenant, relay.name), relay)
  }

  #forget(id: string): void {
    const kept = this.#byId.get(id)
    if (kept === undefined) return
    this.#byId.delete(id)
    this.#byHash.delete(kept.hash)
    this.#byName.delete(fullRelayName(kept.tenant, kept.name))
  }
}
