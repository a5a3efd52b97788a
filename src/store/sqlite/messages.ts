import type { Condition } from '../../core/condition.ts'
import { newborn } from '../../core/delivery.ts'
import type { Event } from '../../core/event.ts'
import { type BornEnded, bornEnded, keepsInterruptions } from '../../core/lifecycle.ts'
import type { RegistryItems, RegistryKind } from '../../core/registry.ts'
import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { LightClaim, LightClaimAnswer } from '../bodies.ts'
import type {
  Appended,
  AppendedItem,
  Arrival,
  Backlog,
  Change,
  ChangeResult,
  Claim,
  ClaimRequest,
  EndPendingRequest,
  LeaseRenewal,
  NewDelivery,
  PullBackRequest,
} from '../pipeline-store.ts'
import { placesOf } from '../places.ts'
import type { RegistryEntry } from '../registry-store.ts'
import type { CancelledDelivery, ReplayStep, ReplayStepped } from '../replay-store.ts'
import type { EndedDelivery, Expired, ExpireRequest, Pruned, PruneRequest } from '../upkeep-store.ts'
import { attemptCellsOf } from './attempt-rows.ts'
import { changedCellsOf, changedNames, newCellsOf } from './delivery-rows.ts'
import { eventCellsOf, eventHead } from './event-rows.ts'
import type { FailureMessage } from './failures.ts'
import type { Found } from './long-reads.ts'
import type { Cell } from './rows.ts'

/**
 * What crosses the border between the event loop and the writer thread. The two hot calls travel as flat rows, and
 * all bodies of a batch in one transferred buffer, because copying objects costs more than the SQL behind them.
 */
export type Calls = {
  append: { request: readonly ArrivalRow[]; answer: readonly ItemRow[] | { conflicts: readonly number[] } }
  commit: { request: readonly ChangeRow[]; answer: readonly ResultRow[] }
  claim: { request: ClaimRequest; answer: LightClaimAnswer }
  body: { request: string; answer: Uint8Array | null }
  renew: { request: readonly LeaseRenewal[]; answer: null }
  backlog: { request: number; answer: readonly Backlog[] }
  pullBack: { request: PullBackRequest; answer: number }
  endPending: { request: EndPendingRequest; answer: readonly EndedDelivery[] }
  putConditions: { request: readonly Condition[]; answer: null }
  listConditions: { request: null; answer: readonly Condition[] }
  listEntries: { request: RegistryKind; answer: readonly RegistryEntry<RegistryKind>[] }
  putEntry: { request: PutEntry; answer: number }
  removeEntry: { request: { kind: RegistryKind; id: string }; answer: null }
  registryVersion: { request: null; answer: number }
  createReplay: { request: { replay: Replay; lastNo: number }; answer: Replay }
  changeReplay: {
    request: { id: string; from: ReplayStatus; to: ReplayStatus; now: number }
    answer: Replay | null
  }
  stepReplay: { request: ReplayStep; answer: ReplayStepped }
  discard: { request: { found: readonly Found[]; settledBy: number }; answer: number }
  cancelWaiting: { request: { deliveryIds: readonly string[]; now: number }; answer: readonly CancelledDelivery[] }
  expire: { request: ExpireRequest; answer: Expired }
  prune: { request: PruneRequest; answer: Pruned }
  shrink: { request: number; answer: number }
  probe: { request: null; answer: null }
}
/** The item is of its kind. */
export type PutEntry = Readonly<{ kind: RegistryKind; item: RegistryItems[RegistryKind]; expectedVersion: number }>
export type CallName = keyof Calls
export type Call = { [Name in CallName]: Readonly<{ name: Name; request: Calls[Name]['request'] }> }[CallName]

/** To the writer: one batch is one transaction. */
export type BatchMessage = Readonly<{ calls: readonly Call[]; bodies: ArrayBuffer }>
/** From the writer: an answer per call, or why none of the batch was kept. */
export type BatchAnswer =
  | (Readonly<{ kind: 'done' }> & BatchResult)
  | Readonly<{ kind: 'ready'; lastNumber: number; isShort: boolean }>
  | Readonly<{ kind: 'failed_to_open'; failure: FailureMessage }>
/**
 * `wrote`: something reached the disk, which says that writing is possible. `commitMs`: what the disk took for it.
 * `isShort`: the disk is full, new events are refused and the rest is written from the reserve.
 */
export type BatchResult = Readonly<{
  answers: readonly CallAnswer[]
  wrote: boolean
  commitMs: number
  isShort: boolean
}>
export type CallAnswer = Readonly<{ value: unknown }> | Readonly<{ failure: FailureMessage }>

