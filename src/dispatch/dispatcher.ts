import type { Attempt } from '../core/attempt.ts'
import type { Clock } from '../core/clock.ts'
import { type Condition, conditionAdopting, freshCondition, revivedCondition } from '../core/condition.ts'
import type { DeliveryFilter } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Event } from '../core/event.ts'
import { retryAfterMsMax } from '../core/failure-classifier.ts'
import { isCrowded } from '../core/next-action.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { SharedState } from '../shared-state/shared-state.ts'
import type { MemberNews } from '../store/cluster-store.ts'
import type { Store } from '../store/store.ts'
import { tryOut } from './attempt.ts'
import { BacklogLooks } from './backlog-looks.ts'
import { type CancelAnswer, cancelDelivery } from './cancel.ts'
import { type CancelledMany, type CancelMany, cancelMatching } from './cancel-matching.ts'
import type { Catalogue } from './catalogue.ts'
import { Conditions } from './conditions.ts'
import { Drain } from './drain.ts'
import { EndpointWork } from './endpoint-work.ts'
import { Fresh } from './fresh.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { Loop } from './loop.ts'
import { LostClaims } from './lost-claims.ts'
import { Membership, type MembershipParts } from './membership.ts'
import { Memory } from './memory.ts'
import { Orphans } from './orphans.ts'
import type { OtherHubs } from './other-hubs.ts'
import { LostLinks, pullBackAll } from './pull-back.ts'
import { reportUntried } from './report.ts'
import { type RetryAnswer, retryDelivery } from './retry.ts'
import { Settler } from './settler.ts'
import { StuckLanes } from './stuck-lanes.ts'
import type { TransportSet } from './transport-set.ts'

export type DispatcherParts = Readonly<{
  store: Store
  /** What all members agree on while they work. */
  state: SharedState
  catalogue: Catalogue
  transport: TransportSet
  otherHubs: OtherHubs
  clock: Clock
  random: () => number
  log: Logger
  notices: Notices
  machineNow: () => number
  onStoreTime: MembershipParts['onStoreTime']
  /** Makes the event of a try-out: it is signed and sent like any other, but not kept. */
  composeTest: (endpoint: Endpoint, content: { type: string; data: Uint8Array }) => Event
  /** A lane whose head has failed for longer is told of. */
  laneStuckMs: number
  attemptsMax: number
  memoryBytesMax: number
}>

/**
 * Puts the parts of the loop together, one EndpointWork for each endpoint, and takes what people and other members ask for.
 * The store's rows are the truth: everything here can be thrown away at any time.
 */
export class Dispatcher {
  readonly settling: Settler
  /** For the intake. */
  readonly fresh: Fresh
  readonly membership: Membership
  readonly #parts: DispatcherParts
  readonly #works = new Map<string, EndpointWork>()
  readonly #memory: Memory
  readonly #conditions: Conditions
  readonly #loop: Loop
  readonly #lostLinks: LostLinks
  readonly #leases: LeaseKeeper
  readonly #lostClaims: LostClaims
  readonly #orphans: Orphans
  readonly #backlog: BacklogLooks
  readonly #drain: Drain
  readonly #stopping = new AbortController()
  #stopped: Promise<void> | null = null
  #paused = false
  #standsAside = false

