import type { Attempt } from '../../core/attempt.ts'
import type { Condition } from '../../core/condition.ts'
import type { DeliveryFilter, GroupBy, Processing } from '../../core/delivery.ts'
import { PosthornError } from '../../core/errors.ts'
import type { Event } from '../../core/event.ts'
import type { RegistryItems, RegistryKind } from '../../core/registry.ts'
import type { Replay, ReplayStatus } from '../../core/replay.ts'
import type { Selection } from '../../core/selection.ts'
import { Bodies } from '../bodies.ts'
import {
  type Beat,
  type Hinted,
  type HubLink,
  type Joined,
  type LinkKey,
  type LinkPut,
  type Member,
  type MemberHint,
  type MemberLease,
  type MemberNews,
  plainNews,
} from '../cluster-store.ts'
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
import type { Store, StoreHealth } from '../store.ts'
import type {
  DeadLetterCount,
  EndedDelivery,
  Expired,
  ExpireRequest,
  Pruned,
  PruneRequest,
  StoreStats,
} from '../upkeep-store.ts'
import { appendWrite, hasLane, plan } from './append.ts'
import { ClaimWork, pullBackWrite, renewWrite } from './claim.ts'
import { commitWrite } from './commit.ts'
import { piecesOf, writePieces } from './commit-pieces.ts'
import type { Connections } from './connections.ts'
import { EndpointTable, putConditions } from './endpoints.ts'
import { asFailure } from './failures.ts'
import { HintBus } from './hint-bus.ts'
import type { Hint, Hints } from './hints.ts'
import { LongReads } from './long-reads.ts'
import { Members, memberLease } from './members.ts'
import { Reads } from './reads.ts'
import { listEntries, putEntryWrite, putProblem, removeEntryWrite } from './registry.ts'
import { RelayLinks } from './relay-links.ts'
import { discardWrite, Replays } from './replays.ts'
import { Revival } from './revival.ts'
import { Upkeep } from './upkeep.ts'
import type { Write, WriteStream } from './write-stream.ts'

/** The store of one member. Rows decide; what is in memory here can be thrown away. */
export class PostgresStore implements Store {
  readonly bus: HintBus
  readonly #connections: Connections
  readonly #endpoints: EndpointTable
  readonly #members: Members
  readonly #links: RelayLinks
  readonly #hints: Hints
  readonly #hintListeners = new Set<(hint: MemberHint) => void>()
  #registryVersion: number | null = null
  readonly #bodies: Bodies
  readonly #claims: ClaimWork
  readonly #reads: Reads
  readonly #longReads: LongReads
  readonly #revival: Revival
  readonly #replays: Replays
  readonly #upkeep: Upkeep
  readonly #append: ReturnType<typeof appendWrite>
  readonly #commit: ReturnType<typeof commitWrite>
  readonly #pullBack = pullBackWrite((id) => this.#endpoints.find(id).no)
  #isClosed = false

