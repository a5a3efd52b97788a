import { randomFillSync } from 'node:crypto'
import { formatId, type IdPrefix, numberAfter } from '../core/id.ts'

const bytesPerId = 12

/** Makes ids whose numbers only grow, in this process and, given the last number in the store, after a restart. */
export class IdSource {
  #last: number
  #random = new Uint8Array(bytesPerId * 512)
  #used = this.#random.length

  constructor(lastNumber: number) {
    this.#last = lastNumber
  }

  next(prefix: IdPrefix, now: number): string {
    this.#last = numberAfter(this.#last, now)
    return formatId(prefix, this.#last, this.#randomBytes())
  }

  #randomBytes(): Uint8Array {
    if (this.#used === this.#random.length) {
      randomFillSync(this.#random)
      this.#used = 0
    }
    this.#used += bytesPerId
    return this.#random.subarray(this.#used - bytesPerId, this.#used)
  }
}
