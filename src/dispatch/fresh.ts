import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { mayReserve } from '../core/next-action.ts'
import type { Claim } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Loop } from './loop.ts'
import type { Memory } from './memory.ts'
import type { Orphans } from './orphans.ts'
import type { Settler } from './settler.ts'

export type FreshParts = Readonly<{
  store: Store
  clock: Clock
  works: ReadonlyMap<string, EndpointWork>
  memory: Memory
  settler: Settler
  orphans: Orphans
  loop: Loop
  stopping: AbortSignal
  /** A reservation has ended. */
  onEnded: () => void
}>

/** Takes fresh events over from the intake in memory, so that they need not be read back from the store. */
export class Fresh {
  readonly #parts: FreshParts
  #expected = 0

  constructor(parts: FreshParts) {
    this.#parts = parts
  }

  /** Reservations whose events are being written. */
  get expected(): number {
    return this.#expected
  }

  /** When the lease ends if it is taken at once; null when it must wait in the store. */
  reserve(endpoint: Endpoint, body: Uint8Array): number | null {
    const { works, memory, settler, loop, clock, stopping } = this.#parts
    const work = works.get(endpoint.id)
    const now = clock.steady()
    if (work === undefined || stopping.aborted || !settler.writable) return null
    if (!mayReserve(work, work.allowance(now), now) || loop.keepsOut(work)) return null
    if (!memory.occupy(work, body)) return null
    work.reserve()
    this.#expected += 1
    return now + leaseMs
  }

  unreserve(endpoint: Endpoint, body: Uint8Array): void {
    const { works, loop, onEnded } = this.#parts
    this.#endReservation(endpoint.id, body)
    const work = works.get(endpoint.id)
    if (work !== undefined) loop.ahead.arrivedBehind(work)
    // Its claim may have stood back for the memory that was promised here.
    if (work?.nextDueAt != null) loop.goOn(work)
    onEnded()
  }

  receive(claims: readonly Claim[]): void {
    const { works, loop, orphans } = this.#parts
    for (const claim of claims) {
      const { endpointId } = claim.delivery
      const work = works.get(endpointId)
      if (work === undefined) {
        this.#endReservation(endpointId, claim.event.body)
        orphans.endClaimed(claim)
        continue
      }
      work.unreserve()
      this.#expected -= 1
      loop.receiveFresh(work, claim)
    }
    loop.giveSlots()
  }

  goOnWhenDue(endpoint: Endpoint, dueAt: number): void {
    const { works, loop, store } = this.#parts
    const work = works.get(endpoint.id)
    if (work === undefined) return
    const known = work.nextDueAt !== null && work.nextDueAt <= dueAt
    work.noteDue(dueAt)
    loop.ahead.arrivedBehind(work)
    if (!known) loop.goOn(work)
    // Another member may be able to take what this one cannot.
    if (work.isOthers || work.inHand >= work.window) store.hint('due', [endpoint.id])
  }

  #endReservation(endpointId: string, body: Uint8Array): void {
    const { works, memory } = this.#parts
    this.#expected -= 1
    const work = works.get(endpointId)
    work?.unreserve()
    memory.free(work ?? {}, body)
  }
}
