import { isSettled } from '../../core/delivery.ts'
import { keepsInterruptions } from '../../core/lifecycle.ts'
import { type Change, type ChangeResult, type Claim, largeBytesMin } from '../pipeline-store.ts'
import { asStored, int4s, int8s, keys, texts } from './arrays.ts'
import { attemptValues, type Logged } from './attempt-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import { slotsOf } from './lane-slots.ts'
import type { Made, Write } from './write-stream.ts'

/** Each row is looked up among all of a call. */
export const changesMax = 256
/** More lanes in one call would make other members wait for too many of their slots. */
export const lanesMax = 64

/** What the database says of changes that did not all go the usual way; places count from 1. */
type Said = Readonly<{
  e?: readonly number[] | null
  w?: readonly number[] | null
  up?: readonly (readonly [lane: number, key?: string])[]
}>

/** Reads the new heads of lanes that a call has claimed. */
export type Fetch = (keys: readonly string[], made: Made) => Promise<ReadonlyMap<string, Claim>>

/** Changes deliveries. Those of one call of the port stay together: a chain is one commit. */
export function commitWrite(endpoints: EndpointTable, fetch: Fetch): Write<readonly Change[], readonly ChangeResult[]> {
  return {
    name: 'commit_v1',
    fits,
    values: (calls, member) => [member, ...new Packed(calls.flat(), endpoints).values()],
    results: async (calls, answer, made) => {
      const packed = new Packed(calls.flat(), endpoints)
      return split(calls, await packed.results(answer, (keys) => fetch(keys, made)))
    },
  }
}

/**
 * Each delivery once in a call: a second change of it is made after the first. Calls that meet in a lane are made one
 * after the other if one of them wants the next: the answer tells of the lane, and only one of them may be given it.
 */
function fits(calls: readonly (readonly Change[])[]): number {
  const seen = new Set<string>()
  const lanes = new Map<string, boolean>()
  let count = 0
  for (const [at, changes] of calls.entries()) {
    count += changes.length
    const inLanes = changes.filter(({ to }) => to.lane !== null)
    const isSeen = changes.some(({ to }) => seen.has(to.id))
    const meets = inLanes.some(({ to, claimNext }) => {
      const wantsNext = lanes.get(laneName(to))
      return wantsNext !== undefined && (wantsNext || claimNext !== null)
    })
    for (const { to, claimNext } of inLanes) {
      const name = laneName(to)
      lanes.set(name, claimNext !== null || lanes.get(name) === true)
    }
    if (at > 0 && (isSeen || meets || count > changesMax || lanes.size > lanesMax)) return at
    for (const { to } of changes) seen.add(to.id)
  }
  return calls.length
}

export function laneName({ endpointId, lane }: Change['to']): string {
  return `${endpointId} ${asStored(lane)}`
}

type Lane = { readonly endpoint: number; readonly lane: string; claimNext: number | null; dueAt: number }

/** The changes of one call of commit_v1, sorted into ends and waits, and the lanes that they may move on. */
class Packed {
  readonly #changes: readonly Change[]
  readonly #ends: number[] = []
  readonly #waits: number[] = []
  readonly #lanes = new Map<string, Lane>()
  readonly #links: Readonly<{ place: number; after: number | null; lane: number }>[] = []
  readonly #laneOf: (number | null)[] = []

  constructor(changes: readonly Change[], endpoints: EndpointTable) {
    this.#changes = changes
    for (const [at, change] of changes.entries()) this.#sort(change, at, endpoints)
  }

