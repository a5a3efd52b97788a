import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Condition } from '../../core/condition.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import { PosthornError } from '../../core/errors.ts'

export type EndpointKey = Readonly<{ no: number; removed: boolean }>

/** The short numbers that deliveries of an endpoint are kept under, also of removed ones, and the conditions. */
export class EndpointTable {
  readonly #all: StatementSync
  readonly #keys = new Map<string, EndpointKey>()
  readonly #ids = new Map<number, string>()
  readonly #put: StatementSync
  readonly #remove: StatementSync
  readonly #putCondition: StatementSync
  readonly #listConditions: StatementSync

  constructor(db: DatabaseSync) {
    this.#put = db.prepare(`
      INSERT INTO endpoints (id, tenant) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant
      RETURNING no`)
    // The row stays for the deliveries that name it.
    this.#remove = db.prepare('UPDATE endpoints SET removed = 1 WHERE id = ?')
    this.#putCondition = db.prepare(`
      UPDATE endpoints SET breaker = ?, held_until = ?, failing_since = ?, last_error = ?, last_error_at = ?
      WHERE id = ?`)
    this.#listConditions = db.prepare(`
      SELECT id, breaker, held_until, failing_since, last_error, last_error_at FROM endpoints
      WHERE breaker IS NOT NULL AND removed = 0`)
    this.#all = db.prepare('SELECT no, id, removed FROM endpoints')
    this.reload()
  }

  /** What is kept in memory must not say more than the table, so a transaction taken back is forgotten here too. */
  reload(): void {
    this.#keys.clear()
    this.#ids.clear()
    for (const row of this.#all.all()) this.#remember(row.id as string, row.no as number, row.removed === 1)
  }

  find(id: string): EndpointKey {
    const key = this.#keys.get(id)
    if (key === undefined) throw new Error(`no endpoint ${id} was ever kept`)
    return key
  }

  idOf(no: number): string {
    const id = this.#ids.get(no)
    if (id === undefined) throw new Error(`no endpoint has the number ${no}`)
    return id
  }

  put({ id, tenant }: Endpoint): void {
    if (this.#keys.get(id)?.removed) {
      throw new PosthornError('conflict', `The endpoint ${id} was removed, and its id cannot be used again.`)
    }
    const row = this.#put.get(id, tenant)
    this.#remember(id, row?.no as number, false)
  }

  remove(id: string): void {
    this.#remove.run(id)
    this.#remember(id, this.find(id).no, true)
  }

  putConditions(conditions: readonly Condition[]): void {
    for (const { endpointId, breaker, heldUntil, failingSince, lastError, lastErrorAt } of conditions) {
      this.#putCondition.run(JSON.stringify(breaker), heldUntil, failingSince, lastError, lastErrorAt, endpointId)
    }
  }

  listConditions(): Condition[] {
    return this.#listConditions.all().map((row) => ({
      endpointId: row.id as string,
      breaker: JSON.parse(row.breaker as string),
      heldUntil: row.held_until as number | null,
      failingSince: row.failing_since as number | null,
      lastError: row.last_error as string | null,
      lastErrorAt: row.last_error_at as number | null,
    }))
  }

  #remember(id: string, no: number, removed: boolean): void {
    this.#keys.set(id, { no, removed })
    this.#ids.set(no, id)
  }
}
