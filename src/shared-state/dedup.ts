import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { SharedState, Swap, SwapAnswer } from './shared-state.ts'

export type DedupParts = Readonly<{
  state: SharedState
  clock: Clock
  log: Logger
  /** Whose messages: those of a consumer. The same id elsewhere is another message. */
  scope: string
  /** How long the longest attempt at a message may take. A reservation whose process died ends after it. */
  leaseMs: number
  /** How long it is known that a message was processed. */
  windowMs?: number
}>

/**
 * Whose turn a message is.
 *
 *   mine       process it, and then confirm or release it
 *   elsewhere  a copy of it is being processed
 *   done       a copy of it was processed
 */
export type Reserved =
  | Readonly<{ kind: 'mine'; reservation: Reservation }>
  | Readonly<{ kind: 'elsewhere' }>
  | Readonly<{ kind: 'done' }>

export type Reservation = Readonly<{ key: string; token: string }>

/** `since`: by the wall clock. */
export type DedupProblem = Readonly<{ text: string; since: number }>

const windowMsDefault = 300_000
/** After a failure, calls go on without the state, and one of them looks again after so long. */
const lookEveryMs = 1_000
const confirmTriesMax = 5
const done = 'done'
const elsewhere: Reserved = { kind: 'elsewhere' }

/**
 * Recognises messages that were processed before. The key of a message is kept when its work has succeeded, so a crash
 * never makes anybody skip it; a reservation keeps copies apart while it is being processed.
 *
 * While the shared state does not answer, every message is mine: some are then processed twice, and none is lost.
 * Nothing here rejects.
 */
export class Dedup {
  readonly #parts: DedupParts
  /** With a number it is the token of a reservation, unlike any other. */
  readonly #name = randomBytes(9).toString('base64url')
  #reservations = 0
  #away: Readonly<{ since: number; awayAt: number; lookAt: number }> | null = null

  constructor(parts: DedupParts) {
    this.#parts = parts
  }

  /** Why copies are not recognised now, as of the last call; null: they are. */
  get problem(): DedupProblem | null {
    if (this.#away === null) return null
    const text = `${this.#parts.state.name} does not answer: messages that come twice are processed twice.`
    return { text, since: this.#away.since }
  }

  /** One answer for each id, in their order. */
  async reserve(ids: readonly string[]): Promise<readonly Reserved[]> {
    const keys = ids.map((id) => this.#keyOf(id))
    const wanted = [...new Set(keys)].map((key) => ({ key, token: this.#newToken() }))
    const { leaseMs } = this.#parts
    const swaps = wanted.map(({ key, token }) => ({ key, from: null, to: token, ttlMs: leaseMs }))
    const answers = await this.#swap(swaps)
    const first = new Map<string, Reserved>()
    for (const [at, reservation] of wanted.entries()) {
      const answer = answers?.[at]
      if (answer?.swapped === false) first.set(reservation.key, answer.found === done ? { kind: done } : elsewhere)
      else first.set(reservation.key, { kind: 'mine', reservation })
    }
    return keys.map((key) => {
      const reserved = first.get(key) ?? elsewhere
      // The same id once more in this call: the first of them has it.
      if (reserved.kind === 'mine') first.set(key, elsewhere)
      return reserved
    })
  }

  /** The work has succeeded. It counts also where the lease has ended and another has reserved it since. */
  async confirm(reservations: readonly Reservation[]): Promise<void> {
    const { windowMs = windowMsDefault } = this.#parts
    let from = new Map<string, string | null>(reservations.map(({ key, token }) => [key, token]))
    for (let tries = 0; from.size > 0 && tries < confirmTriesMax; tries += 1) {
      const swaps = [...from].map(([key, value]) => ({ key, from: value, to: done, ttlMs: windowMs }))
      const answers = await this.#swap(swaps)
      from = new Map()
      for (const [at, { key }] of swaps.entries()) {
        const answer = answers?.[at]
        if (answer?.swapped === false) from.set(key, answer.found)
      }
    }
  }

  /** The work has failed, or was not begun: a copy may be processed at once. */
  async release(reservations: readonly Reservation[]): Promise<void> {
    const { leaseMs: ttlMs } = this.#parts
    const byKey = new Map(reservations.map((reservation) => [reservation.key, reservation]))
    await this.#swap([...byKey.values()].map(({ key, token }) => ({ key, from: token, to: null, ttlMs })))
    // Two of one key, of which one has ended, in turn: a call takes a key once.
    const rest = reservations.filter((reservation) => byKey.get(reservation.key) !== reservation)
    if (rest.length > 0) await this.release(rest)
  }

  /** null: nobody has answered. */
  async #swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[] | null> {
    if (swaps.length === 0 || !this.#mayAsk()) return null
    try {
      const answers = await this.#parts.state.swap(swaps)
      this.#noteAnswered()
      return answers
    } catch (error) {
      this.#noteAway(error)
      return null
    }
  }

  /** Who looks again may have to wait for the answer; the others go on meanwhile. */
  #mayAsk(): boolean {
    if (this.#away === null) return true
    const now = this.#parts.clock.steady()
    if (now < this.#away.lookAt) return false
    this.#away = { ...this.#away, lookAt: now + lookEveryMs }
    return true
  }

  #noteAway(err: unknown): void {
    const { clock, log, state, scope } = this.#parts
    const now = clock.steady()
    const lookAt = now + lookEveryMs
    if (this.#away === null) log.warn({ err, scope, state: state.name }, 'dedup.away')
    this.#away = { ...(this.#away ?? { since: clock.wall(), awayAt: now }), lookAt }
  }

  #noteAnswered(): void {
    if (this.#away === null) return
    const { clock, log, state, scope } = this.#parts
    const awayMs = clock.steady() - this.#away.awayAt
    this.#away = null
    log.info({ scope, state: state.name, awayMs }, 'dedup.back')
  }

  #newToken(): string {
    this.#reservations += 1
    return `${this.#name}.${this.#reservations}`
  }

  /** Ids are what senders make of them: of any length, with any characters. */
  #keyOf(id: string): string {
    const text = JSON.stringify([this.#parts.scope, id])
    return `dedup:${createHash('sha256').update(text).digest('base64url')}`
  }
}
