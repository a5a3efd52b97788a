import type { GroupBy } from '../core/delivery.ts'
import { foldingOnce } from '../core/error-groups.ts'
import type { Reason } from '../core/outcome.ts'
import type { DeadLetterGroup } from './replay-store.ts'

/** What is different beyond this becomes one group. */
const groupsMax = 10_000
const others = 'others'

/** Dead letters that an adapter has summed up. `newest`: the row key of the newest one; row keys sort by age. */
export type SummedUp<RowKey> = Readonly<{
  common: string | null
  reason: Reason
  endpointNo: number
  count: number
  firstAt: number
  lastAt: number
  newest: RowKey
}>

type Gathered<RowKey> = {
  count: number
  firstAt: number
  lastAt: number
  newest: RowKey
  readonly endpoints: Set<number>
  readonly reasons: Set<Reason>
}

/** A group whose sample has yet to be named by its row key. */
export type GroupRow<RowKey> = Readonly<{ group: Omit<DeadLetterGroup, 'sample'>; newest: RowKey }>

/** Puts sums of equal dead letters together by what they have in common; similar errors are one. */
export class DeadLetterGroups<RowKey extends string | number> {
  readonly #groups = new Map<string, Gathered<RowKey>>()
  readonly #fold: (text: string) => string

  constructor(by: GroupBy) {
    this.#fold = by === 'error' ? foldingOnce(groupsMax) : (text) => text
  }

  add({ common, reason, endpointNo, count, firstAt, lastAt, newest }: SummedUp<RowKey>): void {
    // What ended without a try has no error; its reason says as much.
    const folded = common === null ? reason : this.#fold(common)
    const name = this.#groups.has(folded) || this.#groups.size < groupsMax ? folded : others
    let group = this.#groups.get(name)
    if (group === undefined) {
      group = { count: 0, firstAt, lastAt, newest, endpoints: new Set(), reasons: new Set() }
      this.#groups.set(name, group)
    }
    group.count += count
    group.firstAt = Math.min(group.firstAt, firstAt)
    group.lastAt = Math.max(group.lastAt, lastAt)
    if (newest > group.newest) group.newest = newest
    group.endpoints.add(endpointNo)
    group.reasons.add(reason)
  }

  /** The largest first; of equal ones that with the newest dead letter. */
  largest(limit: number): readonly GroupRow<RowKey>[] {
    const sorted = [...this.#groups].sort(([, a], [, b]) => b.count - a.count || (b.newest > a.newest ? 1 : -1))
    return sorted.slice(0, limit).map(([common, { count, firstAt, lastAt, endpoints, reasons, newest }]) => {
      const group = { common, count, endpoints: endpoints.size, firstAt, lastAt, reasons: [...reasons].sort() }
      return { group, newest }
    })
  }
}
