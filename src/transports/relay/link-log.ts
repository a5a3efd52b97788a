import type { Clock } from '../../core/clock.ts'
import type { Relay } from '../../core/relay.ts'
import { type Logger, SeldomLog } from '../../log.ts'

const complaintEveryMs = 10_000
const changeEveryMs = 1_000

/**
 * What hubs make us log, one line per relay and fact in a while, on however many links: who has the key of a relay must
 * not be able to fill the log.
 */
export class LinkLog {
  readonly #complaints: SeldomLog
  readonly #changes: SeldomLog

  constructor({ log, clock }: Readonly<{ log: Logger; clock: Clock }>) {
    this.#complaints = new SeldomLog(log, complaintEveryMs, () => clock.steady())
    this.#changes = new SeldomLog(log, changeEveryMs, () => clock.steady())
  }

  /** What the hub says, or does wrong. */
  complaint(relay: Relay, fact: string, facts: object): void {
    this.#complaints.warn(`${relay.id} ${fact}`, { ...idsOf(relay), ...facts }, fact)
  }

  /** The hub came or went. */
  change(relay: Relay, fact: string, facts: object): void {
    this.#changes.info(`${relay.id} ${fact}`, { ...idsOf(relay), ...facts }, fact)
  }
}

function idsOf({ id: relayId, name: relay, tenant }: Relay) {
  return { relayId, relay, tenant }
}
