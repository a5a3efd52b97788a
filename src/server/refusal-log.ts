import { Seldom } from '../core/seldom.ts'
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
  readonly #seldom = new Seldom(everyMs)

  constructor(log: Logger, now: () => number) {
    this.#log = log
    this.#now = now
  }

  note({ id: sourceId, name: source, tenant, provider }: Source, code: string): void {
    const untold = this.#seldom.pass(sourceId, this.#now())
    if (untold !== null) this.#log.warn({ sourceId, source, tenant, provider, code, untold }, 'source.refused')
  }
}