  constructor(parts: DispatcherParts) {
    this.#parts = parts
    const { store, log, clock } = parts
    this.#memory = new Memory(parts.memoryBytesMax)
    this.#conditions = new Conditions({ ...parts, goOn: (work) => this.#loop.goOn(work) })
    this.settling = new Settler(store, log, {
      onRecovered: () => this.#loop.goOnAll(this.#works.values()),
      onIdle: () => this.#drain.check(),
    })
    const stopping = this.#stopping.signal
    this.#orphans = new Orphans({ ...parts, settler: this.settling, stopping, onEnded: () => this.#drain.check() })
    const goOn = (work: EndpointWork) => this.#loop.goOn(work)
    this.#lostLinks = new LostLinks({ ...parts, stopping, goOn })
    this.#loop = new Loop({
      ...parts,
      settler: this.settling,
      memory: this.#memory,
      conditions: this.#conditions,
      stuckLanes: new StuckLanes(parts),
      lostLinks: this.#lostLinks,
      orphans: this.#orphans,
      stopping,
      mayWork: () => this.membership.checkLease(),
      onEnded: () => this.#drain.check(),
    })
    this.fresh = new Fresh({
      ...parts,
      works: this.#works,
      memory: this.#memory,
      settler: this.settling,
      orphans: this.#orphans,
      loop: this.#loop,
      stopping,
      onEnded: () => this.#drain.check(),
    })
    this.membership = new Membership({ ...parts, news: () => this.#news })
    this.membership.listen({
      onMembership: (isMember) => this.#onMembership(isMember),
      onMembers: () => this.#onMembers(),
    })
    this.#leases = new LeaseKeeper(store, clock, log, () => this.#works.values())
    this.#lostClaims = new LostClaims({
      ...parts,
      settler: this.settling,
      works: this.#works,
      now: clock.steady,
      isMember: () => this.membership.isMember,
      goOn: (work) => this.#loop.goOn(work),
    })
    this.#backlog = new BacklogLooks({
      ...parts,
      works: this.#works,
      membership: this.membership,
      orphans: this.#orphans,
      goOn,
    })
    this.#drain = new Drain(() => this.#loop.isIdle && this.settling.idle && this.fresh.expected === 0)
  }

  async start(): Promise<void> {
    const { store, catalogue, transport, clock } = this.#parts
    await this.membership.start()
    const now = clock.steady()
    const conditions = await this.#conditions.load()
    const endpoints = catalogue.list()
    for (const endpoint of endpoints) {
      const condition = conditions.get(endpoint.id) ?? freshCondition(endpoint.id)
      this.#works.set(
        endpoint.id,
        new EndpointWork(endpoint, revivedCondition(condition, endpoint, now, retryAfterMsMax), now),
      )
      this.#put(endpoint)
    }
    await this.#conditions.start([...this.#works.values()])
    await pullBackAll(store, endpoints, now)
    catalogue.onChange((change) => {
      if (change.kind === 'put') this.#put(change.endpoint)
      else this.#remove(change.endpoint.id)
    })
    transport.onServing((endpointId) => this.#onServing(this.#works.get(endpointId)))
    transport.onRoom((endpointId) => {
      const work = this.#works.get(endpointId)
      if (work !== undefined) this.#loop.ahead.fill(work)
    })
    store.onHint(({ endpointIds, conditionsOf }) => {
      this.#goOnHere(endpointIds)
      this.#conditions.heard(conditionsOf.flatMap((id) => this.#works.get(id) ?? []))
    })
    await this.#backlog.start()
    this.#leases.start()
    if (this.membership.isShared) this.#lostClaims.start()
  }

  /** Takes nothing new, lets what is under way finish within the grace time, and hands the rest back untried. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#stop(graceMs)
    return this.#stopped
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopping.abort()
    this.#backlog.stop()
    this.#loop.close()
    for (const work of this.#works.values()) this.#loop.handBack(work)
    this.membership.tell()
    await this.#drain.wait(graceMs, () => this.#loop.interrupt())
    this.settling.abandon()
    this.#leases.stop()
    this.#lostClaims.stop()
    await this.#conditions.close()
    await this.membership.stop()
  }

  // ── What people ask ─────────────────────────────────────────────────────────────────────────────────────────────

  conditionOf(endpointId: string): Condition {
    return this.#works.get(endpointId)?.condition ?? freshCondition(endpointId)
  }

  /** Whether there is somebody who could take this endpoint's deliveries, here or at another member. */
  isServed(endpointId: string): boolean {
    const work = this.#works.get(endpointId)
    if (work === undefined) return false
    const { otherHubs } = this.#parts
    return work.isServed || this.membership.hasHandlerElsewhere(endpointId) || otherHubs.serves(work.endpoint)
  }

  /** The endpoints whose handlers run here. */
  get handlers(): readonly string[] {
    const served = [...this.#works.values()].filter(({ isServed }) => isServed)
    return served.flatMap(({ endpoint: { id, kind } }) => (kindFacts[kind].runsHere ? [id] : []))
  }

  load(): Readonly<{ inFlight: number; queued: number; bytes: number }> {
    let queued = 0
    for (const work of this.#works.values()) queued += work.queued + work.reserved
    return { inFlight: this.#loop.inFlight, queued, bytes: this.#memory.used }
  }

  /** What members should agree on and cannot; null: they do. */
  get disagreement(): string | null {
    return this.#conditions.problem
  }

  get leads(): boolean {
    return this.membership.isLeader
  }

  /** Whether nothing is delivered: events are taken in, and wait. */
  get paused(): boolean {
    return this.#paused
  }

  /** Tries under way come to their end, and no further one begins. */
  set paused(paused: boolean) {
    this.#paused = paused
    this.#parts.log.warn({}, paused ? 'dispatch.paused' : 'dispatch.resumed')
    this.#setHalted()
  }

  /** Paused while the others deliver: they take its share of limits. */
  set standsAside(aside: boolean) {
    this.#standsAside = aside
    this.membership.tell()
  }

  get #news(): MemberNews {
    return { handlers: this.handlers, isWorking: !this.#standsAside && !this.#stopping.signal.aborted }
  }

  /** Takes a token of the endpoint's rate limit for a try-out; how long until there is one, if there is none now. */
  tryOutWaitMs(endpointId: string): number | null {
    const now = this.#parts.clock.steady()
    const until = this.#works.get(endpointId)?.takeToken(now) ?? null
    return until === null ? null : until - now
  }

  async tryOut(endpoint: Endpoint, content: { type: string; data: Uint8Array }): Promise<Attempt> {
    return tryOut(this.#parts, endpoint, this.#parts.composeTest(endpoint, content), this.#stopping.signal)
  }

  retry(deliveryId: string): Promise<RetryAnswer> {
    const { store, clock } = this.#parts
    return retryDelivery(store, clock, deliveryId, {
      known: (endpointId) => this.#works.has(endpointId),
      hurry: async (endpointId) => {
        const work = this.#works.get(endpointId)
        if (work?.isOthers) this.goOnAt([endpointId])
        else if (work !== undefined) await this.#loop.hurry(work, deliveryId)
      },
    })
  }

  /** The next in its lane is due at once. */
  cancel(deliveryId: string): Promise<CancelAnswer> {
    return cancelDelivery(this.#parts, deliveryId, (record) => {
      reportUntried(this.#parts, record.delivery, record)
      this.#laneChanged([record.delivery.endpointId])
    })
  }

  /** The same for all that wait and match. */
  cancelMatching(filter: DeliveryFilter, request: CancelMany): Promise<CancelledMany> {
    const onCancelled = (endpointIds: readonly string[]): void => this.#laneChanged(endpointIds)
    return cancelMatching({ ...this.#parts, onCancelled }, filter, request)
  }

  /** Closes the breaker and ends the hold; answers whether there is such an endpoint. */
  resetBreaker(endpointId: string): boolean {
    const work = this.#works.get(endpointId)
    if (work === undefined) return false
    this.#loop.resetBreaker(work)
    return true
  }

  /** Something became due at these endpoints; other members hear of it too. */
  goOnAt(endpointIds: readonly string[]): void {
    this.#parts.store.hint('due', endpointIds)
    this.#goOnHere(endpointIds)
  }

  #goOnHere(endpointIds: readonly string[]): void {
    const now = this.#parts.clock.steady()
    for (const id of endpointIds) {
      const work = this.#works.get(id)
      if (work === undefined) continue
      work.noteDue(now)
      this.#loop.goOn(work)
    }
  }

  /** Whether one of them could take more and still has something due in the store. */
  isCrowded(endpointIds: readonly string[]): boolean {
    const now = this.#parts.clock.steady()
    return endpointIds.some((id) => {
      const work = this.#works.get(id)
      return work !== undefined && isCrowded(work, work.allowance(now), now)
    })
  }

  /** Lanes may have a new head: what was sent ahead behind the old one is void. */
  #laneChanged(endpointIds: readonly string[]): void {
    for (const id of endpointIds) {
      const work = this.#works.get(id)
      if (work !== undefined) this.#loop.ahead.recall(work)
    }
    this.goOnAt(endpointIds)
  }

  get #isHalted(): boolean {
    return this.#paused || !this.membership.isMember
  }

  #setHalted(): void {
    for (const work of this.#works.values()) work.stand({ halted: this.#isHalted })
    this.#loop.goOnAll(this.#works.values())
  }

  /** Others may take what is in hand here: nothing of it may be under way. What is written of it is guarded by versions. */
  #onMembership(isMember: boolean): void {
    this.#setHalted()
    if (!isMember) {
      for (const work of this.#works.values()) this.#loop.handBack(work)
      this.#loop.interrupt()
    } else this.#backlog.lookSoon()
  }

  #onMembers(): void {
    for (const work of this.#works.values()) {
      this.#share(work)
      // One that is gone may have lost a link, and not have heard that its hub is here.
      this.#lostLinks.endWaits(work)
    }
    this.#loop.goOnAll(this.#works.values())
  }

  /** Where every member serves an endpoint, its limits hold for all of them together. */
  #share(work: EndpointWork): void {
    const { id, kind, concurrency } = work.endpoint
    const { absentee } = kindFacts[kind]
    const share = absentee === null ? this.membership.shareOf(id, concurrency) : null
    work.limitTo(share, absentee !== 'hub' && this.membership.hasOthers)
  }

  #onServing(work: EndpointWork | undefined): void {
    if (work === undefined) return
    // What another member had in hand may be due by now.
    if (this.membership.isShared) work.noteDue(this.#parts.clock.steady())
    this.#put(work.endpoint)
    this.#lostLinks.endWaits(work)
  }

  #put(endpoint: Endpoint): void {
    const now = this.#parts.clock.steady()
    const work = this.#works.get(endpoint.id) ?? new EndpointWork(endpoint, freshCondition(endpoint.id), now)
    this.#loop.ahead.recall(work)
    const { endpoint: before } = work
    work.adopt(endpoint)
    work.stand({ halted: this.#isHalted, served: this.#parts.transport.serves(endpoint) })
    this.#share(work)
    this.#works.set(endpoint.id, work)
    this.#conditions.change(work, (condition) => conditionAdopting(condition, before, endpoint))
    this.#loop.goOn(work)
  }

  #remove(id: string): void {
    const work = this.#works.get(id)
    if (work !== undefined) {
      work.stand({ removed: true })
      this.#loop.endAll(work)
      this.#works.delete(id)
      this.#lostLinks.forget(work)
      this.#conditions.forget(work)
    }
    this.#orphans.endPending(id)
  }
}
