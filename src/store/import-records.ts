import type { Attempt } from '../core/attempt.ts'
import type { Condition } from '../core/condition.ts'
import type { Pending, Settled } from '../core/delivery.ts'
import type { Event } from '../core/event.ts'
import type { Reason } from '../core/outcome.ts'
import type { RegistryItems, RegistryKind, UniqueName } from '../core/registry.ts'
import type { Replay } from '../core/replay.ts'

/** All that a database holds, as records in terms of core. */
export type Records = Readonly<{
  endpoints: EndpointRecord
  registry: EntryRecord
  replays: ReplayRecord
  events: Event
  deliveries: KeptDelivery
  attempts: KeptAttempt
  idempotencyKeys: KeyRecord
  origins: OriginRecord
  deadLetterHours: HourRecord
}>
export type RecordKind = keyof Records

/** In the order in which they are copied: what others name comes first. */
export const recordKinds = [
  ...(['endpoints', 'registry', 'replays', 'events', 'deliveries', 'attempts'] as const),
  ...(['idempotencyKeys', 'origins', 'deadLetterHours'] as const),
] satisfies readonly RecordKind[]

/** The number that deliveries of an endpoint are kept under, also of a removed one. */
export type EndpointRecord = Readonly<{
  no: number
  id: string
  tenant: string
  removed: boolean
  condition: Condition | null
}>

/** Of a row in the order of its columns, which both databases share. */
export function endpointRecordOf(row: readonly unknown[], removed: boolean): EndpointRecord {
  const [no, id, tenant, , breaker, heldUntil, failingSince, lastError, lastErrorAt] = row
  const condition = {
    endpointId: id as string,
    breaker: JSON.parse((breaker ?? 'null') as string),
    heldUntil: heldUntil as number | null,
    failingSince: failingSince as number | null,
    lastError: lastError as string | null,
    lastErrorAt: lastErrorAt as number | null,
  }
  return {
    no: no as number,
    id: id as string,
    tenant: tenant as string,
    removed,
    condition: breaker === null ? null : condition,
  }
}

/** With its secrets. `unique`: the name as it was kept; of two that clash from old times, one has none. */
export type EntryRecord = Readonly<{
  kind: RegistryKind
  version: number
  unique: UniqueName | null
  item: RegistryItems[RegistryKind]
}>

/** `doneNo`: the number inside the last id that the job has looked at; `lastNo`: inside the last that it may touch. */
export type ReplayRecord = Readonly<{ no: number; replay: Replay; doneNo: number; lastNo: number }>

/** Nobody has it in hand: what was processing was interrupted. `position`: in its lane, while it is in one. */
export type KeptDelivery = Readonly<{
  delivery: Pending | Settled
  position: number | null
  interruptions: number
  replayNo: number | null
  /** Of its event's body. */
  size: number
}>

export type KeptAttempt = Readonly<{ deliveryId: string; attempt: Attempt }>

export type KeyRecord = Readonly<{
  scope: string
  key: string
  fingerprint: string
  eventId: string
  deliveries: number
  /** 0: the event is gone. */
  receivedAt: number
  expiresAt: number
}>

export type OriginRecord = Readonly<{ scope: string; id: string; eventId: string; deliveries: number }>

/** `hour`: since 1970. */
export type HourRecord = Readonly<{ hour: number; endpointId: string; reason: Reason; count: number }>

export type PerKind<T> = Readonly<Record<RecordKind, T>>

/** Where to go on, in words that only the store understands; null: that was all. */
export type Piece<K extends RecordKind> = Readonly<{ records: readonly Records[K][]; next: string | null }>

/** What an import reads, held so that nobody else changes it. */
export interface ImportSource {
  /** For people: where it is. */
  readonly name: string
  /** The same for every copy of this database. */
  readonly id: string
  /** Another one as soon as anything in it has changed. */
  readonly state: string
  readonly counts: PerKind<number>
  readonly ends: Ends
  /** Bounded in bytes, but for a single large record. `after` null: from the beginning. */
  read<K extends RecordKind>(kind: K, after: string | null): Piece<K>
  close(): void
}

/** What goes on counting after the last record. */
export type Ends = Readonly<{ registryVersion: number; endpointNo: number; replayNo: number }>

/** How far an import has come, kept in the target together with what it has copied. */
export type ImportProgress = Readonly<{
  sourceId: string
  sourceState: string
  /** Null: everything is copied. */
  next: Readonly<{ kind: RecordKind; after: string | null }> | null
  copied: PerKind<Tally>
  /** When it was verified; null: it was not yet. */
  doneAt: number | null
}>

/** How many records, and the sum of their hashes in hexadecimal. */
export type Tally = Readonly<{ count: number; sum: string }>

/** What an import writes. Every method but `find` and `read` is refused if another import has come in between. */
export interface ImportTarget {
  readonly name: string
  /** What an earlier import has left; null: the database is empty, or is not there yet. Refuses other data. Changes nothing. */
  find(): Promise<ImportProgress | null>
  /** Makes the tables and begins; from then on no server starts here. `found` as above. */
  begin(fresh: ImportProgress, found: ImportProgress | null): Promise<ImportProgress>
  /** One transaction: the records, and how far the import is with them. */
  write<K extends RecordKind>(
    kind: K,
    records: readonly Records[K][],
    progress: Readonly<{ before: ImportProgress; after: ImportProgress }>,
  ): Promise<void>
  read<K extends RecordKind>(kind: K, after: string | null): Promise<Piece<K>>
  /** After the last record: from now on a server may start here. */
  finish(ends: Ends, progress: Readonly<{ before: ImportProgress; after: ImportProgress }>): Promise<void>
  close(): Promise<void>
}
