import type { Delivery, Processing } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'

type Head = { readonly since: number; isTold: boolean }

const headsMax = 10_000

/** Tells once of a delivery that has failed for so long at the head of its lane that the others wait in vain. */
export class StuckLanes {
  readonly #parts: Readonly<{ log: Logger; notices: Notices; laneStuckMs: number }>
  /** Heads that failed and are to be tried again, oldest failure first. Bounded: those that left otherwise stay behind. */
  readonly #heads = new Map<string, Head>()

  constructor(parts: Readonly<{ log: Logger; notices: Notices; laneStuckMs: number }>) {
    this.#parts = parts
  }

  /** A try in a lane has ended: tells if its delivery has held the lane for too long. */
  check({ id: endpointId, tenant }: Endpoint, tried: Processing, to: Delivery, now: number): void {
    const { id: deliveryId, lane } = tried
    if (lane === null) return
    if (to.status !== 'pending') {
      this.#heads.delete(deliveryId)
      return
    }
    const head = this.#headOf(tried, now)
    // Until its next try it holds the lane in any case: nobody shall have to wait for that to hear of it.
    const sinceMs = Math.max(now, to.dueAt ?? now) - head.since
    if (head.isTold || sinceMs < this.#parts.laneStuckMs) return
    head.isTold = true
    this.#parts.log.warn({ endpointId, deliveryId, lane, sinceMs }, 'lane.stuck')
    this.#parts.notices.publish({ kind: 'lane.stuck', tenant, endpointId, deliveryId, lane, sinceMs })
  }

  /** It has held the lane at least since its last failure; before our time nobody looked. */
  #headOf({ id, lastAttemptAt }: Processing, now: number): Head {
    const known = this.#heads.get(id)
    if (known !== undefined) return known
    const head = { since: Math.min(lastAttemptAt ?? now, now), isTold: false }
    if (this.#heads.size >= headsMax) {
      for (const oldest of this.#heads.keys()) {
        this.#heads.delete(oldest)
        break
      }
    }
    this.#heads.set(id, head)
    return head
  }
}
