import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { Claim, ClaimAnswer } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork, Queue } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import { type Memory, overheadBytes } from './memory.ts'
import type { Suspect } from './quarantine.ts'

export type NamedClaimsParts = Readonly<{
  store: Store
  clock: Clock
  log: Logger
  memory: Memory
  stopping: AbortSignal
  receive: (work: EndpointWork, claim: Claim, queue: Queue) => void
  goOn: (work: EndpointWork) => void
}>

/** Claims single deliveries by their id, whether they are due or not. */
export class NamedClaims {
  readonly #parts: NamedClaimsParts
  #underway = 0

  constructor(parts: NamedClaimsParts) {
    this.#parts = parts
  }

  /** Claims that have not been answered yet. */
  get underway(): number {
    return this.#underway
  }

  /** A person's retry: brings the delivery now, whatever backoff, breaker and hold say. */
  async hurry(work: EndpointWork, deliveryId: string): Promise<void> {
    const { clock, memory, stopping } = this.#parts
    work.noteDue(clock.steady())
    if (!work.isServing || stopping.aborted) return
    // It is on disk as due: nobody who asked for it waits until there is memory for it.
    const hasRoom = memory.hasRoom(memory.claimBytes)
    const hurried = this.#bring(work, deliveryId, { queue: 'urgent', waits: true })
    if (hasRoom) await hurried
  }

  /** Brings a suspect back; one that is not to be had any more comes back by itself, or never. */
  async fetch({ work, deliveryId }: Suspect): Promise<void> {
    if (!work.isServing || this.#parts.stopping.aborted) return
    // All other handlers stand still for it, and hold what they have: it must not wait for their memory.
    await this.#bring(work, deliveryId, { queue: 'ready', waits: false })
  }

  async #bring(
    work: EndpointWork,
    deliveryId: string,
    { queue, waits }: Readonly<{ queue: Queue; waits: boolean }>,
  ): Promise<void> {
    const { log, receive, goOn } = this.#parts
    try {
      for (const claim of await this.#claim(work, deliveryId, waits)) receive(work, claim, queue)
    } catch (err) {
      // It is due, and on disk as such: the next claim brings it.
      log.warn({ err, deliveryId }, 'claim.failed')
    }
    goOn(work)
  }

  /** As soon as there is room for it; at once if it must not wait for others, who wait for it. */
  async #claim(work: EndpointWork, deliveryId: string, waits: boolean): Promise<readonly Claim[]> {
    const { memory } = this.#parts
    let setAside = Math.max(memory.claimBytes, overheadBytes)
    for (;;) {
      if (waits) await this.#roomOf(setAside)
      else memory.overdraw(setAside)
      const { claims, tooLarge } = await this.#claimWithin(work, deliveryId, setAside)
      if (tooLarge === null) return claims
      setAside = tooLarge + overheadBytes
    }
  }

  async #claimWithin(
    work: EndpointWork,
    deliveryId: string,
    setAside: number,
  ): Promise<Omit<ClaimAnswer, 'nextDueAt'>> {
    const { store, clock, memory, stopping } = this.#parts
    this.#underway += 1
    try {
      if (stopping.aborted) return { claims: [], tooLarge: null }
      const now = clock.steady()
      const from = { deliveryIds: [deliveryId] }
      const bytesMax = setAside - overheadBytes
      const answer = await store.claim({ from, now, leaseEndsAt: now + leaseMs, limit: 1, bytesMax })
      for (const { event } of answer.claims) memory.force(work, event.body)
      return answer
    } finally {
      this.#underway -= 1
      memory.returnRoom(setAside)
    }
  }

  #roomOf(bytes: number): Promise<void> {
    const { memory } = this.#parts
    const waiter = {}
    if (memory.setAside(waiter, bytes)) return Promise.resolve()
    return new Promise((resolve) => {
      memory.whenRoom(waiter, bytes, () => {
        memory.setAside(waiter, bytes)
        resolve()
      })
    })
  }
}
