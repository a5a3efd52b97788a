import type { Clock } from '../core/clock.ts'
import { ended, handedBack } from '../core/lifecycle.ts'
import type { Reason } from '../core/outcome.ts'
import type { Change, ChangeResult, Claim } from '../store/pipeline-store.ts'
import type { Ahead } from './ahead.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { Memory } from './memory.ts'
import type { Orphans } from './orphans.ts'
import type { Quarantine } from './quarantine.ts'
import { type ReportParts, reportUntried } from './report.ts'
import type { Settler } from './settler.ts'
import type { Slots } from './slots.ts'

export type UntriedParts = ReportParts &
  Readonly<{
    clock: Clock
    memory: Memory
    settler: Settler
    slots: Slots
    quarantine: Quarantine
    orphans: Orphans
    ahead: Ahead
    /** It has been written. */
    onSettled: (work: EndpointWork, to: Change['to'], result: ChangeResult) => void
  }>

/** What becomes of a claimed delivery without an attempt. */
export class Untried {
  readonly #parts: UntriedParts

  constructor(parts: UntriedParts) {
    this.#parts = parts
  }

  /** Back to the store: it is due, and its next claim may be anybody's. */
  handBack(work: EndpointWork, claim: Claim): void {
    this.#settle(work, claim, handedBack(claim.delivery, this.#parts.clock.steady()))
  }

  end(work: EndpointWork, claim: Claim, reason: Reason): void {
    this.#settle(work, claim, ended(claim.delivery, reason, this.#parts.clock.steady()))
  }

  /** Hands all that waits in memory back, and nothing stays ahead. `ready`: without what a person asked for. */
  handBackAll(work: EndpointWork, which: 'all' | 'ready' = 'all'): void {
    for (const claim of work.dequeueAll(which)) this.handBack(work, claim)
    this.#parts.ahead.recall(work)
  }

  /** The endpoint was deleted: ends what waits for it, in memory and in the store. */
  endAll(work: EndpointWork): void {
    const { ahead, orphans } = this.#parts
    for (const claim of work.dequeueAll('all')) this.end(work, claim, 'endpoint_deleted')
    ahead.recall(work)
    if (work.nextDueAt === null) return
    work.forgetDue()
    orphans.endPending(work.endpoint.id)
  }

  #settle(work: EndpointWork, claim: Claim, to: Change['to']): void {
    const { memory, slots, log } = this.#parts
    memory.free(work, claim.event.body)
    slots.occupy()
    this.#write(work, claim, to).catch((err) => log.error({ err, deliveryId: to.id }, 'delivery.defect'))
  }

  async #write(work: EndpointWork, claim: Claim, to: Change['to']): Promise<void> {
    const { settler, slots, quarantine, onSettled } = this.#parts
    const [result = { kind: 'stale' }] = await settler.settle([{ to, attempt: null, claimNext: null }])
    slots.free()
    quarantine.untried(claim)
    if (result.kind === 'applied') reportUntried(this.#parts, to, claim.event)
    onSettled(work, to, result)
  }
}
