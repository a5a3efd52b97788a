import type { Breaker } from '../core/circuit-breaker.ts'
import type { Condition } from '../core/condition.ts'
import { PosthornError } from '../core/errors.ts'
import type { Logger } from '../log.ts'
import { rest } from '../store/pace.ts'
import type { Store } from '../store/store.ts'

const retryEveryMs = 1_000

/** Keeps breakers, holds, failings and last errors in the store, so that they survive a restart. Memory leads, the store follows. */
export class KeptConditions {
  readonly #store: Store
  readonly #log: Logger
  readonly #dirty = new Map<string, Condition>()
  #writing: Promise<void> | null = null
  readonly #closing = new AbortController()

  constructor(store: Store, log: Logger) {
    this.#store = store
    this.#log = log
  }

  async load(): Promise<ReadonlyMap<string, Condition>> {
    return new Map((await this.#store.listConditions()).map((condition) => [condition.endpointId, condition]))
  }

  /** Keeps a condition if it differs from the one before in what matters after a restart. */
  keep(before: Condition, after: Condition): void {
    const isSame =
      before.heldUntil === after.heldUntil &&
      before.failingSince === after.failingSince &&
      before.lastError === after.lastError
    if (isSame && sameBreaker(before.breaker, after.breaker)) return
    this.#dirty.set(after.endpointId, after)
    this.#writing ??= this.#write()
  }

  /** Resolves when everything given so far is kept, or cannot be. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#writing
    if (this.#dirty.size > 0) await this.#write()
  }

  async #write(): Promise<void> {
    while (this.#dirty.size > 0) {
      const conditions = [...this.#dirty.values()]
      this.#dirty.clear()
      try {
        await this.#store.putConditions(conditions)
      } catch (error) {
        this.#log.warn({ err: error, endpoints: conditions.length }, 'conditions.not_written')
        // What is wrong with it would be wrong again.
        if (this.#closing.signal.aborted || !(error instanceof PosthornError)) break
        for (const condition of conditions) {
          if (!this.#dirty.has(condition.endpointId)) this.#dirty.set(condition.endpointId, condition)
        }
        await rest(retryEveryMs, this.#closing.signal)
      }
    }
    this.#writing = null
  }
}

/** A closed breaker's counters are not worth a write: after a restart it counts anew. */
function sameBreaker(a: Breaker, b: Breaker): boolean {
  if (a.state === 'closed' || b.state === 'closed') return a.state === b.state
  return a.state === b.state && a.openedAt === b.openedAt
}
