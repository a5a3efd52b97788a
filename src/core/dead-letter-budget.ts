/**
 * How many of the latest records may become dead letters. More than that is no poison but an outage: emptying a topic into
 * its dead letters would only move the problem.
 */
export type BudgetPolicy = Readonly<{
  /** Of the window, in (0, 1]. */
  share: number
  /** So many of the latest records count. */
  window: number
}>

export const defaultBudget: BudgetPolicy = { share: 0.5, window: 200 }

/** The latest results, oldest overwritten first. A class, because every record changes one bit of it. */
export class DeadLetterBudget {
  readonly #dead: Uint8Array
  readonly #max: number
  #at = 0
  #count = 0

  constructor({ share, window }: BudgetPolicy) {
    this.#dead = new Uint8Array(window)
    this.#max = Math.max(1, Math.floor(share * window))
  }

  /** Dead letters among the latest records. */
  get count(): number {
    return this.#count
  }

  /** Whether one more dead letter would be too many. */
  get isSpent(): boolean {
    return this.#count >= this.#max
  }

  note(isDead: boolean): void {
    this.#count += Number(isDead) - (this.#dead[this.#at] ?? 0)
    this.#dead[this.#at] = Number(isDead)
    this.#at = (this.#at + 1) % this.#dead.length
  }

  /** Starts anew: a probe has succeeded, or a person says so. */
  clear(): void {
    this.#dead.fill(0)
    this.#count = 0
  }
}
