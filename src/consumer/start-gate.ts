import type { Clock } from '../core/clock.ts'
import type { ConsumerSettings } from '../core/consumer.ts'
import { type Hold, heldAgain, startsAllowed } from '../core/consumer-hold.ts'
import { DeadLetterBudget } from '../core/dead-letter-budget.ts'
import type { Outcome } from '../core/outcome.ts'
import type { Logger } from '../log.ts'

export type StartGateParts = Readonly<{
  settings: ConsumerSettings
  clock: Clock
  log: Logger
  /** Something may start that could not before. */
  onOpen: () => void
}>

/** Whether a consumer may start attempts: not while something of our own is down, records fail in masses, or a person says so. */
export class StartGate {
  readonly #parts: StartGateParts
  readonly #budget: DeadLetterBudget | null
  #hold: Hold | null = null
  #opening: NodeJS.Timeout | null = null

  constructor(parts: StartGateParts) {
    this.#parts = parts
    const { budget } = parts.settings
    this.#budget = budget === null ? null : new DeadLetterBudget(budget)
  }

  get hold(): Hold | null {
    return this.#hold
  }

  /** Dead letters among the latest records; null: there is no limit. */
  get budgetUsed(): number | null {
    return this.#budget?.count ?? null
  }

  /** How many attempts may be under way. */
  get allowed(): number {
    const { settings, clock } = this.#parts
    return startsAllowed(this.#hold, settings.concurrency, clock.steady())
  }

  /** Answers whether a record may become a dead letter, and counts it as one; if not, this one and all others wait. */
  mayBury(): boolean {
    if (this.#budget?.isSpent === true) {
      this.close('budget')
      return false
    }
    this.#budget?.note(true)
    return true
  }

  noteProcessed(): void {
    this.#budget?.note(false)
  }

  close(reason: 'infrastructure' | 'budget'): void {
    const { settings, clock, log, onOpen } = this.#parts
    if (this.#hold?.reason === 'paused') return
    const now = clock.steady()
    const isNew = this.#hold?.reason !== reason
    // Attempts that were under way when it closed say nothing new.
    if (!isNew && this.#hold?.until != null && now < this.#hold.until) return
    this.#hold = heldAgain(this.#hold, reason, now)
    if (isNew) log.error({ consumer: settings.name, reason }, 'consumer.held')
    this.#endTimer()
    this.#opening = setTimeout(onOpen, (this.#hold.until ?? now) - now).unref()
  }

  /** A probe that does not fail for the same cause ends the hold. What began before the probe says nothing. */
  noteOutcome(outcome: Outcome, startedAt: number): void {
    const { reason, until } = this.#hold ?? {}
    if (until == null || startedAt < until) return
    if (reason === 'infrastructure' && outcome.kind !== 'ours') this.#open()
    if (reason === 'budget' && outcome.kind === 'delivered') this.open()
  }

  pause(): void {
    this.#endTimer()
    this.#hold = { reason: 'paused', since: this.#parts.clock.steady(), until: null, times: 1 }
  }

  /** Whatever has closed it. */
  open(): void {
    this.#budget?.clear()
    this.#open()
  }

  #open(): void {
    this.#endTimer()
    if (this.#hold !== null) this.#parts.log.info({ consumer: this.#parts.settings.name }, 'consumer.goes_on')
    this.#hold = null
    this.#parts.onOpen()
  }

  stop(): void {
    this.#endTimer()
  }

  #endTimer(): void {
    if (this.#opening !== null) clearTimeout(this.#opening)
    this.#opening = null
  }
}
