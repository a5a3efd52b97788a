import type { Beat, ClusterStore, Joined } from '../cluster-store.ts'

const id = 'single'

/**
 * One process owns a SQLite file: it is the only member, leads, and cannot be fenced. The store's time is the wall clock's
 * when it was opened, and goes on from there whatever happens to that clock.
 */
export class SingleMember implements ClusterStore {
  readonly #openedAt = Date.now() - performance.now()

  async join(): Promise<Joined> {
    return { id, now: this.#now(), lease: null }
  }

  async beat(): Promise<Beat> {
    return { now: this.#now(), members: [id], leader: id, isLost: false }
  }

  async leave(): Promise<void> {}

  hint(): void {}

  onHint(): void {}

  #now(): number {
    return Math.floor(this.#openedAt + performance.now())
  }
}
