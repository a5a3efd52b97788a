import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import {
  cancellable,
  deadOnly,
  discardable,
  isRecovery,
  reachesTenant,
  type Selection,
  selectedDeliveries,
} from '../../core/selection.ts'
import type { DeadLetterGroup } from '../replay-store.ts'
import type { StoreStats } from '../upkeep-store.ts'
import { type Queryable, type Row, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { groupDead } from './grouping.ts'
import {
  afterAll,
  beforeAll,
  countMatching,
  firstMatching,
  type Matching,
  matching,
  type ReadParts,
  type Seen,
} from './matching.ts'
import { countRecovery, readEndpoint } from './recovery.ts'
import { idOf, rowKeyOf } from './row-keys.ts'

/** What a replay would touch: how many, and the last row key that is its own. */
export type Measured = Readonly<{ matched: number; lastKey: string }>

/** Reads that may look at everything there is. */
export class LongReads {
  readonly #parts: ReadParts
  #searched: Readonly<{ asked: string; after: string }> | null = null

  constructor(on: Queryable, schema: string, endpoints: EndpointTable) {
    this.#parts = { on, schema, endpoints }
  }

  async countDeliveries(filter: DeliveryFilter, max: number): Promise<number> {
    const found = await matching(filter, this.#parts)
    return countMatching(this.#parts, found, { after: beforeAll, last: afterAll }, max)
  }

  groupDeadLetters(filter: DeliveryFilter, by: GroupBy, limit: number): Promise<readonly DeadLetterGroup[]> {
    return groupDead(this.#parts, deadOnly(filter), by, limit)
  }

  async findWaiting(filter: DeliveryFilter, before: string | null, limit: number): Promise<readonly string[]> {
    const waiting = await matching(cancellable(filter), this.#parts)
    const start = before === null ? null : rowKeyOf('dlv', before)
    const bounds = start === null ? [] : [['<', start] as const]
    const found = await firstMatching(this.#parts, waiting, { bounds, order: 'DESC', limit })
    return found.map(({ key }) => idOf('dlv', key))
  }

  /**
   * The oldest dead letters that match. Who asks again with the same filter has dealt with what was found before: the
   * search goes on from there, and begins anew before it says that there is nothing.
   */
  async findDead(filter: DeliveryFilter, limit: number, settledBy: number): Promise<readonly Seen[]> {
    const dead = await matching(discardable(filter, settledBy), this.#parts)
    const asked = JSON.stringify(filter)
    const after = this.#searched?.asked === asked ? this.#searched.after : beforeAll
    const goneOn = await this.#searchDead(dead, limit, after)
    const found = goneOn.length > 0 || after === beforeAll ? goneOn : await this.#searchDead(dead, limit, beforeAll)
    this.#searched = { asked, after: found.at(-1)?.key ?? beforeAll }
    return found
  }

  /** The last row key is read first: what comes later is neither counted nor touched. */
  async measure(selection: Selection, tenant: string | null): Promise<Measured> {
    if (isRecovery(selection)) {
      const lastKey = await this.#lastKey(['events'])
      const endpoint = await readEndpoint(this.#parts, selection.endpointId)
      if (endpoint === null || !reachesTenant(tenant, endpoint.tenant)) return { matched: 0, lastKey }
      return { matched: await countRecovery(this.#parts, selection, endpoint, lastKey), lastKey }
    }
    const lastKey = await this.#lastKey(['live', 'ended'])
    const found = await matching(selectedDeliveries(selection, tenant), this.#parts)
    const span = { after: beforeAll, last: lastKey }
    return { matched: await countMatching(this.#parts, found, span, Number.MAX_SAFE_INTEGER), lastKey }
  }

  async stats(): Promise<StoreStats> {
    const { schema, endpoints } = this.#parts
    const waiting = await this.#rows(
      `SELECT endpoint, count(*), min(received_at) FROM ${schema}.live WHERE owner IS NULL GROUP BY endpoint ORDER BY endpoint`,
    )
    const dead = await this.#rows(
      `SELECT endpoint, count(*) FROM ${schema}.ended WHERE reason IS NOT NULL GROUP BY endpoint ORDER BY endpoint`,
    )
    await endpoints.ensureNumbers([...waiting, ...dead].map(([no]) => no as number))
    const deadLettersAt = dead.map(([no, count]) => ({
      endpointId: endpoints.idOf(no as number),
      count: count as number,
    }))
    return {
      backlog: waiting.map(([no, pending, oldestAt]) => ({
        endpointId: endpoints.idOf(no as number),
        pending: pending as number,
        oldestAt: oldestAt as number,
      })),
      deadLetters: deadLettersAt.reduce((sum, { count }) => sum + count, 0),
      deadLettersAt,
    }
  }

  async headlessLanes(): Promise<number> {
    const { schema } = this.#parts
    const [row] = await this.#rows(
      `SELECT count(*) FROM (SELECT 1 FROM ${schema}.live WHERE lane IS NOT NULL
         GROUP BY endpoint, lane HAVING count(due_at) = 0) headless`,
    )
    return Number(row?.[0] ?? 0)
  }

  #searchDead(dead: Matching, limit: number, after: string): Promise<readonly Seen[]> {
    return firstMatching(this.#parts, dead, { bounds: [['>', after]], order: 'ASC', limit })
  }

  async #lastKey(tables: readonly string[]): Promise<string> {
    const lasts = tables.map((table) => `(SELECT id FROM ${this.#parts.schema}.${table} ORDER BY id DESC LIMIT 1)`)
    const [row] = await this.#rows(`SELECT id FROM (${lasts.join(' UNION ALL ')}) last ORDER BY id DESC LIMIT 1`)
    return (row?.[0] ?? beforeAll) as string
  }

  #rows(sql: string): Promise<Row[]> {
    return rowsOf(this.#parts.on, sql, [])
  }
}
