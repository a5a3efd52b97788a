import type { Clock } from '../core/clock.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Logger } from '../log.ts'
import type { Claim } from '../store/pipeline-store.ts'
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

  claim(work: EndpointWork, room: number, receive: (claims: readonly Claim[]) => void): void {
    if (work.isClaiming) return
    const { memory, log, goOn } = this.#parts
    const wanted = this.#roomFor(work, room)
    if (!memory.setAside(work, wanted.setAside)) {
      // Who holds nothing has a turn. Any other looks again when one of its own has ended.
      if (work.inHand === 0) memory.whenRoom(work, wanted.setAside, () => goOn(work))
      return
    }
    work.beginClaim()
    this.#run(work, wanted, receive).catch((err) => {
      log.warn({ err, endpointId: work.endpoint.id }, 'claim.failed')
      work.failClaim()
      setTimeout(() => goOn(work), retryAfterMs).unref()
    })
  }

  async #run(work: EndpointWork, room: Room, receive: (claims: readonly Claim[]) => void): Promise<void> {
    const { store, clock, memory, goOn } = this.#parts
    const { limit, bytesMax, setAside } = room
    const now = clock.steady()
    const from = { endpointId: work.endpoint.id }
    this.#underway += 1
    try {
      const aloneFrom = kindFacts[work.endpoint.kind].runsHere ? suspectFrom : null
      const request = { from, now, leaseEndsAt: now + leaseMs, limit, bytesMax, aloneFrom }
      const answer = await store.claim(request)
      for (const { event } of answer.claims) memory.force(work, event.body)
      work.noteClaimed(answer)
      receive(answer.claims)
    } finally {
      this.#underway -= 1
      memory.returnRoom(setAside)
    }
    work.endClaim()
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
