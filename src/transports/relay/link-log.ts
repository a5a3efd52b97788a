import type { Clock } from '../../core/clock.ts'
import type { Relay } from '../../core/relay.ts'
import { Seldom } from '../../core/seldom.ts'
import type { Logger } from '../../log.ts'

const complaintEveryMs = 10_000
const changeEveryMs = 1_000

/**
 * What hubs make us log, one line per relay and fact in a while, on however many links: who has the key of a relay must
 * not be able to fill the log. `untold` is the number of lines that were left out.
 */
export class LinkLog {
  readonly #log: Logger
  readonly #clock: Clock
  readonly #complaints = new Seldom(complaintEveryMs)
  readonly #changes = new Seldom(changeEveryMs)

  constructor({ log, clock }: Readonly<{ log: Logger; clock: Clock }>) {
    this.#log = log
    this.#clock = clock
  }

  /** What the hub says, or does wrong. */
  complaint(relay: Relay, fact: string, facts: object): void {
    const untold = this.#complaints.pass(`${relay.id} ${fact}`, this.#clock.steady())
    if (untold !== null) this.#log.warn({ ...idsOf(relay), ...facts, untold }, fact)
  }

  /** The hub came or went. */
  change(relay: Relay, fact: string, facts: object): void {
    const untold = this.#changes.pass(`${relay.id} ${fact}`, this.#clock.steady())
    if (untold !== null) this.#log.info({ ...idsOf(relay), ...facts, untold }, fact)
  }
}

function idsOf({ id: relayId, name: relay, tenant }: Relay) {
  return { relayId, relay, tenant }
}
