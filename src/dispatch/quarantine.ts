import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Claim } from '../store/pipeline-store.ts'
import type { EndpointWork } from './endpoint-work.ts'

/** One crash is far more often a kill than an event that ends the process: from this many in a row on one is suspect. */
export const suspectFrom = 2
/** A delivery in flight at this many crashes is taken for their cause. */
const crashesMax = 3

/** What is to become of a claim: run among others, run with no other handler beside it, later, or not at all. */
export type Judgement = 'run' | 'run_alone' | 'later' | 'crashed'

export type Suspect = Readonly<{ work: EndpointWork; deliveryId: string }>

/**
 * Handlers run in our own process and can end it. Whatever was in memory at two crashes in a row is suspect, and runs
 * alone next time: no other handler runs beside it and nothing more is claimed for one, so that a third crash is counted
 * against it and against no other suspect. Other kinds of endpoints go on as ever.
 */
export class Quarantine {
  readonly #goOnWith: (work: EndpointWork) => void
  readonly #fetch: (suspect: Suspect) => Promise<void>
  /** Handlers that run, or whose outcomes wait for the disk. */
  #running = 0
  /** The delivery of the suspect in hand. */
  #alone: string | null = null
  /** Suspects that were handed back until nothing else runs, in their order. */
  readonly #later: Suspect[] = []
  #fetching = false
  /** Endpoints that go on when it is over. */
  readonly #waiting = new Set<EndpointWork>()

  /** `fetch` claims a suspect by its name and hands it over; `goOn` lets an endpoint go on. */
  constructor(goOn: (work: EndpointWork) => void, fetch: (suspect: Suspect) => Promise<void>) {
    this.#goOnWith = goOn
    this.#fetch = fetch
  }

  judge(work: EndpointWork, claim: Claim): Judgement {
    if (!kindFacts[work.endpoint.kind].runsHere || claim.interruptions < suspectFrom) return 'run'
    if (claim.interruptions >= crashesMax) return 'crashed'
    if (this.#alone !== null || this.#running > 0) {
      this.#later.push({ work, deliveryId: claim.delivery.id })
      return 'later'
    }
    this.#alone = claim.delivery.id
    return 'run_alone'
  }

  /** Whether this endpoint's next try must not start now. */
  bars(work: EndpointWork): boolean {
    if (!kindFacts[work.endpoint.kind].runsHere || !this.#active) return false
    return this.#alone === null || work.next?.delivery.id !== this.#alone
  }

  /** Whether nothing more may be brought into memory for this endpoint. */
  keepsOut(work: EndpointWork): boolean {
    return kindFacts[work.endpoint.kind].runsHere && this.#active
  }

  /** It goes on when nothing keeps it out any more. */
  goOnAfter(work: EndpointWork): void {
    this.#waiting.add(work)
  }

  starting(work: EndpointWork): void {
    if (kindFacts[work.endpoint.kind].runsHere) this.#running += 1
  }

  /** Its outcome is on disk. */
  settled(work: EndpointWork, claim: Claim): void {
    if (!kindFacts[work.endpoint.kind].runsHere) return
    this.#running -= 1
    this.untried(claim)
  }

  /** It was handed back or ended without an attempt. */
  untried(claim: Claim): void {
    if (this.#alone === claim.delivery.id) this.#alone = null
    else if (this.#later.length === 0) return
    this.#fetchNext()
  }

  get #active(): boolean {
    return this.#alone !== null || this.#later.length > 0 || this.#fetching
  }

  #fetchNext(): void {
    if (this.#alone !== null || this.#running > 0 || this.#fetching) return
    const next = this.#later.shift()
    if (next === undefined) {
      const waiting = [...this.#waiting]
      this.#waiting.clear()
      for (const work of waiting) this.#goOnWith(work)
      return
    }
    this.#fetching = true
    this.#fetch(next).finally(() => {
      this.#fetching = false
      this.#fetchNext()
    })
  }
}
