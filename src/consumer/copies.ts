import type { KafkaRecord } from '../kafka/driver.ts'
import type { Dedup } from '../shared-state/dedup.ts'
import type { RecordWork } from './record-work.ts'

export type CopyRules = Readonly<{ dedup: Dedup; messageId: (record: KafkaRecord) => string }>

/** Keeps copies of a record apart: one that was processed is not processed again, one that failed is. */
export class Copies {
  readonly #rules: CopyRules | null

  /** null: copies are not recognised. */
  constructor(rules: CopyRules | null) {
    this.#rules = rules
  }

  /** Whose turn it is: `mine` may be processed, of the others a copy is being processed or was. */
  async reserve(work: RecordWork): Promise<'mine' | 'elsewhere' | 'done'> {
    if (this.#rules === null) return 'mine'
    const { dedup, messageId } = this.#rules
    const [reserved] = await dedup.reserve([messageId(work.record)])
    if (reserved === undefined) return 'mine'
    if (reserved.kind === 'mine') work.reservation = reserved.reservation
    return reserved.kind
  }

  /** It was processed. */
  async confirm(work: RecordWork): Promise<void> {
    const { reservation } = work
    work.reservation = null
    if (reservation !== null) await this.#rules?.dedup.confirm([reservation])
  }

  /** It was not, or not yet. */
  async release(work: RecordWork): Promise<void> {
    const { reservation } = work
    work.reservation = null
    if (reservation !== null) await this.#rules?.dedup.release([reservation])
  }
}
