import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { LeaseRenewal } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'

/** Longer than any try may take, so that a try that begins right after a renewal never outlives its lease. */
export const leaseMs = 10 * 60_000
const renewEveryMs = leaseMs / 5
const renewalsMax = 5_000

/** Renews the leases of everything in hand, from one timer. */
export class LeaseKeeper {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Logger
  readonly #works: () => Iterable<EndpointWork>
  #timer: NodeJS.Timeout | null = null

  constructor(store: Store, clock: Clock, log: Logger, works: () => Iterable<EndpointWork>) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#works = works
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.renew().catch((err) => this.#log.warn({ err }, 'leases.not_renewed'))
    }, renewEveryMs)
    this.#timer.unref()
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  async renew(): Promise<void> {
    const leaseEndsAt = this.#clock.steady() + leaseMs
    const leases: LeaseRenewal[] = []
    const waiting: EndpointWork[] = []
    for (const work of this.#works()) {
      if (work.queued > 0) waiting.push(work)
      for (const { delivery } of work.claims()) {
        leases.push({ deliveryId: delivery.id, version: delivery.version, leaseEndsAt })
      }
    }
    const renewed = new Set(leases.map((lease) => lease.deliveryId))
    for (let i = 0; i < leases.length; i += renewalsMax) await this.#store.renew(leases.slice(i, i + renewalsMax))
    for (const work of waiting) work.renewLeases(renewed, leaseEndsAt)
  }
}
