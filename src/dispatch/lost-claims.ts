import type { Processing } from '../core/delivery.ts'
import { handedBack } from '../core/lifecycle.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { Settler } from './settler.ts'

export type LostClaimsParts = Readonly<{
  store: Store
  settler: Settler
  log: Logger
  now: () => number
  works: ReadonlyMap<string, EndpointWork>
  isMember: () => boolean
  goOn: (work: EndpointWork) => void
}>

/** Longer than a store takes to answer or to give up: what was on its way at one check is in memory, or lost, at the next. */
const checkEveryMs = 45_000

/**
 * A claim that was made, but whose answer got lost with its connection, is in hand by the rows and in nobody's memory.
 * What is so at two checks in a row goes back: without it the claim would last as long as its lease, and hold its lane up.
 */
export class LostClaims {
  readonly #parts: LostClaimsParts
  /** Versions by the id. */
  #suspects: ReadonlyMap<string, number> = new Map()
  #timer: NodeJS.Timeout | null = null

  constructor(parts: LostClaimsParts) {
    this.#parts = parts
  }

  start(): void {
    const check = () => this.#check().catch((err) => this.#parts.log.warn({ err }, 'claims.not_compared'))
    this.#timer = setInterval(check, checkEveryMs).unref()
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  async #check(): Promise<void> {
    const before = this.#suspects
    this.#suspects = new Map()
    // What is written, or in doubt, may still be answered with claims.
    if (!this.#isCalm) return
    const held = await this.#parts.store.listHeld()
    if (!this.#isCalm) return
    const unknown = held.filter((delivery) => this.#isUnknown(delivery))
    const lost = unknown.filter(({ id, version }) => before.get(id) === version)
    this.#suspects = new Map(unknown.map(({ id, version }) => [id, version]))
    if (lost.length > 0) await this.#handBack(lost)
  }

  get #isCalm(): boolean {
    const { store, settler, isMember } = this.#parts
    return isMember() && settler.writable && store.health().writable
  }

  /** `Orphans` ends those of a removed endpoint. */
  #isUnknown({ id, endpointId }: Processing): boolean {
    const work = this.#parts.works.get(endpointId)
    if (work === undefined || work.isClaiming) return false
    for (const { delivery } of work.claims()) if (delivery.id === id) return false
    return true
  }

  async #handBack(lost: readonly Processing[]): Promise<void> {
    const { settler, log, now, works, goOn } = this.#parts
    log.warn({ deliveries: lost.length }, 'claims.lost')
    await settler.settle(lost.map((delivery) => ({ to: handedBack(delivery, now()), attempt: null, claimNext: null })))
    for (const { endpointId } of lost) {
      const work = works.get(endpointId)
      if (work === undefined) continue
      work.noteDue(now())
      goOn(work)
    }
  }
}
