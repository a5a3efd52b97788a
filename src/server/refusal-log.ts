import type { Source } from '../core/source.ts'
import { type Logger, SeldomLog } from '../log.ts'

const everyMs = 10_000

/** Logs requests that a source refused, seldom: nobody who floods a source can flood the log. */
export class RefusalLog {
  readonly #log: SeldomLog

  constructor(log: Logger, now: () => number) {
    this.#log = new SeldomLog(log, everyMs, now)
  }

  note({ id: sourceId, name: source, tenant, provider }: Source, code: string): void {
    this.#log.warn(sourceId, { sourceId, source, tenant, provider, code }, 'source.refused')
  }
}
