import type { Clock } from '../core/clock.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Logger } from '../log.ts'
import type { Claim, ClaimAnswer } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import { type Memory, overheadBytes } from './memory.ts'
import { suspectFrom } from './quarantine.ts'

const claimMax = 256
const retryAfterMs = 500

export type ClaimerParts = Readonly<{
  store: Store
  clock: Clock
  log: Logger
  memory: Memory
  stopping: AbortSignal
  goOn: (work: EndpointWork) => void
}>

type Room = Readonly<{ limit: number; setAside: number; bytesMax: number }>

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
    if (work.isClaiming) return
    const { memory, log, goOn } = this.#parts
    const wanted = this.#roomFor(work, room)
    if (!memory.setAside(work, wanted.setAside)) {
      // Who holds nothing has a turn. Any other looks again when one of its own has ended.
      if (work.inHand === 0) memory.whenRoom(work, wanted.setAside, () => goOn(work))
      return
    }
    const before = work.nextDueAt
    work.beginClaim()
    this.#run(work, wanted, take).catch((err) => {
      log.warn({ err, endpointId: work.endpoint.id }, 'claim.failed')
      if (before !== null) work.noteDue(before)
      setTimeout(() => goOn(work), retryAfterMs).unref()
    })
  }

  /** Whether what is claimed by its name now need not wait for memory. */
  get hasRoom(): boolean {
    return this.#parts.memory.hasRoom(this.#parts.memory.claimBytes)
  }

  /**
   * Claims one delivery by its name, whether due or not, as soon as there is room for it; at once if it must not wait
   * for others, who wait for it.
   */
  async named(work: EndpointWork, deliveryId: string, { waits } = { waits: true }): Promise<readonly Claim[]> {
    let setAside = Math.max(this.#parts.memory.claimBytes, overheadBytes)
    for (;;) {
      if (waits) await this.#roomOf(setAside)
      else this.#parts.memory.overdraw(setAside)
      const { claims, tooLarge } = await this.#claimNamed(work, deliveryId, setAside)
      if (tooLarge === null) return claims
      setAside = tooLarge + overheadBytes
    }
  }

  async #claimNamed(work: EndpointWork, deliveryId: string, setAside: number): Promise<Omit<ClaimAnswer, 'nextDueAt'>> {
    const { store, clock, memory, stopping } = this.#parts
    this.#underway += 1
    try {
      if (stopping.aborted) return { claims: [], tooLarge: null }
      const now = clock.steady()
      const from = { deliveryIds: [deliveryId] }
      const bytesMax = setAside - overheadBytes
      const answer = await store.claim({ from, now, leaseEndsAt: now + leaseMs, limit: 1, bytesMax })
      this.#hold(work, answer.claims)
      return answer
    } finally {
      this.#underway -= 1
      memory.release(setAside)
    }
  }

  #roomOf(bytes: number): Promise<void> {
    const { memory } = this.#parts
    const waiter = { heldBytes: 0 }
    if (memory.setAside(waiter, bytes)) return Promise.resolve()
    return new Promise((resolve) => {
      memory.whenRoom(waiter, bytes, () => {
        memory.setAside(waiter, bytes)
        resolve()
      })
    })
  }

  #hold(work: EndpointWork, claims: readonly Claim[]): void {
    for (const { event } of claims) this.#parts.memory.force(work, event.body)
  }

  async #run(work: EndpointWork, room: Room, take: (claims: readonly Claim[]) => void): Promise<void> {
    const { store, clock, memory, goOn } = this.#parts
    const { limit, bytesMax, setAside } = room
    const now = clock.steady()
    const from = { endpointId: work.endpoint.id }
    this.#underway += 1
    try {
      const aloneFrom = kindFacts[work.endpoint.kind].runsHere ? suspectFrom : null
      const request = { from, now, leaseEndsAt: now + leaseMs, limit, bytesMax, aloneFrom }
      const answer = await store.claim(request)
      this.#hold(work, answer.claims)
      work.noteClaimed(answer)
      take(answer.claims)
    } finally {
      this.#underway -= 1
      memory.release(setAside)
      work.endClaim()
    }
    goOn(work)
  }

  /** What one claim may bring. A body that is known to be too large for that is claimed alone. */
  #roomFor({ nextBytes }: EndpointWork, room: number): Room {
    const { claimBytes } = this.#parts.memory
    if (nextBytes !== null) return { limit: 1, setAside: nextBytes + overheadBytes, bytesMax: nextBytes }
    const limit = Math.max(1, Math.min(claimMax, room, Math.floor(claimBytes / overheadBytes / 2)))
    return { limit, setAside: claimBytes, bytesMax: Math.max(0, claimBytes - limit * overheadBytes) }
  }
}
