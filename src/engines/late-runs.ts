import type { Logger } from '../log.ts'

/** So many of one handler are told of, and then every doubling. */
const toldFrom = 100

type Late = { count: number; tellAt: number }

/**
 * Runs that went past their deadline and have not ended. Nothing can end them, and each of them holds its event and
 * whatever its code holds: somebody has to know before the memory is full.
 */
export class LateRuns {
  readonly #log: Logger
  /** By name, which two tenants may both have: then theirs are told of together. */
  readonly #byHandler = new Map<string, Late>()

  constructor(log: Logger) {
    this.#log = log
  }

  add(handler: string): void {
    const late = this.#byHandler.get(handler) ?? { count: 0, tellAt: toldFrom }
    this.#byHandler.set(handler, late)
    late.count += 1
    if (late.count < late.tellAt) return
    late.tellAt *= 2
    const advice =
      'its runs go on after their timeout and hold memory: let the code listen to the signal that it is given'
    this.#log.warn({ handler, lateRuns: late.count, advice }, 'handler.does_not_end')
  }

  remove(handler: string): void {
    const late = this.#byHandler.get(handler)
    if (late === undefined) return
    late.count -= 1
    if (late.count === 0) this.#byHandler.delete(handler)
  }
}
