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
  /** Something has ended: perhaps nothing is under way any more. */
  onEnded: () => void
}>

const chunkMin = 100
const chunkMax = 1_000

/** Ends the deliveries of endpoints that are gone. */
export class Orphans {
  readonly #parts: OrphansParts
  /** Endpoints whose deliveries are being ended; true: asked for again meanwhile. */
  readonly #underway = new Map<string, boolean>()
  /** Single deliveries whose end waits for the disk. */
  #writing = 0

  constructor(parts: OrphansParts) {
    this.#parts = parts
  }

  get isIdle(): boolean {
    return this.#writing === 0 && this.#underway.size === 0
  }

  /** The endpoint went while the event was written. */
  endClaimed(claim: Claim): void {
    const { log, onEnded } = this.#parts
    this.#writing += 1
    this.#endOne(claim)
      .catch((err) => log.error({ err, deliveryId: claim.delivery.id }, 'delivery.defect'))
      .finally(() => {
        this.#writing -= 1
        onEnded()
      })
  }

  async #endOne({ delivery, event }: Claim): Promise<void> {
    const { settler, clock } = this.#parts
    const to = ended(delivery, 'endpoint_deleted', clock.steady())
    const [result] = await settler.settle([{ to, attempt: null, claimNext: null }])
    if (result?.kind === 'applied') reportUntried(this.#parts, to, event)
  }

  /** Ends what waits in the store, in pieces, so that others' commits are not held up. */
  endPending(endpointId: string): void {
    const isUnderway = this.#underway.has(endpointId)
    this.#underway.set(endpointId, isUnderway)
    if (isUnderway) return
    const { log, stopping, onEnded } = this.#parts
    this.#end(endpointId)
      // What is left is found again when the backlog is read next.
      .catch((err) => log.warn({ err, endpointId }, 'deliveries.not_ended'))
      .finally(() => {
        const isAskedAgain = this.#underway.get(endpointId)
        this.#underway.delete(endpointId)
        if (isAskedAgain && !stopping.aborted) this.endPending(endpointId)
        else onEnded()
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
