import type { Processing } from '../../core/delivery.ts'
import type { Bodies, LightClaim } from '../bodies.ts'
import {
  type Backlog,
  type Claim,
  type ClaimAnswer,
  type ClaimRequest,
  type LeaseRenewal,
  largeBytesMin,
  type PullBackRequest,
} from '../pipeline-store.ts'
import { int4s, int8s, keys, texts } from './arrays.ts'
import { ClaimFloors } from './claim-floors.ts'
import { claimCells, endpointNoIn, heldColumns, interruptionsIn, toProcessing } from './delivery-rows.ts'
import { type Queryable, type Row, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { toLightEvent } from './event-rows.ts'
import { despiteConflicts } from './failures.ts'
import type { Made, Write } from './write-stream.ts'

/** Before a claim: what was too large, when the next is due, where the next claim may begin, and the order of the claims. */
const answerCells = 5

export type ClaimWorkParts = Readonly<{
  on: Queryable
  schema: string
  endpoints: EndpointTable
  bodies: Bodies
  member: () => number
  /** Whether what was claimed for this member is this process's own. */
  isMine: (member: number) => boolean
  floors?: ClaimFloors
}>

/** Takes due work for this member. */
export class ClaimWork {
  readonly #parts: ClaimWorkParts
  readonly #floors: ClaimFloors

  constructor(parts: ClaimWorkParts) {
    this.#parts = parts
    this.#floors = parts.floors ?? new ClaimFloors()
  }

  /** Something may have become due there earlier than what was claimed last. */
  lookBelow(endpointNumbers: readonly number[]): void {
    for (const no of endpointNumbers) this.#floors.forget(no)
  }

  async run({ from, now, leaseEndsAt, limit, bytesMax, aloneFrom = null }: ClaimRequest): Promise<ClaimAnswer> {
    const { on, schema, endpoints, bodies, member, isMine } = this.#parts
    const isNamed = 'deliveryIds' in from
    if (!isNamed) await endpoints.ensure([from.endpointId])
    const sql = `SELECT * FROM ${schema}.claim_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`
    const endpointNo = isNamed ? null : endpoints.find(from.endpointId).no
    const { readyAt, ownedAt } = this.#floors.at(endpointNo ?? 0)
    const claimedFor = member()
    const given = [
      claimedFor,
      endpointNo,
      isNamed ? keys('dlv', from.deliveryIds) : null,
      now,
      leaseEndsAt,
      limit,
      Math.min(bytesMax, Number.MAX_SAFE_INTEGER),
      aloneFrom,
      largeBytesMin,
      readyAt,
      ownedAt,
    ]
    const rows = await despiteConflicts(() => rowsOf(on, sql, given))
    const last = rows.pop() ?? []
    const [tooLarge, nextDueAt, readyFrom, ownedFrom] = last.slice(0, answerCells - 1) as (number | null)[]
    if (endpointNo !== null && readyFrom != null && ownedFrom != null) {
      this.#floors.raise(endpointNo, readyFrom, ownedFrom)
    }
    const inTheirOrder = inOrder(rows, last[answerCells - 1] as readonly string[])
    const claims = await bodies.fill(await this.#toClaims(inTheirOrder, answerCells))
    if (!isMine(claimedFor)) return { claims: [], tooLarge: null, nextDueAt: now }
    return { claims, tooLarge: tooLarge ?? null, nextDueAt: nextDueAt ?? null }
  }

  /** What the member was given by a commit, by its key; nothing if this process is another member by now. */
  async inHand(rowKeys: readonly string[], { member, on }: Made): Promise<ReadonlyMap<string, Claim>> {
    if (rowKeys.length === 0) return new Map()
    const { schema, bodies, isMine } = this.#parts
    const sql = `SELECT * FROM ${schema}.in_hand_v1($1, $2::uuid[], $3)`
    const rows = await rowsOf(await on(), sql, [member, `{${rowKeys.join(',')}}`, largeBytesMin])
    const claims = await bodies.fill(await this.#toClaims(rows, 0))
    if (!isMine(member)) return new Map()
    return new Map(rows.map(([key], at) => [key as string, claims[at] as Claim]))
  }

  /** What this member owns, whether it knows of it or not. */
  async listHeld(): Promise<readonly Processing[]> {
    const { on, schema, endpoints, member } = this.#parts
    const sql = `SELECT ${heldColumns} FROM ${schema}.live d WHERE d.owner IS NOT NULL AND d.owner = $1`
    const rows = await rowsOf(on, sql, [member()])
    await endpoints.ensureNumbers(rows.map((row) => endpointNoIn(row, 0)))
    return rows.map((row) => toProcessing(row, 0, endpoints))
  }

  async backlog(now: number): Promise<readonly Backlog[]> {
    const { on, schema, endpoints } = this.#parts
    const rows = await rowsOf(on, `SELECT endpoint, due_at FROM ${schema}.backlog_v1($1)`, [now])
    await endpoints.ensureNumbers(rows.map(([no]) => no as number))
    return rows.map(([no, dueAt]) => ({ endpointId: endpoints.idOf(no as number), nextDueAt: dueAt as number }))
  }

  async #toClaims(rows: readonly Row[], at: number): Promise<readonly LightClaim[]> {
    const { endpoints } = this.#parts
    await endpoints.ensureNumbers(rows.map((row) => endpointNoIn(row, at)))
    return rows.map((row) => ({
      delivery: toProcessing(row, at, endpoints),
      event: toLightEvent(row, at + claimCells),
      interruptions: interruptionsIn(row, at),
    }))
  }
}

function inOrder(rows: readonly Row[], keysInOrder: readonly string[]): readonly Row[] {
  if (rows.length < 2) return rows
  const rowOf = new Map(rows.map((row) => [row[answerCells], row]))
  return keysInOrder.map((key) => rowOf.get(key)).filter((row) => row !== undefined)
}

export const renewWrite: Write<readonly LeaseRenewal[], null> = {
  name: 'renew_v1',
  fits: () => 1,
  values: ([leases = []], member) => [
    member,
    keys(
      'dlv',
      leases.map(({ deliveryId }) => deliveryId),
    ),
    int4s(leases.map(({ version }) => version)),
    int8s(leases.map(({ leaseEndsAt }) => leaseEndsAt)),
  ],
  results: () => [null],
}

/** Hardly any has something to pull back: then this is a few milliseconds. */
const pulledAtOnce = 500

export function pullBackWrite(numberOf: (endpointId: string) => number): Write<PullBackRequest, number> {
  return {
    name: 'pull_back_v1',
    fits: () => pulledAtOnce,
    values: (requests) => [
      int4s(requests.map(({ endpointId }) => numberOf(endpointId))),
      int8s(requests.map(({ latestDueAt }) => latestDueAt)),
      int8s(requests.map(({ untriedDueAt }) => untriedDueAt)),
      texts(requests.map(({ lastError }) => lastError ?? null)),
    ],
    results: (_requests, answer) => JSON.parse(answer ?? '[]') as readonly number[],
  }
}
