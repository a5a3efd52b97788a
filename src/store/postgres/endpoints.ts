import type { Condition } from '../../core/condition.ts'
import { int8s, texts } from './arrays.ts'
import { type Queryable, rowsOf } from './driver.ts'
import type { Write } from './write-stream.ts'

export type EndpointKey = Readonly<{ no: number; removed: boolean }>

/** The short numbers that deliveries of an endpoint are kept under, also of removed ones. Other members may add to them. */
export class EndpointTable {
  readonly #on: Queryable
  readonly #schema: string
  readonly #keys = new Map<string, EndpointKey>()
  readonly #ids = new Map<number, string>()
  #reading: Promise<void> | null = null

  constructor(on: Queryable, schema: string) {
    this.#on = on
    this.#schema = schema
  }

  /** Reads them anew; who asks while that is under way waits for the next. */
  async reload(on: Queryable = this.#on): Promise<void> {
    const rows = await rowsOf(on, `SELECT no, id, removed FROM ${this.#schema}.endpoints`, [])
    for (const [no, id, removed] of rows) this.#remember(id as string, no as number, removed as boolean)
  }

  /** Null: no endpoint with this id was ever kept, as far as is known here. */
  known(id: string): EndpointKey | null {
    return this.#keys.get(id) ?? null
  }

  /** Of one that was known before: see `ensure`. */
  find(id: string): EndpointKey {
    const key = this.#keys.get(id)
    if (key === undefined) throw new Error(`no endpoint ${id} was ever kept`)
    return key
  }

  knownId(no: number): string | null {
    return this.#ids.get(no) ?? null
  }

  idOf(no: number): string {
    const id = this.#ids.get(no)
    if (id === undefined) throw new Error(`no endpoint has the number ${no}`)
    return id
  }

  /** Knows these from now on, if they were ever kept. Nothing to wait for: undefined. */
  ensure(ids: Iterable<string>): Promise<void> | undefined {
    for (const id of ids) {
      if (this.#keys.has(id)) continue
      this.#reading ??= this.reload().finally(() => {
        this.#reading = null
      })
      return this.#reading
    }
    return undefined
  }

  ensureNumbers(numbers: Iterable<number>): Promise<void> | undefined {
    for (const no of numbers) if (!this.#ids.has(no)) return this.reload()
    return undefined
  }

  noteRemoved(id: string): void {
    const key = this.#keys.get(id)
    if (key !== undefined) this.#remember(id, key.no, true)
  }

  async listConditions(): Promise<Condition[]> {
    const rows = await rowsOf(
      this.#on,
      `SELECT id, breaker, held_until, failing_since, last_error, last_error_at FROM ${this.#schema}.endpoints
       WHERE breaker IS NOT NULL AND NOT removed`,
      [],
    )
    return rows.map(([id, breaker, heldUntil, failingSince, lastError, lastErrorAt]) => ({
      endpointId: id as string,
      breaker: JSON.parse(breaker as string),
      heldUntil: heldUntil as number | null,
      failingSince: failingSince as number | null,
      lastError: lastError as string | null,
      lastErrorAt: lastErrorAt as number | null,
    }))
  }

  #remember(id: string, no: number, removed: boolean): void {
    this.#keys.set(id, { no, removed })
    this.#ids.set(no, id)
  }
}

export const putConditions: Write<readonly Condition[], null> = {
  name: 'put_conditions_v1',
  fits: () => 1,
  values: ([conditions = []]) => [
    texts(conditions.map(({ endpointId }) => endpointId)),
    texts(conditions.map(({ breaker }) => JSON.stringify(breaker))),
    int8s(conditions.map(({ heldUntil }) => heldUntil)),
    int8s(conditions.map(({ failingSince }) => failingSince)),
    texts(conditions.map(({ lastError }) => lastError)),
    int8s(conditions.map(({ lastErrorAt }) => lastErrorAt)),
  ],
  results: () => [null],
}
