import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { Claim, Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Memory } from './memory.ts'

const claimMax = 256
const retryAfterMs = 500

export type ClaimerParts = Readonly<{
  store: Store
  clock: Clock
  log: Logger
  memory: Memory
  /** Something may be possible at this endpoint now. */
  look: (work: EndpointWork) => void
}>

/** Brings due work from the store, one claim per endpoint at a time. */
export class Claimer {
  readonly #parts: ClaimerParts
  #underway = 0

  constructor(parts: ClaimerParts) {
    this.#parts = parts
  }

  /** Claims that have not been answered yet. */
  get underway(): number {
    return this.#underway
  }

  claim(work: EndpointWork, room: number, take: (claims: readonly Claim[]) => void): void {
    if (work.claiming) return
    const bytes = this.#parts.memory.setAside(work)
    // Without room only who holds nothing may go on, by one: with 0 bytes the store gives no more. Any other looks again
    // when one of its own has ended.
    if (bytes === null && work.inHand > 0) return
    work.claiming = true
    // What becomes due while the claim is under way is noted anew, and not lost under its answer.
    const before = work.nextDueAt
    work.nextDueAt = null
    this.#run(work, Math.min(claimMax, room), bytes ?? 0, take).catch((err) => {
      this.#parts.log.warn({ err, endpointId: work.endpoint.id }, 'claim.failed')
      if (before !== null) work.noteDue(before)
      setTimeout(() => this.#parts.look(work), retryAfterMs).unref()
    })
  }

  async named(work: EndpointWork, deliveryId: string): Promise<readonly Claim[]> {
    const { store, clock, memory } = this.#parts
    const now = clock.steady()
    const from = { deliveryIds: [deliveryId] }
    this.#underway += 1
    try {
      const { claims } = await store.claim({ from, now, leaseEndsAt: now + leaseMs, limit: 1, bytesMax: 1 })
      for (const claim of claims) memory.force(work, claim.event.body.length)
      work.mayWait ||= claims.length > 0
      return claims
    } finally {
      this.#underway -= 1
    }
  }

  async #run(
    work: EndpointWork,
    limit: number,
    bytes: number,
    take: (claims: readonly Claim[]) => void,
  ): Promise<void> {
    const { store, clock, memory, look } = this.#parts
    const now = clock.steady()
    const from = { endpointId: work.endpoint.id }
    this.#underway += 1
    try {
      // Half of what was set aside: the last body may be a large one.
      const request = {
        from,
        now,
        leaseEndsAt: now + leaseMs,
        limit,
        bytesMax: Math.floor(bytes / 2),
        suspectsAlone: work.endpoint.kind === 'handler',
      }
      const { claims, nextDueAt } = await store.claim(request)
      for (const claim of claims) memory.force(work, claim.event.body.length)
      work.mayWait ||= claims.length > 0
      if (nextDueAt !== null) work.noteDue(nextDueAt)
      take(claims)
    } finally {
      this.#underway -= 1
      memory.release(bytes)
      work.claiming = false
    }
    look(work)
  }
}