// ── append ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The event's cells, where its body is in the batch's buffer, its idempotency and origin, then the cells of each delivery. */
export type ArrivalRow = readonly Cell[]
const arrivalNames = [
  ...eventHead,
  'size',
  'body_offset',
  'idempotency_scope',
  'idempotency_key',
  'fingerprint',
  'expires_at',
  'origin_scope',
  'origin_id',
] as const
const newDeliveryNames = ['id', 'endpoint_id', 'lane', 'lease_ends_at', 'due_at', 'ended'] as const

export const arrivalAt = placesOf(arrivalNames)
/** Where the first delivery begins. */
export const deliveriesStart = arrivalNames.length
export const newDeliveryAt = placesOf(newDeliveryNames)
export const cellsPerDelivery = newDeliveryNames.length
/** '102' : three deliveries, the first was claimed, the last ended at once. A duplicate is the first event's id and its deliveries. */
export type ItemRow = string | Repeat
export type Repeat = readonly [eventId: string, deliveries: number]

export function deliveriesIn(row: ArrivalRow): number {
  return (row.length - deliveriesStart) / cellsPerDelivery
}

export function packArrival({ event, idempotency, origin, deliveries }: Arrival, bodyOffset: number): ArrivalRow {
  const row: Cell[] = [
    ...eventCellsOf(event),
    event.body.length,
    bodyOffset,
    idempotency?.scope ?? null,
    idempotency?.key ?? null,
    idempotency?.fingerprint ?? null,
    idempotency?.expiresAt ?? null,
    origin?.scope ?? null,
    origin?.id ?? null,
  ]
  for (const delivery of deliveries) {
    const { id, endpointId, lane, leaseEndsAt, dueAt, ended } = delivery
    row.push(id, endpointId, lane, leaseEndsAt, dueAt, ended === undefined ? null : packEnded(delivery, event, ended))
  }
  return row
}

/** A delivery that was born ended is rare: its cells travel as text. */
export type EndedCells = Readonly<{ delivery: readonly Cell[]; attempt: readonly Cell[] }>

function packEnded(
  { id, endpointId, lane }: NewDelivery,
  { id: eventId, receivedAt }: Event,
  ended: BornEnded,
): string {
  const failed = bornEnded(newborn({ id, eventId, endpointId, lane, receivedAt }), ended)
  const cells: EndedCells = { delivery: newCellsOf(failed), attempt: attemptCellsOf(ended.attempt) }
  return JSON.stringify(cells)
}

export function unpackAppended(answer: Calls['append']['answer'], arrivals: readonly Arrival[]): Appended {
  if ('conflicts' in answer) return { kind: 'conflict', conflicts: answer.conflicts }
  return { kind: 'kept', items: answer.map((item, index) => unpackItem(item, arrivals[index]?.event.id ?? '')) }
}

const none: readonly number[] = []

function unpackItem(item: ItemRow, eventId: string): AppendedItem {
  if (typeof item !== 'string')
    return { eventId: item[0], deliveries: item[1], duplicate: true, claimed: [], ended: none }
  const claimed: boolean[] = []
  let ended: readonly number[] = none
  for (let i = 0; i < item.length; i++) {
    const code = item.charCodeAt(i)
    claimed.push(code === 0x31)
    if (code === 0x32) ended = [...ended, i]
  }
  return { eventId, deliveries: item.length, duplicate: false, claimed, ended }
}

// ── commit ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What the change is about, then the cells of the update in the order of its parameters, then those of the attempt. */
export type ChangeRow = readonly Cell[]
const changeNames = ['id', 'lane', 'claim_next', 'follows', 'keeps_interruptions', ...changedNames] as const
export const changeAt = placesOf(changeNames)
/** Where the attempt begins, if there is one. */
export const attemptStart = changeNames.length
/** A claim has its body: none is claimed here that is large. */
export type ResultRow = 'stale' | 'applied' | 'released' | LightClaim

export function packChange({ to, attempt, claimNext, ran = false, follows = false }: Change): ChangeRow {
  const keeps = keepsInterruptions(to.status, ran) ? 1 : 0
  const row: Cell[] = [to.id, to.lane, claimNext, follows ? 1 : 0, keeps, ...changedCellsOf(to)]
  if (attempt !== null) row.push(...attemptCellsOf(attempt))
  return row
}

export function unpackResult(result: ResultRow): ChangeResult {
  switch (result) {
    case 'stale':
      return { kind: 'stale' }
    case 'applied':
      return { kind: 'applied', next: null, released: false }
    case 'released':
      return { kind: 'applied', next: null, released: true }
  }
  return { kind: 'applied', next: result as Claim, released: false }
}
