import type { Source } from '../core/source.ts'
import type { Logger } from '../log.ts'

const everyMs = 10_000

/**
 * Tells of requests that a source refused: at most one line per source and while, with the number of those before it
 * that were not told. Whoever floods a source must not flood the log.
 */
export class RefusalLog {
  readonly #log: Logger
  readonly #now: () => number
  readonly #told = new Map<string, { at: number; untold: number }>()

  constructor(log: Logger, now: () => number) {
    this.#log = log
    this.#now = now
  }

  note({ id: sourceId, name: source, tenant, provider }: Source, code: string): void {
    const now = this.#now()
    const last = this.#told.get(sourceId)
    if (last !== undefined && Math.abs(now - last.at) < everyMs) {
      last.untold += 1
      return
    }
    this.#told.set(sourceId, { at: now, untold: 0 })
    this.#log.warn({ sourceId, source, tenant, provider, code, untold: last?.untold ?? 0 }, 'source.refused')
  }
}
