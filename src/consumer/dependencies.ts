import {
  allowance,
  type Breaker,
  type BreakerPolicy,
  closedBreaker,
  defaultBreaker,
  probeAbandoned,
  probeStarted,
  recorded,
} from '../core/circuit-breaker.ts'
import type { Clock } from '../core/clock.ts'
import type { Outcome } from '../core/outcome.ts'
import type { Logger } from '../log.ts'
import type { SharedState } from '../shared-state/shared-state.ts'

export type DependenciesParts = Readonly<{
  state: SharedState
  clock: Clock
  log: Logger
  /** How long an attempt may take: a probe that has not ended by then is over. */
  timeoutMs: number
  policy?: BreakerPolicy
}>

export type DependencyAttempt = Readonly<{
  outcome: Outcome
  startedAt: number
  /** What it was the probe of; null: of nothing. */
  probed: string | null
  /** What it found unavailable; null: nothing. */
  dependency: string | null
  /** Records that need what is down wait. */
  isParking: boolean
}>

const swapsMax = 4

/**
 * The breakers of what handlers need, by the name that they say is unavailable. All processes that share the state agree on
 * them; while it does not answer, each has its own.
 */
export class Dependencies {
  readonly #parts: DependenciesParts
  readonly #policy: BreakerPolicy
  /** As last known. Those that are closed and have no failures are left out. */
  readonly #known = new Map<string, Breaker>()

  constructor(parts: DependenciesParts) {
    this.#parts = parts
    this.#policy = parts.policy ?? defaultBreaker
  }

  /** Those that are not closed. */
  get open(): ReadonlyMap<string, Breaker> {
    return new Map([...this.#known].filter(([, { state }]) => state !== 'closed'))
  }

  isOpen(name: string): boolean {
    return (this.#known.get(name) ?? closedBreaker).state !== 'closed'
  }

  /** Its cool-down is over: the next attempt that needs it shows how it is. */
  isDue(name: string): boolean {
    const breaker = this.#known.get(name) ?? closedBreaker
    return breaker.state !== 'closed' && this.#parts.clock.steady() >= breaker.until
  }

  /** Whether a record that needs it may be tried as its probe, which no other process does at the same time. */
  async mayProbe(name: string): Promise<boolean> {
    const now = this.#parts.clock.steady()
    let isMine = false
    const isKept = await this.#change(name, (breaker) => {
      isMine = allowance(breaker, now).kind === 'probe'
      return isMine ? probeStarted(breaker, this.#parts.timeoutMs, now) : breaker
    })
    return isMine && isKept
  }

  /** What an attempt has shown of the dependency that it was the probe of, and of the one that it found unavailable. */
  async noteAttempt({ outcome, startedAt, probed, dependency, isParking }: DependencyAttempt): Promise<void> {
    const isSame = probed === dependency
    if (probed !== null && dependency !== null && !isSame) await this.abandonProbe(probed)
    else if (probed !== null) await this.#note(probed, outcome, startedAt, true)
    if (dependency === null || isSame) return
    // Where nothing is parked, the first attempt after the cool-down is the probe.
    await this.#note(dependency, outcome, startedAt, !isParking && this.isDue(dependency))
  }

  /** A probe told nothing: the next one may begin at once. */
  async abandonProbe(name: string): Promise<void> {
    await this.#change(name, (breaker) => probeAbandoned(breaker, this.#parts.clock.steady()))
  }

  /** What an attempt has shown of it: `unavailable` or `delivered`; anything else says that a probe told nothing. */
  async #note(name: string, outcome: Outcome, startedAt: number, isProbe: boolean): Promise<void> {
    const now = this.#parts.clock.steady()
    const result = { outcome, statusCode: null, startedAt, probe: isProbe }
    const before = this.isOpen(name)
    await this.#change(name, (breaker) => recorded(breaker, result, this.#policy, now))
    const isOpen = this.isOpen(name)
    if (before === isOpen) return
    this.#parts.log.warn({ dependency: name }, isOpen ? 'dependency.open' : 'dependency.closed')
  }

  /** Reads what other processes know. */
  async refresh(names: readonly string[] = [...this.#known.keys()]): Promise<void> {
    if (names.length === 0) return
    const texts = await this.#parts.state.read(names.map(keyOf)).catch(() => null)
    if (texts === null) return
    for (const [at, name] of names.entries()) this.#learn(name, breakerIn(texts[at] ?? null))
  }

  /** Closes the breaker, whatever others know. */
  async reset(name: string): Promise<void> {
    await this.refresh([name])
    await this.#change(name, () => closedBreaker)
  }

  /** In turn with the other processes: what is put is made from what is there. Answers false if others were always quicker. */
  async #change(name: string, make: (breaker: Breaker) => Breaker): Promise<boolean> {
    const key = keyOf(name)
    let from = textOf(this.#known.get(name) ?? closedBreaker)
    for (let swaps = 0; swaps < swapsMax; swaps++) {
      const next = make(breakerIn(from))
      const to = textOf(next)
      if (to === from) return this.#learn(name, next)
      const ttlMs = 2 * (this.#policy.cooldownMs + this.#parts.timeoutMs)
      const answers = await this.#parts.state.swap([{ key, from, to, ttlMs }]).catch(() => null)
      const answer = answers?.[0]
      // Without an answer each process goes by what it sees itself.
      if (answer === undefined || answer.swapped) return this.#learn(name, next)
      from = answer.found
    }
    this.#learn(name, breakerIn(from))
    return false
  }

  #learn(name: string, breaker: Breaker): true {
    if (textOf(breaker) === null) this.#known.delete(name)
    else this.#known.set(name, breaker)
    return true
  }
}

function keyOf(name: string): string {
  return `dependency:${name}`
}

/** null: as if nothing were known. */
function textOf(breaker: Breaker): string | null {
  const isUnknown = breaker.state === 'closed' && breaker.failures === 0 && breaker.ramp === null
  return isUnknown ? null : JSON.stringify(breaker)
}

function breakerIn(text: string | null): Breaker {
  if (text === null) return closedBreaker
  try {
    return JSON.parse(text) as Breaker
  } catch {
    // Somebody else's text is as good as none.
    return closedBreaker
  }
}
