import type { EndpointWork } from './endpoint-work.ts'

/** One endpoint gets this part of all slots at most. */
const shareMax = 0.5
/** This part is for those that have none. */
const spareShare = 0.1

/** The slots for attempts of all endpoints, given in turn, one each, so that none waits for another's queue. */
export class Slots {
  readonly #max: number
  /** Who wants a slot, in the order of their turns. */
  readonly #turns = new Set<EndpointWork>()
  #occupied = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Attempts under way, and whatever waits for the disk. */
  get occupied(): number {
    return this.#occupied
  }

  occupy(): void {
    this.#occupied += 1
  }

  free(): void {
    this.#occupied -= 1
  }

  join(work: EndpointWork): void {
    this.#turns.add(work)
  }

  isWaiting(work: EndpointWork): boolean {
    return this.#turns.has(work)
  }

  /** Lets endpoints start attempts as long as there are slots. `start` answers whether it wants another turn. */
  give(mayHave: (work: EndpointWork) => boolean, start: (work: EndpointWork) => boolean): void {
    for (const work of this.#turns) {
      if (this.#occupied >= this.#max) return
      if (!this.#hasShare(work) || !mayHave(work)) continue
      this.#turns.delete(work)
      // Whoever wants more goes to the end, behind those that have not had a turn.
      if (start(work)) this.#turns.add(work)
    }
  }

  /** However many attempts hang: one endpoint gets a share of the slots, and the last ones are for those that have none. */
  #hasShare({ underway }: EndpointWork): boolean {
    if (underway === 0) return true
    return underway < this.#max * shareMax && this.#occupied < this.#max * (1 - spareShare)
  }
}
