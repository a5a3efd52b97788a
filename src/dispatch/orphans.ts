import type { Clock } from '../core/clock.ts'
import { ended } from '../core/lifecycle.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import { Pace } from '../store/pace.ts'
import type { Claim } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
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

const chunkMin = 100
const chunkMax = 1_000

/** Ends the deliveries of endpoints that are gone. */
export class Orphans {
  readonly #parts: OrphansParts
  /** Endpoints whose deliveries are being ended; true: asked for again meanwhile. */
  readonly #underway = new Map<string, boolean>()

  constructor(parts: OrphansParts) {
    this.#parts = parts
  }

  /** The endpoint went while the event was written. */
  endClaimed({ delivery, event }: Claim): void {
    const to = ended(delivery, 'endpoint_deleted', this.#parts.clock.steady())
    this.#parts.settler.settle([{ to, attempt: null, claimNext: null }]).then(([result]) => {
      if (result?.kind === 'applied') reportUntried(this.#parts, to, event)
    })
  }

  /** Ends what waits in the store, in pieces, so that others' commits are not held up. */
  endPending(endpointId: string): void {
    const isUnderway = this.#underway.has(endpointId)
    this.#underway.set(endpointId, isUnderway)
    if (isUnderway) return
    const { log } = this.#parts
    this.#end(endpointId)
      // What is left is found again by the next look at the backlog.
      .catch((err) => log.warn({ err, endpointId }, 'deliveries.not_ended'))
      .finally(() => {
        const isAskedAgain = this.#underway.get(endpointId)
        this.#underway.delete(endpointId)
        if (isAskedAgain) this.endPending(endpointId)
      })
  }

  async #end(endpointId: string): Promise<void> {
    const { store, clock, log, notices, stopping } = this.#parts
    const reason = 'endpoint_deleted' as const
    let ended = 0
    const now = () => clock.steady()
    await new Pace({ limitMin: chunkMin, limitMax: chunkMax, hurriesAt: 0, stopping, now }).work(async (limit) => {
      const deliveries = await store.endPending({ endpointId, reason, now: clock.steady(), limit })
      for (const delivery of deliveries) {
        notices.publish({ kind: 'delivery.ended', endpointId, status: 'failed', reason, ...delivery })
      }
      ended += deliveries.length
      return deliveries.length < limit ? 'done' : 'wrote'
    })
    if (ended > 0) log.warn({ endpointId, deliveries: ended, reason }, 'deliveries.ended')
  }
}
