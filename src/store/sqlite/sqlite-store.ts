import { dirname } from 'node:path'
import type { Attempt } from '../../core/attempt.ts'
import type { Condition } from '../../core/condition.ts'
import type { DeliveryFilter, GroupBy } from '../../core/delivery.ts'
import type { Event } from '../../core/event.ts'
import type { RegistryItems, RegistryKind } from '../../core/registry.ts'
import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { Selection } from '../../core/selection.ts'
import { Bodies } from '../bodies.ts'
import type { Beat, HubLink, Joined, LinkKey, LinkPut, Member, MemberNews } from '../cluster-store.ts'
import type { OpenedStore } from '../database.ts'
import type {
  AheadRequest,
  Appended,
  Arrival,
  Backlog,
  Change,
  ChangeResult,
  ClaimAnswer,
  ClaimRequest,
  EndPendingRequest,
  LeaseRenewal,
  PullBackRequest,
  Upcoming,
} from '../pipeline-store.ts'
import type { DeliveryQuery, DeliveryRecord, EventQuery, EventSummary, IdQuery, Page } from '../record-store.ts'
import type { RegistryEntry } from '../registry-store.ts'
import type { CancelledDelivery, DeadLetterGroup, ReplayQuery, ReplayStep, ReplayStepped } from '../replay-store.ts'
import type { Store, StoreHealth, WrittenBatch } from '../store.ts'
import type {
  DeadLetterCount,
  EndedDelivery,
  Expired,
  ExpireRequest,
  Pruned,
  PruneRequest,
  StoreSpace,
  StoreStats,
} from '../upkeep-store.ts'
import { posthornVersion } from '../version.ts'
import { wholePage } from '../whole-page.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { makeFolder } from './folder.ts'
import type { LongReads } from './long-reads.ts'
import { sortsAllThatWaits } from './matching.ts'
import { packArrival, packChange, unpackAppended, unpackResult } from './messages.ts'
import { realFile } from './open-file.ts'
import { ReadThread } from './read-thread.ts'
import type { Reads } from './reads.ts'
import { SingleMember } from './single-member.ts'
import { WriteThread } from './write-thread.ts'

export type SqliteSettings = Readonly<{
  file: string
  /** The encryption key; null: the key file beside the database. */
  key: Uint8Array | null
  /** The writer thread died of a defect: nothing can be kept any more, the process has to end. */
  onFatal: (error: Error) => void
  /** Told of every transaction that wrote something. */
  onBatch?: (batch: WrittenBatch) => void
  /** How long a write waits for another program's lock. */
  busyTimeoutMs?: number
}>

export async function openSqliteStore(settings: SqliteSettings): Promise<OpenedStore> {
  const file = realFile(settings.file)
  const { key, onFatal, onBatch, busyTimeoutMs = busyTimeoutDefaultMs } = settings
  makeFolder(dirname(file))
  const writer = new WriteThread({ file, key, busyTimeoutMs }, { onFatal, onBatch })
  const lastNumber = await writer.opened
  return { store: new SqliteStore(file, writer), lastNumber }
}

/** The store on the event loop's side: packs, sends, unpacks. */
class SqliteStore implements Store {
  readonly space: StoreSpace
  readonly #writer: WriteThread
  readonly #reader: ReadThread<Reads>
  /** For what may look at everything: a page or a single read never waits behind it. */
  readonly #longReader: ReadThread<LongReads>
  readonly #bodies: Bodies
  readonly #member = new SingleMember(posthornVersion, () => this.#writer.call('registryVersion', null))
  #closing: Promise<void> | null = null

  constructor(file: string, writer: WriteThread) {
    this.#writer = writer
    this.#bodies = new Bodies((eventId) => writer.call('body', eventId))
    this.#reader = new ReadThread({ file, movesLog: true })
    this.#longReader = new ReadThread({ file, movesLog: false })
    this.space = {
      shrink: (pagesMax) => this.#writer.call('shrink', pagesMax),
      sizes: () => this.#longReader.call('sizes', null),
    }
  }

  join(): Promise<Joined> {
    return this.#member.join()
  }

  beat(news?: MemberNews): Promise<Beat> {
    return this.#member.beat(news)
  }

  leave(): Promise<void> {
    return this.#member.leave()
  }

  hint(): void {
    this.#member.hint()
  }

  onHint(): void {
    this.#member.onHint()
  }

  listHeld(): Promise<readonly []> {
    return this.#member.listHeld()
  }

  listMembers(): Promise<readonly Member[]> {
    return this.#member.listMembers()
  }

  putLinks(links: readonly LinkPut[]): Promise<readonly (number | null)[]> {
    return this.#member.putLinks(links)
  }

  dropLinks(links: readonly LinkKey[]): Promise<void> {
    return this.#member.dropLinks(links)
  }

  listLinks(): Promise<readonly HubLink[]> {
    return this.#member.listLinks()
  }

