import { int8s, texts } from '../store/postgres/arrays.ts'
import { endPool, openPool, rowsOf } from '../store/postgres/driver.ts'
import { type PostgresPlace, quoted } from '../store/postgres/schema.ts'
import { within } from './deadline.ts'
import { callMsMax, type SharedState, type Swap, type SwapAnswer } from './shared-state.ts'

type Pool = Awaited<ReturnType<typeof openPool>>

const connectionsMax = 2
const pruneEveryMs = 600_000
const prunedAtOnce = 1_000

/** In the database where the events are, on connections of its own: it never waits behind them. */
export class PostgresState implements SharedState {
  readonly name = 'Postgres'
  readonly #pool: Pool
  readonly #schema: string
  readonly #pruning: NodeJS.Timeout
  #isPruning = false

  static async open({ url, schema }: PostgresPlace): Promise<PostgresState> {
    const settings = { connectionString: url, applicationName: `posthorn ${schema}`, callMsMax }
    return new PostgresState(await openPool(settings, connectionsMax), quoted(schema))
  }

  private constructor(pool: Pool, schema: string) {
    this.#pool = pool
    this.#schema = schema
    this.#pruning = setInterval(() => void this.#prune(), pruneEveryMs).unref()
  }

  async read(keys: readonly string[]): Promise<readonly (string | null)[]> {
    if (keys.length === 0) return []
    const [row] = await this.#call(`SELECT ${this.#schema}.read_state_v1($1)`, [texts(keys)])
    return row?.[0] as unknown as readonly (string | null)[]
  }

  async swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[]> {
    if (swaps.length === 0) return []
    const [row] = await this.#call(`SELECT ${this.#schema}.swap_state_v1($1, $2, $3, $4)`, [
      texts(swaps.map(({ key }) => key)),
      texts(swaps.map(({ from }) => from)),
      texts(swaps.map(({ to }) => to)),
      int8s(swaps.map(({ ttlMs }) => Math.ceil(ttlMs))),
    ])
    const answers = row?.[0] as unknown as readonly (string | null)[]
    return answers.map(shownAs)
  }

  async close(): Promise<void> {
    clearInterval(this.#pruning)
    await endPool(this.#pool)
  }

  #call(text: string, values: readonly unknown[]) {
    return within(callMsMax, this.name, rowsOf(this.#pool, text, values))
  }

  /** What has ended is not read any more. Of several members, one at a time finds something here. */
  async #prune(): Promise<void> {
    if (this.#isPruning) return
    this.#isPruning = true
    let pruned: number
    do {
      const sql = `SELECT ${this.#schema}.prune_state_v1($1)`
      pruned = await rowsOf(this.#pool, sql, [prunedAtOnce]).then(
        ([row]) => Number(row?.[0] ?? 0),
        () => 0,
      )
    } while (pruned === prunedAtOnce)
    this.#isPruning = false
  }
}

/** null: swapped; `=` and a text: that is there; `-`: nothing is. */
function shownAs(answer: string | null): SwapAnswer {
  if (answer === null) return { swapped: true }
  return { swapped: false, found: answer === '-' ? null : answer.slice(1) }
}
