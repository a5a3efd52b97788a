import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import { retryAfterMsMax } from '../core/failure-classifier.ts'
import { linkLost, noAck } from '../core/relay.ts'
import { longestDelay } from '../core/retry-policy.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'

/** At a start: due times that a clock which ran ahead has left. */
export async function pullBackAll(store: Store, endpoints: readonly Endpoint[], now: number): Promise<void> {
  const latestDueAt = (endpoint: Endpoint) => now + Math.max(longestDelay(endpoint.retry), retryAfterMsMax)
  const tooFar = (endpoint: Endpoint) => ({ latestDueAt: latestDueAt(endpoint), untriedDueAt: now })
  await Promise.all(endpoints.map((endpoint) => store.pullBack({ endpointId: endpoint.id, ...tooFar(endpoint) })))
}

export type LostLinkParts = Readonly<{
  store: Store
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

  constructor(parts: LostLinkParts) {
    this.#parts = parts
  }

  /** Ends the waits that a lost link has left, if there is a link. */
  mend(work: EndpointWork): void {
    if (!kindFacts[work.endpoint.kind].retriesOnReturn || !work.isServed || this.#parts.stopping.aborted) return
    const isUnderway = this.#underway.has(work)
    this.#underway.set(work, isUnderway)
    if (!isUnderway) void this.#mend(work)
  }

  /** It is on disk that a try has failed: the next link may have been there before that. Who gave no answer is still there. */
  noteFailure(work: EndpointWork, lastError: string | null): void {
    if (lastError?.startsWith(linkLost) === true) this.mend(work)
  }

  async #mend(work: EndpointWork): Promise<void> {
    const { store, clock, log, goOn } = this.#parts
    const { id: endpointId } = work.endpoint
    do {
      this.#underway.set(work, false)
      const now = clock.steady()
      try {
        const dueNow = { endpointId, latestDueAt: now, untriedDueAt: now }
        const counts = await Promise.all(codes.map((lastError) => store.pullBack({ ...dueNow, lastError })))
        if (counts.some((count) => count > 0)) work.noteDue(now)
      } catch (err) {
        // They come when their wait is over.
        log.warn({ err, endpointId }, 'waits.not_ended')
      }
    } while (this.#underway.get(work) === true)
    this.#underway.delete(work)
    goOn(work)
  }
}
