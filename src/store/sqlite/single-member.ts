import type { Beat, ClusterStore, Joined } from '../cluster-store.ts'

const id = 'single'

/**
 * One process owns a SQLite file: it is the only member, leads, and cannot be fenced. The store's time is the wall clock's
 * when it was opened, and goes on from there whatever happens to that clock.
 */
export class SingleMember implements ClusterStore {
  readonly #openedAt = Date.now() - performance.now()
  readonly #registryVersion: () => Promise<number>

  constructor(registryVersion: () => Promise<number>) {
    this.#registryVersion = registryVersion
  }

  async join(): Promise<Joined> {
    return { id, now: this.#now(), lease: null }
  }

  async beat(): Promise<Beat> {
    const registryVersion = await this.#registryVersion()
    return { now: this.#now(), members: [id], leader: id, registryVersion, isLost: false }
  }

  async leave(): Promise<void> {}

  hint(): void {}

  onHint(): void {}

  #now(): number {
    return Math.floor(this.#openedAt + performance.now())
  }
}
