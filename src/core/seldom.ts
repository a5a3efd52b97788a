const namesMax = 10_000

/**
 * Lets one of a kind through per period and counts the others: what a peer can cause at will must not fill a log.
 * A clock that is set back lets the next one through.
 */
export class Seldom {
  readonly #everyMs: number
  readonly #passed = new Map<string, { at: number; untold: number }>()

  constructor(everyMs: number) {
    this.#everyMs = everyMs
  }

  /** How many of this name were held back since the last that passed; null: this one is held back too. */
  pass(name: string, now: number): number | null {
    const last = this.#passed.get(name)
    if (last !== undefined && Math.abs(now - last.at) < this.#everyMs) {
      last.untold += 1
      return null
    }
    if (this.#passed.size >= namesMax) this.#passed.clear()
    this.#passed.set(name, { at: now, untold: 0 })
    return last?.untold ?? 0
  }
}
