import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { typeMatcher } from '../../core/routing.ts'
import type { Cell } from './rows.ts'

/** Statements put together from conditions, each prepared once. Rows are arrays of cells. */
export class Statements {
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
    db.function('type_matches', { deterministic: true }, typeMatches())
  }

  rows(sql: string, values: readonly Cell[]): Cell[][] {
    return this.#statement(sql).all(...values) as unknown as Cell[][]
  }

  row(sql: string, values: readonly Cell[]): Cell[] | undefined {
    return this.#statement(sql).get(...values) as unknown as Cell[] | undefined
  }

  /** Row by row: who stops early has read no more. The same text cannot be walked twice at once. */
  walk(sql: string, values: readonly Cell[]): IterableIterator<Cell[]> {
    return this.#statement(sql).iterate(...values) as unknown as IterableIterator<Cell[]>
  }

  #statement(sql: string): StatementSync {
    let statement = this.#prepared.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      statement.setReturnArrays(true)
      this.#prepared.set(sql, statement)
    }
    return statement
  }
}

/** The rule of core for patterns of types, as SQL calls it: with the same pattern for many rows. */
function typeMatches(): (pattern: unknown, type: unknown) => number {
  let known: string | null = null
  let matches: (type: string) => boolean = () => false
  return (pattern, type) => {
    if (pattern !== known) {
      known = String(pattern)
      matches = typeMatcher([known])
    }
    return matches(String(type)) ? 1 : 0
  }
}