  async append(arrivals: readonly Arrival[]): Promise<Appended> {
    const bodies = arrivals.map(({ event }) => event.body)
    for (const { event } of arrivals) this.#bodies.note(event)
    const answer = await this.#writer.append(bodies, (offsets) => ({
      name: 'append',
      request: arrivals.map((arrival, index) => packArrival(arrival, offsets[index] ?? 0)),
    }))
    return unpackAppended(answer, arrivals)
  }

  async claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const { claims, ...answer } = await this.#writer.call('claim', request)
    return { ...answer, claims: await this.#bodies.fill(claims) }
  }

  async commit(changes: readonly Change[]): Promise<readonly ChangeResult[]> {
    const results = await this.#writer.call('commit', changes.map(packChange))
    return results.map(unpackResult)
  }

  async ahead(request: AheadRequest): Promise<readonly Upcoming[]> {
    return this.#bodies.fill(await this.#reader.call('ahead', request))
  }

  async renew(leases: readonly LeaseRenewal[]): Promise<void> {
    await this.#writer.call('renew', leases)
  }

  backlog(now: number): Promise<readonly Backlog[]> {
    return this.#writer.call('backlog', now)
  }

  pullBack(request: PullBackRequest): Promise<number> {
    return this.#writer.call('pullBack', request)
  }

  endPending(request: EndPendingRequest): Promise<readonly EndedDelivery[]> {
    return this.#writer.call('endPending', request)
  }

  async putConditions(conditions: readonly Condition[]): Promise<void> {
    await this.#writer.call('putConditions', conditions)
  }

  listConditions(): Promise<readonly Condition[]> {
    return this.#writer.call('listConditions', null)
  }

  getEvent(id: string): Promise<Event | null> {
    return this.#reader.call('getEvent', id)
  }

  listEvents(query: EventQuery): Promise<Page<EventSummary>> {
    return wholePage(query, (piece) => this.#reader.call('listEvents', { ...query, ...piece }))
  }

  getDelivery(id: string): Promise<DeliveryRecord | null> {
    return this.#reader.call('getDelivery', id)
  }

  findIds(query: IdQuery): Promise<readonly string[]> {
    return this.#reader.call('findIds', query)
  }

  listAttempts(deliveryId: string): Promise<readonly Attempt[]> {
    return this.#reader.call('listAttempts', deliveryId)
  }

  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>> {
    const isLong = sortsAllThatWaits(query)
    return wholePage(query, (piece) => {
      const request = { ...query, ...piece }
      return isLong ? this.#longReader.call('listDeliveries', request) : this.#reader.call('listDeliveries', request)
    })
  }

  // ── The registry ────────────────────────────────────────────────────────────────────────────────────────────────

  async listEntries<K extends RegistryKind>(kind: K): Promise<readonly RegistryEntry<K>[]> {
    const entries = await this.#writer.call('listEntries', kind)
    return entries as readonly RegistryEntry<K>[]
  }

  putEntry<K extends RegistryKind>(kind: K, item: RegistryItems[K], expectedVersion: number): Promise<number> {
    return this.#writer.call('putEntry', { kind, item, expectedVersion })
  }

  async removeEntry(kind: RegistryKind, id: string): Promise<void> {
    await this.#writer.call('removeEntry', { kind, id })
  }
  // ── Dead letters ────────────────────────────────────────────────────────────────────────────────────────────────

  countDeliveries(filter: DeliveryFilter, max: number): Promise<number> {
    return this.#longReader.call('countDeliveries', { filter, max })
  }

  groupDeadLetters(filter: DeliveryFilter, by: GroupBy, limit: number): Promise<readonly DeadLetterGroup[]> {
    return this.#longReader.call('groupDeadLetters', { filter, by, limit })
  }

  /** Found on the side and deleted by key, so that the writer never looks for what matches rarely. */
  async discard(filter: DeliveryFilter, limit: number, settledBy: number): Promise<number> {
    for (;;) {
      const found = await this.#longReader.call('findDead', { filter, limit, settledBy })
      if (found.length === 0) return 0
      const count = await this.#writer.call('discard', { found, settledBy })
      // All of them changed between the two: that says nothing about what else there is.
      if (count > 0) return count
    }
  }

  findWaiting(filter: DeliveryFilter, before: string | null, limit: number): Promise<readonly string[]> {
    return this.#longReader.call('findWaiting', { filter, before, limit })
  }

  cancelWaiting(deliveryIds: readonly string[], now: number): Promise<readonly CancelledDelivery[]> {
    return this.#writer.call('cancelWaiting', { deliveryIds, now })
  }

  async countSelection(selection: Selection, tenant: string | null): Promise<number> {
    return (await this.#longReader.call('measureReplay', { selection, tenant })).matched
  }

  /**
   * Counted on the side, and kept a moment later: what changes between the two makes `matched` a little too large or too
   * small, but the last row key that the job may touch was fixed before.
   */
  async createReplay(replay: Omit<Replay, 'matched'>): Promise<Replay> {
    const { selection, tenant } = replay
    const { matched, lastNo } = await this.#longReader.call('measureReplay', { selection, tenant })
    return this.#writer.call('createReplay', { replay: { ...replay, matched }, lastNo })
  }

  getReplay(id: string): Promise<Replay | null> {
    return this.#reader.call('getReplay', id)
  }

  listReplays(query: ReplayQuery): Promise<Page<Replay>> {
    return this.#reader.call('listReplays', query)
  }

  changeReplay(id: string, from: ReplayStatus, to: ReplayStatus, now: number): Promise<Replay | null> {
    return this.#writer.call('changeReplay', { id, from, to, now })
  }

  stepReplay(step: ReplayStep): Promise<ReplayStepped> {
    return this.#writer.call('stepReplay', step)
  }

  // ── Upkeep ──────────────────────────────────────────────────────────────────────────────────────────────────────

  expire(request: ExpireRequest): Promise<Expired> {
    return this.#writer.call('expire', request)
  }

  prune(request: PruneRequest): Promise<Pruned> {
    return this.#writer.call('prune', request)
  }

  stats(): Promise<StoreStats> {
    return this.#longReader.call('stats', null)
  }

  headlessLanes(): Promise<number> {
    return this.#longReader.call('headlessLanes', null)
  }

  deadLettersSince(at: number): Promise<readonly DeadLetterCount[]> {
    return this.#reader.call('deadLettersSince', at)
  }

  health(): StoreHealth {
    return this.#writer.health
  }

  close(): Promise<void> {
    this.#closing ??= Promise.all([this.#reader.close(), this.#longReader.close()]).then(() => this.#writer.close())
    return this.#closing
  }
}