  values(): readonly unknown[] {
    const ends = this.#ends.map((at) => this.#changes[at] as Change)
    const waits = this.#waits.map((at) => this.#changes[at] as Change)
    const lanes = [...this.#lanes.values()]
    const slots = slotsOf(lanes.map(({ endpoint, lane }) => [endpoint, lane] as const))
    const logged = this.#changes.flatMap(({ to, attempt }): readonly Logged[] =>
      attempt === null ? [] : [{ deliveryId: to.id, attempt }],
    )
    const hasLinks = this.#links.length > 0
    return [
      slots === null ? null : int4s(slots),
      ...endValues(ends),
      ...waitValues(waits),
      ...(hasLinks
        ? [
            int4s(this.#links.map(({ place }) => place)),
            int4s(this.#links.map(({ after }) => after)),
            int4s(this.#links.map(({ lane }) => lane)),
          ]
        : [null, null, null]),
      ...attemptValues(logged),
      ...(slots === null
        ? [null, null, null, null]
        : [
            int4s(lanes.map(({ endpoint }) => endpoint)),
            texts(lanes.map(({ lane }) => lane)),
            int8s(lanes.map(({ claimNext }) => claimNext)),
            int8s(lanes.map(({ dueAt }) => dueAt)),
          ]),
      largeBytesMin,
    ]
  }

  async results(
    answer: string | null,
    fetch: (keys: readonly string[]) => ReturnType<Fetch>,
  ): Promise<readonly ChangeResult[]> {
    if (answer === null) return this.#changes.map(() => applied)
    const said: Said = JSON.parse(answer)
    const results: ChangeResult[] = this.#changes.map(() => applied)
    for (const place of said.e ?? []) results[this.#ends[place - 1] as number] = stale
    for (const place of said.w ?? []) results[this.#waits[place - 1] as number] = stale
    const up = said.up ?? []
    const claimed = await fetch(up.flatMap(([_lane, key]) => (key === undefined ? [] : [key])))
    for (const [lane, key] of up) {
      const at = this.#lastEnd(lane - 1, results)
      const next = key === undefined ? null : (claimed.get(key) ?? null)
      if (at !== null) results[at] = { kind: 'applied', next, released: next === null }
    }
    return results
  }

  #sort(change: Change, at: number, endpoints: EndpointTable): void {
    const { to, follows = false } = change
    const place = isSettled(to.status) ? this.#ends.push(at) : -this.#waits.push(at)
    const lane = to.lane === null ? null : this.#laneAt(change, endpoints.find(to.endpointId).no)
    this.#laneOf.push(lane)
    if (!follows) return
    const before = this.#ends.indexOf(at - 1)
    const isSameLane = lane !== null && this.#laneOf[at - 1] === lane
    this.#links.push({ place, after: before === -1 || !isSameLane ? null : before + 1, lane: (lane ?? 0) + 1 })
  }

  /** The lane's place. Of a chain the last link says whether the next is wanted, else whoever of its changes wants it. */
  #laneAt({ to, claimNext, follows = false }: Change, endpoint: number): number {
    const name = laneName(to)
    const known = this.#lanes.get(name)
    const dueAt = endOf(to) ?? 0
    if (known === undefined) {
      this.#lanes.set(name, { endpoint, lane: to.lane as string, claimNext, dueAt })
      return this.#lanes.size - 1
    }
    known.claimNext = follows ? claimNext : (claimNext ?? known.claimNext)
    known.dueAt = Math.max(known.dueAt, dueAt)
    return [...this.#lanes.keys()].indexOf(name)
  }

  /** The last change of the lane that ended one: with it came the next. */
  #lastEnd(lane: number, results: readonly ChangeResult[]): number | null {
    let found: number | null = null
    for (const at of this.#ends) {
      if (this.#laneOf[at] === lane && results[at]?.kind === 'applied') found = at
    }
    return found
  }
}

const stale: ChangeResult = { kind: 'stale' }
const applied: ChangeResult = { kind: 'applied', next: null, released: false }

/** When it ended; null: it has not. */
export function endOf(to: Change['to']): number | null {
  if (to.status === 'delivered') return to.deliveredAt
  return to.status === 'failed' || to.status === 'dead_letter' ? to.settledAt : null
}

function endValues(changes: readonly Change[]): readonly unknown[] {
  if (changes.length === 0) return Array.from({ length: 9 }, () => null)
  const ends = changes.map(({ to }) => to)
  return [
    keys(
      'dlv',
      ends.map(({ id }) => id),
    ),
    int4s(ends.map(({ version }) => version)),
    texts(ends.map(({ status }) => status)),
    int8s(ends.map(endOf)),
    int4s(ends.map(({ attempts }) => attempts)),
    int4s(ends.map(({ triesInBudget }) => triesInBudget)),
    texts(ends.map((to) => (to.status === 'failed' || to.status === 'dead_letter' ? to.reason : null))),
    texts(ends.map(({ lastError }) => lastError)),
    int8s(ends.map(({ lastAttemptAt }) => lastAttemptAt)),
  ]
}

/** What waits again. */
export function waitValues(changes: readonly Pick<Change, 'to' | 'ran'>[]): readonly unknown[] {
  if (changes.length === 0) return Array.from({ length: 10 }, () => null)
  const waits = changes.map(({ to }) => to)
  return [
    keys(
      'dlv',
      waits.map(({ id }) => id),
    ),
    int4s(waits.map(({ version }) => version)),
    int8s(waits.map((to) => (to.status === 'pending' ? to.dueAt : null))),
    int4s(waits.map(({ attempts }) => attempts)),
    int4s(waits.map(({ triesInBudget }) => triesInBudget)),
    int8s(waits.map(({ retryAfter }) => retryAfter)),
    texts(waits.map(({ lastError }) => lastError)),
    int8s(waits.map(({ lastAttemptAt }) => lastAttemptAt)),
    int8s(waits.map(({ replayedAt }) => replayedAt)),
    int4s(changes.map(({ to, ran = false }) => (keepsInterruptions(to.status, ran) ? 1 : 0))),
  ]
}

function split(
  calls: readonly (readonly Change[])[],
  results: readonly ChangeResult[],
): readonly (readonly ChangeResult[])[] {
  let at = 0
  return calls.map((changes) => {
    at += changes.length
    return results.slice(at - changes.length, at)
  })
}
