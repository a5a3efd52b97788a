import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { Claim, LeaseRenewal, Store } from '../store/store.ts'
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
    const note = ({ delivery }: Claim): void => {
      leases.push({ deliveryId: delivery.id, version: delivery.version, leaseEndsAt })
    }
    const queues: Claim[][] = []
    for (const work of this.#works()) {
      if (work.queued > 0) queues.push(work.ready, work.urgent)
      work.ready.forEach(note)
      work.urgent.forEach(note)
      for (const { claim } of work.underway) note(claim)
    }
    const renewed = new Set(leases.map((lease) => lease.deliveryId))
    for (let i = 0; i < leases.length; i += renewalsMax) await this.#store.renew(leases.slice(i, i + renewalsMax))
    for (const queue of queues) {
      queue.forEach((claim, index) => {
        if (renewed.has(claim.delivery.id)) queue[index] = withLease(claim, leaseEndsAt)
      })
    }
  }
}

/** What came into the queue meanwhile has a lease of its own, which may end later. */
function withLease(claim: Claim, leaseEndsAt: number): Claim {
  const { delivery } = claim
  return { ...claim, delivery: { ...delivery, leaseEndsAt: Math.max(delivery.leaseEndsAt, leaseEndsAt) } }
}
