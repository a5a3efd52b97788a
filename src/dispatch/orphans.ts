import type { Clock } from '../core/clock.ts'
import { ended } from '../core/lifecycle.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Claim, Store } from '../store/store.ts'
import { reportUntried } from './report.ts'
import type { Settler } from './settler.ts'

export type OrphansParts = Readonly<{
  store: Store
  clock: Clock
  log: Logger
  notices: Notices
  settler: Settler
  stopping: AbortSignal
}>

const endChunk = 1_000

/** Ends the deliveries of endpoints that are gone. */
export class Orphans {
  readonly #parts: OrphansParts

  constructor(parts: OrphansParts) {
    this.#parts = parts
  }

  /** The endpoint went while the event was written. */
  endClaimed({ delivery, event }: Claim): void {
    const to = ended(delivery, 'endpoint_deleted', this.#parts.clock.steady())
    this.#parts.settler.settle({ to, attempt: null, claimNext: null }, (result) => {
      if (result.kind === 'applied') reportUntried(this.#parts, to, event)
    })
  }

  /** Ends what waits in the store, in chunks, so that others' commits are not held up. */
  endPending(endpointId: string): void {
    const { store, clock, log, stopping } = this.#parts
    const end = async (): Promise<void> => {
      const request = { endpointId, reason: 'endpoint_deleted' as const, now: clock.steady(), limit: endChunk }
      let ended = 0
      for (let chunk = -1; chunk !== 0 && !stopping.aborted; ended += chunk) chunk = await store.endPending(request)
      if (ended > 0) log.warn({ endpointId, deliveries: ended, reason: request.reason }, 'deliveries.ended')
    }
    // What is left is found again by the next look at the backlog.
    end().catch((err) => log.warn({ err, endpointId }, 'deliveries.not_ended'))
  }
}
