/** Outcomes that cannot be written even then are left to the next owner of the store. */
const writeGraceMs = 5_000

/** Waits for the end of what is under way. */
export class Drain {
  readonly #isIdle: () => boolean
  #onIdle: (() => void) | null = null

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle
  }

  /** To be called whenever something has ended. */
  check(): void {
    if (this.#onIdle !== null && this.#isIdle()) this.#onIdle()
  }

  /** Resolves when everything is done; what is not done after the grace time is interrupted. */
  async wait(graceMs: number, interrupt: () => void): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onIdle = resolve
    const interrupting = setTimeout(interrupt, graceMs)
    const givingUp = setTimeout(resolve, graceMs + writeGraceMs)
    this.check()
    await promise
    clearTimeout(interrupting)
    clearTimeout(givingUp)
  }
}
