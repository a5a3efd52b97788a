import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Endpoint } from '../../core/endpoint.ts'
import type { SecretBox } from '../secret-box.ts'
import type { Condition } from '../store.ts'

export type EndpointKey = Readonly<{ no: number; removed: boolean }>

/** The endpoint catalogue; also knows the short numbers that deliveries are kept under. */
export class EndpointTable {
  readonly #box: SecretBox
  readonly #all: StatementSync
  readonly #keys = new Map<string, EndpointKey>()
  readonly #ids = new Map<number, string>()
  readonly #put: StatementSync
  readonly #remove: StatementSync
  readonly #list: StatementSync
  readonly #putCondition: StatementSync
  readonly #listConditions: StatementSync

  constructor(db: DatabaseSync, box: SecretBox) {
    this.#box = box
    this.#put = db.prepare(`
      INSERT INTO endpoints (id, tenant, settings, secrets) VALUES (?, ?, ?, ?)
      ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, settings = excluded.settings, secrets = excluded.secrets
      RETURNING no`)
    // What was secret goes with the endpoint; the row stays for the deliveries that name it.
    this.#remove = db.prepare(`UPDATE endpoints SET removed = 1, secrets = x'' WHERE id = ?`)
    this.#list = db.prepare('SELECT id, settings, secrets FROM endpoints WHERE removed = 0 ORDER BY no')
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

  put(endpoint: Endpoint): void {
    // Headers are sealed too: many a receiver is let in by one.
    const { secrets, headers, ...settings } = endpoint
    const sealed = this.#box.seal(JSON.stringify({ secrets, headers }), endpoint.id)
    const row = this.#put.get(endpoint.id, endpoint.tenant, JSON.stringify(settings), sealed)
    this.#remember(endpoint.id, row?.no as number, false)
  }

  remove(id: string): void {
    this.#remove.run(id)
    const key = this.#keys.get(id)
    if (key !== undefined) this.#remember(id, key.no, true)
  }

  list(): Endpoint[] {
    return this.#list.all().map((row) => {
      const sealed = this.#box.open(row.secrets as Uint8Array, row.id as string)
      return { ...JSON.parse(row.settings as string), ...JSON.parse(sealed) }
    })
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