  constructor(connections: Connections, lease: MemberLease = memberLease) {
    const { schema, beats, claims: on, reads, longReads } = connections
    this.#connections = connections
    this.#endpoints = new EndpointTable(on, schema)
    const onTakenOver = (endpointNos: readonly number[]) => {
      this.#hear({ due: endpointNos, conditions: [], registry: false, links: false, members: false })
      this.#hints.sayDue(endpointNos)
    }
    this.#members = new Members({ beats, on, schema, lease, onTakenOver })
    this.bus = new HintBus((texts) => this.#hints.publish(texts))
    this.#hints = connections.hints({ onHint: (hint) => this.#hear(hint), onText: (text) => this.bus.take(text) })
    const member = () => this.#members.no
    this.#links = new RelayLinks({ on, schema, member, onMoved: () => this.#hints.sayLinks() })
    this.#reads = new Reads(reads, schema, this.#endpoints)
    this.#longReads = new LongReads(longReads, schema, this.#endpoints)
    this.#bodies = new Bodies((eventId) => this.#reads.body(eventId))
    const parts = { on, schema, endpoints: this.#endpoints }
    const isMine = (no: number) => this.#members.isStill(no)
    this.#claims = new ClaimWork({ ...parts, bodies: this.#bodies, member, isMine })
    this.#append = appendWrite(isMine)
    this.#commit = commitWrite(this.#endpoints, (keys, made) => this.#claims.inHand(keys, made))
    this.#revival = new Revival({ ...parts, commit: (changes) => this.commit(changes) })
    const slow = { ...parts, on: longReads, revival: this.#revival }
    this.#replays = new Replays({ ...slow, streamFor: (isLaned) => this.#streamFor(isLaned, 'rest') })
    this.#upkeep = new Upkeep({ ...slow, call: (write, item) => this.#call(write, item) })
  }

  async open(): Promise<void> {
    await this.#members.open()
    await this.#links.open()
    await this.#endpoints.reload()
    await this.#connections.openStreams(() => this.#members.no)
    await this.#hints.open()
  }

  // ── Members ─────────────────────────────────────────────────────────────────────────────────────────────────────

  join(): Promise<Joined> {
    return this.#read(() => this.#members.join())
  }

  async beat(news: MemberNews = plainNews): Promise<Beat> {
    const beat = await this.#read(() => this.#members.beat(news))
    this.#hints.isAlone = beat.members.length < 2
    this.#hints.sayWorking(news.isWorking)
    if (beat.registryVersion !== this.#registryVersion) {
      await this.#read(() => this.#endpoints.reload(this.#connections.beats))
      this.#registryVersion = beat.registryVersion
    }
    return beat
  }

  async leave(): Promise<void> {
    if (!this.#isClosed) await this.#read(() => this.#members.leave())
  }

  hint(what: Hinted, endpointIds: readonly string[]): void {
    if (what === 'due') this.#hints.sayDue(this.#numbersOf(endpointIds))
    else this.#hints.sayConditions(this.#numbersOf(endpointIds))
  }

  onHint(listener: (hint: MemberHint) => void): void {
    this.#hintListeners.add(listener)
  }

  listHeld(): Promise<readonly Processing[]> {
    return this.#read(() => this.#claims.listHeld())
  }

  listMembers(): Promise<readonly Member[]> {
    return this.#read(() => this.#members.list())
  }

  putLinks(links: readonly LinkPut[]): Promise<readonly (number | null)[]> {
    return this.#read(() => this.#links.put(links))
  }

  dropLinks(links: readonly LinkKey[]): Promise<void> {
    return this.#read(() => this.#links.drop(links))
  }

  listLinks(): Promise<readonly HubLink[]> {
    return this.#read(() => this.#links.list())
  }

  // ── The pipeline ────────────────────────────────────────────────────────────────────────────────────────────────

  async append(arrivals: readonly Arrival[]): Promise<Appended> {
    const ids = arrivals.flatMap(({ deliveries }) => deliveries.map(({ endpointId }) => endpointId))
    const unknown = this.#endpoints.ensure(ids)
    if (unknown !== undefined) await this.#read(() => unknown)
    for (const { event } of arrivals) this.#bodies.note(event)
    const planned = plan(arrivals, this.#endpoints)
    return this.#streamFor(hasLane(planned), 'arrivals').write(this.#append, planned)
  }

  claim(request: ClaimRequest): Promise<ClaimAnswer> {
    return this.#read(() => this.#claims.run(request))
  }

  async commit(changes: readonly Change[]): Promise<readonly ChangeResult[]> {
    if (changes.length === 0) return []
    const unknown = this.#endpoints.ensure(changes.map(({ to }) => to.endpointId))
    if (unknown !== undefined) await this.#read(() => unknown)
    return writePieces(piecesOf(changes), (piece) => {
      const isLaned = piece.some(({ to }) => to.lane !== null)
      return this.#streamFor(isLaned, 'outcomes').write(this.#commit, piece)
    })
  }

  async ahead(request: AheadRequest): Promise<readonly Upcoming[]> {
    return this.#bodies.fill(await this.#read(() => this.#reads.ahead(request)))
  }

  async renew(leases: readonly LeaseRenewal[]): Promise<void> {
    await this.#call(renewWrite, leases)
  }

  backlog(now: number): Promise<readonly Backlog[]> {
    return this.#read(() => this.#claims.backlog(now))
  }

  async pullBack(request: PullBackRequest): Promise<number> {
    await this.#read(async () => this.#endpoints.ensure([request.endpointId]))
    const pulled = await this.#call(this.#pullBack, request)
    this.#claims.lookBelow([this.#endpoints.find(request.endpointId).no])
    return pulled
  }

  endPending(request: EndPendingRequest): Promise<readonly EndedDelivery[]> {
    return this.#read(() => this.#upkeep.endPending(request))
  }

  async putConditions(conditions: readonly Condition[]): Promise<void> {
    await this.#call(putConditions, conditions)
  }

  listConditions(): Promise<readonly Condition[]> {
    return this.#read(() => this.#endpoints.listConditions())
  }

  // ── The record ──────────────────────────────────────────────────────────────────────────────────────────────────

  getEvent(id: string): Promise<Event | null> {
    return this.#read(() => this.#reads.getEvent(id))
  }

  listEvents(query: EventQuery): Promise<Page<EventSummary>> {
    return this.#read(() => this.#reads.listEvents(query))
  }

  getDelivery(id: string): Promise<DeliveryRecord | null> {
    return this.#read(() => this.#reads.getDelivery(id))
  }

  findIds(query: IdQuery): Promise<readonly string[]> {
    return this.#read(() => this.#reads.findIds(query))
  }

  listAttempts(deliveryId: string): Promise<readonly Attempt[]> {
    return this.#read(() => this.#reads.listAttempts(deliveryId))
  }

  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>> {
    return this.#read(() => this.#reads.listDeliveries(query))
  }

  countDeliveries(filter: DeliveryFilter, max: number): Promise<number> {
    return this.#read(() => this.#longReads.countDeliveries(filter, max))
  }

  // ── The registry ────────────────────────────────────────────────────────────────────────────────────────────────

  listEntries<K extends RegistryKind>(kind: K): Promise<readonly RegistryEntry<K>[]> {
    const { reads, schema, box } = this.#connections
    return this.#read(() => listEntries(reads, schema, box, kind))
  }

  async putEntry<K extends RegistryKind>(kind: K, item: RegistryItems[K], expectedVersion: number): Promise<number> {
    const put = { kind, item, expectedVersion }
    const problem = putProblem(await this.#call(putEntryWrite(this.#connections.box), put), put)
    if (problem !== null) throw problem
    if (kind === 'endpoint') await this.#read(async () => this.#endpoints.ensure([item.id]))
    this.#hints.sayRegistry()
    return expectedVersion + 1
  }

  async removeEntry(kind: RegistryKind, id: string): Promise<void> {
    await this.#call(removeEntryWrite, { kind, id })
    if (kind === 'endpoint') this.#endpoints.noteRemoved(id)
    this.#hints.sayRegistry()
  }

  // ── Dead letters ────────────────────────────────────────────────────────────────────────────────────────────────

  groupDeadLetters(filter: DeliveryFilter, by: GroupBy, limit: number): Promise<readonly DeadLetterGroup[]> {
    return this.#read(() => this.#longReads.groupDeadLetters(filter, by, limit))
  }

  /** Found on the side, and deleted by key if they are as they were. */
  async discard(filter: DeliveryFilter, limit: number, settledBy: number): Promise<number> {
    for (;;) {
      const found = await this.#read(() => this.#longReads.findDead(filter, limit, settledBy))
      if (found.length === 0) return 0
      const count = await this.#call(discardWrite, found)
      // All of them changed between the two: that says nothing about what else there is.
      if (count > 0) return count
    }
  }

  findWaiting(filter: DeliveryFilter, before: string | null, limit: number): Promise<readonly string[]> {
    return this.#read(() => this.#longReads.findWaiting(filter, before, limit))
  }

  async cancelWaiting(deliveryIds: readonly string[], now: number): Promise<readonly CancelledDelivery[]> {
    const ended = await this.#read(() => this.#revival.cancel(deliveryIds, now))
    return ended.map(({ delivery: { id, eventId, endpointId }, tenant, type }) => {
      return { deliveryId: id, eventId, endpointId, tenant, type }
    })
  }

  async countSelection(selection: Selection, tenant: string | null): Promise<number> {
    return (await this.#read(() => this.#longReads.measure(selection, tenant))).matched
  }

  /** Counted on the side; the last row key that the job may touch is fixed by then. */
  async createReplay(replay: Omit<Replay, 'matched'>): Promise<Replay> {
    const { matched, lastKey } = await this.#read(() => this.#longReads.measure(replay.selection, replay.tenant))
    return this.#read(() => this.#replays.create({ ...replay, matched }, lastKey))
  }

  getReplay(id: string): Promise<Replay | null> {
    return this.#read(() => this.#reads.getReplay(id))
  }

  listReplays(query: ReplayQuery): Promise<Page<Replay>> {
    return this.#read(() => this.#reads.listReplays(query))
  }

  async changeReplay(id: string, from: ReplayStatus, to: ReplayStatus, now: number): Promise<Replay | null> {
    await this.#read(() => this.#replays.change(id, from, to, now))
    return this.getReplay(id)
  }

  stepReplay(step: ReplayStep): Promise<ReplayStepped> {
    return this.#read(() => this.#replays.step(step))
  }

  // ── Upkeep ──────────────────────────────────────────────────────────────────────────────────────────────────────

  expire(request: ExpireRequest): Promise<Expired> {
    return this.#read(() => this.#upkeep.expire(request))
  }

  prune(request: PruneRequest): Promise<Pruned> {
    return this.#read(() => this.#upkeep.prune(request))
  }

  stats(): Promise<StoreStats> {
    return this.#read(() => this.#longReads.stats())
  }

  headlessLanes(): Promise<number> {
    return this.#read(() => this.#longReads.headlessLanes())
  }

  deadLettersSince(at: number): Promise<readonly DeadLetterCount[]> {
    return this.#read(() => this.#reads.deadLettersSince(at))
  }

  health(): StoreHealth {
    return this.#connections.health
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([this.#hints.close(), this.#connections.close()])
  }

  #hear({ due, conditions, ...flags }: Hint): void {
    this.#claims.lookBelow(due)
    const idsOf = (numbers: readonly number[]) => numbers.flatMap((no) => this.#endpoints.knownId(no) ?? [])
    const heard: MemberHint = { endpointIds: idsOf(due), conditionsOf: idsOf(conditions), ...flags }
    for (const listener of this.#hintListeners) listener(heard)
  }

  #numbersOf(endpointIds: readonly string[]): readonly number[] {
    return endpointIds.flatMap((id) => this.#endpoints.known(id)?.no ?? [])
  }

  /** What is neither an arrival nor an outcome. */
  #call<Item, Result>(write: Write<Item, Result>, item: Item): Promise<Result> {
    return this.#streamFor(false, 'rest').write(write, item)
  }

  /** What goes through an ordered lane is written in one order, whatever it is. */
  #streamFor(isLaned: boolean, otherwise: 'arrivals' | 'outcomes' | 'rest'): WriteStream {
    return this.#connections.streams[isLaned ? 'lanes' : otherwise]
  }

  async #read<T>(work: () => Promise<T> | T): Promise<T> {
    if (this.#isClosed) throw new PosthornError('shutting_down', 'The store is closed.')
    try {
      return await work()
    } catch (error) {
      if (this.#isClosed) throw new PosthornError('shutting_down', 'The store is closed.', { cause: error })
      throw asFailure(error)
    }
  }
}
