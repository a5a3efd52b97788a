import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import { retryAfterMsMax } from '../core/failure-classifier.ts'
import { linkLost, noAck } from '../core/relay.ts'
import { longestDelay } from '../core/retry-policy.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { OtherHubs } from './other-hubs.ts'

/** At a start: due times that a clock which ran ahead has left. */
export async function pullBackAll(store: Store, endpoints: readonly Endpoint[], now: number): Promise<void> {
  const latestDueAt = (endpoint: Endpoint) => now + Math.max(longestDelay(endpoint.retry), retryAfterMsMax)
  const tooFar = (endpoint: Endpoint) => ({ latestDueAt: latestDueAt(endpoint), untriedDueAt: now })
  await Promise.all(endpoints.map((endpoint) => store.pullBack({ endpointId: endpoint.id, ...tooFar(endpoint) })))
}

export type LostLinkParts = Readonly<{
  store: Store
  /** Where a hub may be that is not here. */
  otherHubs: OtherHubs
  clock: Clock
  log: Logger
  stopping: AbortSignal
  goOn: (work: EndpointWork) => void
}>

/** What is at the beginning of the last error of those whose wait ends with a new link. */
const codes = [linkLost, noAck]

/** A link that was lost costs a try, but no wait: when there is a link again, what failed by it is due at once. */
export class LostLinks {
  readonly #parts: LostLinkParts
  /** Endpoints whose waits are being ended, and whether that has to be done once more. */
  readonly #underway = new Map<EndpointWork, boolean>()
  /** Endpoints at which a link was lost here, whose hub is nowhere yet. */
  readonly #missing = new Set<EndpointWork>()

  constructor(parts: LostLinkParts) {
    this.#parts = parts
    parts.otherHubs.onOtherHub(() => {
      for (const work of this.#missing) if (parts.otherHubs.serves(work.endpoint)) this.#begin(work)
    })
  }

  /** Ends the waits that a lost link has left, if there is a link here. */
  endWaits(work: EndpointWork): void {
    if (work.isServed) this.#begin(work)
  }

  /**
   * It is on disk that a try has failed: the next link, here or at another member, may have been there before that. Who
   * gave no answer is still there, unless its link is lost too.
   */
  endWaitsAfter(work: EndpointWork, lastError: string | null): void {
    const code = codes.find((code) => lastError?.startsWith(code))
    if (code === undefined || (code === noAck && work.isServed)) return
    if (work.isServed || this.#parts.otherHubs.serves(work.endpoint)) this.#begin(work)
    else if (!work.isRemoved) this.#missing.add(work)
  }

  /** Its endpoint was deleted. */
  forget(work: EndpointWork): void {
    this.#missing.delete(work)
  }

  #begin(work: EndpointWork): void {
    if (!kindFacts[work.endpoint.kind].retriesOnReturn || this.#parts.stopping.aborted) return
    this.#missing.delete(work)
    const isUnderway = this.#underway.has(work)
    this.#underway.set(work, isUnderway)
    if (!isUnderway) void this.#endWaits(work)
  }

  async #endWaits(work: EndpointWork): Promise<void> {
    const { store, clock, log, goOn } = this.#parts
    const { id: endpointId } = work.endpoint
    do {
      this.#underway.set(work, false)
      const now = clock.steady()
      try {
        const dueNow = { endpointId, latestDueAt: now, untriedDueAt: now }
        const counts = await Promise.all(codes.map((lastError) => store.pullBack({ ...dueNow, lastError })))
        if (counts.every((count) => count === 0)) continue
        work.noteDue(now)
        if (work.isOthers) store.hint('due', [endpointId])
      } catch (err) {
        // They come when their wait is over.
        log.warn({ err, endpointId }, 'waits.not_ended')
      }
    } while (this.#underway.get(work) === true)
    this.#underway.delete(work)
    goOn(work)
  }
}
