import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { numberOf } from '../../core/id.ts'
import { type ArrivalRow, arrivalAt, deliveriesIn, type Repeat } from './messages.ts'
import type { Cell } from './rows.ts'

/** Where events were read. Each is known until its event is deleted; runs inside the batch's transaction. */
export class Origins {
  readonly #known: StatementSync
  readonly #insert: StatementSync

  constructor(db: DatabaseSync) {
    this.#known = db.prepare(`
      SELECT e.id, o.deliveries FROM origins o JOIN events e ON e.no = o.event_no WHERE o.scope = ? AND o.id = ?`)
    this.#known.setReturnArrays(true)
    // Of an event that is gone nothing is noted: nobody would delete it.
    this.#insert = db.prepare(`
      INSERT INTO origins (scope, id, event_no, deliveries) SELECT ?, ?, no, ? FROM events WHERE no = ?
      ON CONFLICT (scope, id) DO NOTHING`)
  }

  /** What the first event from there was answered, before this call or `earlier` in it; null: it is new, or has no origin. */
  repeatOf(row: ArrivalRow, earlier: Map<string, ArrivalRow>): Repeat | null {
    const id = row[arrivalAt.origin_id] as string | null
    if (id === null) return null
    const scope = row[arrivalAt.origin_scope] as string
    const known = this.#known.get(scope, id) as unknown as Repeat | undefined
    if (known !== undefined) return known
    const name = JSON.stringify(['origin', scope, id])
    const first = earlier.get(name)
    if (first !== undefined) return [first[arrivalAt.id] as string, deliveriesIn(first)]
    earlier.set(name, row)
    return null
  }

  /** `repeat`: the event that stands for this one. */
  keep(row: ArrivalRow, repeat: Repeat | null): void {
    if (row[arrivalAt.origin_id] === null) return
    const [eventId, deliveries] = repeat ?? [row[arrivalAt.id] as string, deliveriesIn(row)]
    const cells = [row[arrivalAt.origin_scope], row[arrivalAt.origin_id], deliveries, numberOf('evt', eventId)]
    this.#insert.run(...(cells as Cell[]))
  }
}
