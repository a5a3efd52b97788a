import type { DatabaseSync } from 'node:sqlite'
import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import { numberOf } from '../../core/id.ts'
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
import type { SpaceSizes, StoreStats } from '../upkeep-store.ts'
import { groupDead } from './grouping.ts'
import { countMatching, type Matching, matching, newestKeys, walkMatching } from './matching.ts'
import type { Reads } from './reads.ts'
import { countRecovery, readEndpoint } from './recovery.ts'
import { Statements } from './statements.ts'
import { countHeadlessLanes, readSizes, readStats } from './stats.ts'

/** Reads that may look at everything there is. They have a thread of their own: nobody's page waits for them. */
export type LongReads = {
  countDeliveries: { request: { filter: DeliveryFilter; max: number }; answer: number }
  groupDeadLetters: { request: GroupQuery; answer: readonly DeadLetterGroup[] }
  /** A page of what waits. */
  listDeliveries: Reads['listDeliveries']
  findWaiting: { request: WaitingQuery; answer: readonly string[] }
  findDead: { request: DeadQuery; answer: readonly Found[] }
  measureReplay: { request: { selection: Selection; tenant: string | null }; answer: Measured }
  stats: { request: null; answer: StoreStats }
  headlessLanes: { request: null; answer: number }
  sizes: { request: null; answer: SpaceSizes }
}

type GroupQuery = Readonly<{ filter: DeliveryFilter; by: GroupBy; limit: number }>
type WaitingQuery = Readonly<{ filter: DeliveryFilter; before: string | null; limit: number }>
type DeadQuery = Readonly<{ filter: DeliveryFilter; limit: number; settledBy: number }>

/** A row as it was seen; by its version the writer knows whether it still is. */
export type Found = Readonly<{ no: number; version: number }>

/** What a replay would touch: how many, and the last row key that is its own. */
export type Measured = Readonly<{ matched: number; lastNo: number }>

export class LongReader {
  readonly #statements: Statements
  readonly #file: string
  #searched: Readonly<{ asked: string; after: number }> | null = null

  constructor(db: DatabaseSync, file: string) {
    this.#statements = new Statements(db)
    this.#file = file
  }

  countDeliveries({ filter, max }: { filter: DeliveryFilter; max: number }): number {
    return countMatching(
      this.#statements,
      matching(filter, this.#statements),
      { after: 0, last: Number.MAX_SAFE_INTEGER },
      max,
    )
  }

  groupDeadLetters({ filter, by, limit }: GroupQuery): readonly DeadLetterGroup[] {
    return groupDead(this.#statements, deadOnly(filter), by, limit)
  }

  findWaiting({ filter, before, limit }: WaitingQuery): readonly string[] {
    const waiting = matching(cancellable(filter), this.#statements)
    const start = before === null ? null : numberOf('dlv', before)
    const bounds = { before: start, limit, looksMax: Number.POSITIVE_INFINITY, rowKey: 'd.no' }
    const { keys } = newestKeys(this.#statements, waiting, bounds)
    return keys.flatMap(
      (no) => this.#statements.rows('SELECT id FROM deliveries WHERE no = ?', [no]).flat() as string[],
    )
  }

  /**
   * The oldest dead letters that match. Who asks again with the same filter has dealt with what was found before: the
   * search goes on from there, and begins anew before it says that there is nothing.
   */
  findDead({ filter, limit, settledBy }: DeadQuery): readonly Found[] {
    const dead = matching(discardable(filter, settledBy), this.#statements)
    const asked = JSON.stringify(filter)
    const after = this.#searched?.asked === asked ? this.#searched.after : 0
    const goneOn = this.#searchDead(dead, limit, after)
    const keys = goneOn.length > 0 || after === 0 ? goneOn : this.#searchDead(dead, limit, 0)
    this.#searched = { asked, after: keys.at(-1) ?? 0 }
    return keys.map((no) => {
      const row = this.#statements.row('SELECT version FROM deliveries WHERE no = ?', [no])
      return { no, version: (row?.[0] ?? 0) as number }
    })
  }

  measureReplay({ selection, tenant }: { selection: Selection; tenant: string | null }): Measured {
    if (isRecovery(selection)) {
      const lastNo = this.#lastNo('events')
      const endpoint = readEndpoint(this.#statements, selection.endpointId)
      if (endpoint === null || !reachesTenant(tenant, endpoint.tenant)) return { matched: 0, lastNo }
      return { matched: countRecovery(this.#statements, selection, endpoint, lastNo), lastNo }
    }
    const lastNo = this.#lastNo('deliveries')
    const filter = selectedDeliveries(selection, tenant)
    const span = { after: 0, last: lastNo }
    return {
      matched: countMatching(this.#statements, matching(filter, this.#statements), span, Number.MAX_SAFE_INTEGER),
      lastNo,
    }
  }

  stats(): StoreStats {
    return readStats(this.#statements)
  }

  headlessLanes(): number {
    return countHeadlessLanes(this.#statements)
  }

  sizes(): SpaceSizes {
    return readSizes(this.#statements, this.#file)
  }

  #searchDead(dead: Matching, limit: number, after: number): readonly number[] {
    const span = { after, last: Number.MAX_SAFE_INTEGER }
    const bounds = { span, limit, looksMax: Number.POSITIVE_INFINITY }
    return walkMatching(this.#statements, dead, bounds).keys
  }

  #lastNo(table: 'events' | 'deliveries'): number {
    return (this.#statements.row(`SELECT max(no) FROM ${table}`, [])?.[0] ?? 0) as number
  }
}
