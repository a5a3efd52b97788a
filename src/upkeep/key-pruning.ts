import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'

export type KeyPruningParts = Readonly<{ store: Store; log: Logger; now: () => number }>

const everyMs = 10 * 60_000
const chunk = 1_000

/** Deletes idempotency keys that have ended, from time to time and in chunks that hold up nobody's commit. */
export class KeyPruning {
  readonly #parts: KeyPruningParts
  #timer: NodeJS.Timeout | null = null
  #underway: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(parts: KeyPruningParts) {
    this.#parts = parts
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#underway = this.run()
    }, everyMs)
    this.#timer.unref()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#underway
  }

  async run(): Promise<void> {
    const { store, log, now } = this.#parts
    try {
      while (!this.#stopped && (await store.pruneKeys(now(), chunk)) === chunk);
    } catch (err) {
      log.warn({ err }, 'keys.not_pruned')
    }
  }
}
