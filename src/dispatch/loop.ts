import { ended, released } from '../core/lifecycle.ts'
import { nextAction } from '../core/next-action.ts'
import type { Reason } from '../core/outcome.ts'
import type { Change, ChangeResult, Claim } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import { Ahead } from './ahead.ts'
import { parcelOf, type Tried, tryOnce } from './attempt.ts'
import { Claimer } from './claimer.ts'
import { type DecisionParts, Decisions } from './decide.ts'
import type { Ended } from './ended.ts'
import type { EndpointWork, Queue, Underway } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Memory } from './memory.ts'
import type { Orphans } from './orphans.ts'
import { LostLinks } from './pull-back.ts'
import { Quarantine, type Suspect } from './quarantine.ts'
import { report, reportUntried } from './report.ts'
import type { Settler } from './settler.ts'
import { Slots } from './slots.ts'
import type { StuckLanes } from './stuck-lanes.ts'
import type { TransportSet } from './transport-set.ts'
import { Wakeups } from './wakeups.ts'

export type LoopParts = DecisionParts &
  Readonly<{
    store: Store
    transport: TransportSet
    memory: Memory
    settler: Settler
    orphans: Orphans
    stuckLanes: StuckLanes
    triesMax: number
    stopping: AbortSignal
    /** Something has ended: perhaps nothing is under way any more. */
    onEnded: () => void
  }>

/**
 * The way of a delivery: claim → attempt → decide → settle → report, for every endpoint by itself and fair among them.
 *
 * Three things hang on it by a hook each, and can be skipped by a reader: what is sent to a hub before its turn
 * (`ahead`), handlers that may have ended the process (`quarantine`), and waits that end with a new link (`lostLinks`).
 */
export class Loop {
  readonly ahead: Ahead
  readonly lostLinks: LostLinks
  readonly #parts: LoopParts
  readonly #slots: Slots
  readonly #claimer: Claimer
  readonly #decisions: Decisions
  readonly #quarantine: Quarantine
  readonly #wakeups: Wakeups<EndpointWork>
  /** Attempts under way, of removed endpoints too. */
  readonly #underway = new Set<Underway>()

  constructor(parts: LoopParts) {
    const goOn = (work: EndpointWork) => this.goOn(work)
    this.#parts = parts
    this.#slots = new Slots(parts.triesMax)
    this.#claimer = new Claimer({ ...parts, goOn })
    this.#decisions = new Decisions(parts)
    this.#quarantine = new Quarantine(goOn, (suspect) => this.#fetch(suspect))
    this.#wakeups = new Wakeups(parts.clock.steady, goOn)
    this.ahead = new Ahead({ ...parts, goOn })
    this.lostLinks = new LostLinks({ ...parts, goOn })
  }

  /** Attempts under way, and whatever waits for the disk. */
  get inFlight(): number {
    return this.#slots.taken
  }

  /** Neither an attempt nor a claim nor a read is under way. */
  get isIdle(): boolean {
    return this.#slots.taken === 0 && this.#claimer.underway === 0 && this.ahead.underway === 0
  }

  // ── What an endpoint does next ──────────────────────────────────────────────────────────────────────────────────

  /** Does whatever is possible at this endpoint now. */
  goOn(work: EndpointWork): void {
    this.#act(work)
    this.giveSlots()
    this.#parts.onEnded()
  }

  goOnAll(works: Iterable<EndpointWork>): void {
    for (const work of works) this.#act(work)
    this.giveSlots()
  }

  #act(work: EndpointWork): void {
    const { clock, settler, stopping } = this.#parts
    if (stopping.aborted || !settler.writable) return
    const now = clock.steady()
    const allowed = work.allowance(now)
    this.ahead.goOn(work, allowed)
    for (;;) {
      const action = nextAction(work.situation(this.#slots.isWaiting(work), allowed), now)
      switch (action.kind) {
        case 'hand_back':
          this.handBack(work, action.which)
          break
        case 'start':
          this.#slots.join(work)
          break
        case 'wait':
          if (!this.#quarantine.holds(work)) this.#wakeups.schedule(work, action.until)
          return
        case 'claim':
          if (!this.#quarantine.holds(work)) this.#claim(work, action.limit)
          return
        case 'refuse':
          if (!this.#quarantine.holds(work)) this.#refuse(work, action.limit)
          return
        case 'rest':
          return
      }
    }
  }

  // ── 1. Claim ────────────────────────────────────────────────────────────────────────────────────────────────────

  #claim(work: EndpointWork, limit: number): void {
    this.#claimer.claim(work, limit, (claims) => {
      for (const claim of claims) this.#take(work, claim)
      if (claims.length > 0) this.ahead.noteWaiting(work)
    })
  }

  /** `whenOpen: fail`: what is due while the breaker is open fails at once. */
  #refuse(work: EndpointWork, limit: number): void {
    this.#claimer.claim(work, limit, (claims) => {
      // The probe may have closed the breaker meanwhile.
      const isOpen = work.allowance(this.#parts.clock.steady()).kind === 'wait'
      for (const claim of claims) {
        if (isOpen) this.#end(work, claim, 'breaker_open')
        else this.#take(work, claim)
      }
    })
  }

  /** Takes up what was claimed at its birth, and is fresh from the intake; `giveSlots` starts it. */
  takeFresh(work: EndpointWork, claim: Claim): void {
    this.#take(work, claim)
    this.#act(work)
  }

  /** Takes a named delivery now, whatever backoff, breaker and hold say. */
  async hurry(work: EndpointWork, deliveryId: string): Promise<void> {
    const { clock, stopping } = this.#parts
    work.noteDue(clock.steady())
    if (!work.isServing || stopping.aborted) return
    // It is on disk as due: nobody who asked for it waits until there is memory for it.
    const hasRoom = this.#claimer.hasRoom
    const hurried = this.#claimNamed(work, deliveryId, { queue: 'urgent', waits: true })
    if (hasRoom) await hurried
  }

  /** Claims a suspect; one that is not to be had any more comes back by itself, or never. */
  async #fetch({ work, deliveryId }: Suspect): Promise<void> {
    if (!work.isServing || this.#parts.stopping.aborted) return
    // All other handlers stand still for it, and hold what they have: it must not wait for their memory.
    await this.#claimNamed(work, deliveryId, { queue: 'ready', waits: false })
  }

  async #claimNamed(
    work: EndpointWork,
    deliveryId: string,
    { queue, waits }: Readonly<{ queue: Queue; waits: boolean }>,
  ): Promise<void> {
    try {
      const claims = await this.#claimer.named(work, deliveryId, { waits })
      for (const claim of claims) this.#take(work, claim, queue)
      if (claims.length > 0) this.ahead.noteWaiting(work)
    } catch (err) {
      // It is due, and on disk as such: the next claim brings it.
      this.#parts.log.warn({ err, deliveryId }, 'claim.failed')
    }
    this.goOn(work)
  }

  #take(work: EndpointWork, claim: Claim, queue: Queue = 'ready'): void {
    switch (this.#quarantine.judge(work, claim)) {
      case 'run':
        work.enqueue(claim, queue)
        break
      case 'run_alone':
        work.enqueue(claim, 'next')
        break
      case 'later':
        this.#release(work, claim)
        break
      case 'crashed':
        this.#end(work, claim, 'crashed')
        break
    }
    if (this.#parts.stopping.aborted) this.handBack(work)
  }

  // ── 2. Attempt ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Starts attempts as long as there are slots. */
  giveSlots(): void {
    const { settler, stopping } = this.#parts
    const mayStart = (work: EndpointWork): boolean =>
      !stopping.aborted && settler.writable && !this.#quarantine.bars(work)
    this.#slots.give(mayStart, (work) => this.#startOne(work))
  }

  /** Answers whether the endpoint wants another turn. */
  #startOne(work: EndpointWork): boolean {
    const now = this.#parts.clock.steady()
    const claim = work.startable(now)
    if (claim === null) return false
    if (claim.delivery.leaseEndsAt < now + work.endpoint.timeoutMs) {
      // The lease could end before the attempt does, and then another might begin: back to the store, for a new one.
      work.dequeue(claim)
      this.#release(work, claim)
      return work.queued > 0
    }
    const tokenAt = work.takeToken(now)
    if (tokenAt !== null) {
      this.#pace(work, tokenAt, now)
      return false
    }
    work.dequeue(claim)
    this.#start(work, claim, now)
    return work.queued > 0
  }

  #pace(work: EndpointWork, until: number, now: number): void {
    work.pace(until)
    setTimeout(() => {
      work.endPace(until)
      this.goOn(work)
    }, until - now).unref()
  }

  #start(work: EndpointWork, claim: Claim, now: number): void {
    const underway = work.begin(claim, now)
    this.#underway.add(underway)
    this.#slots.take()
    if (underway.probe) this.#decisions.probeStarted(work)
    this.#quarantine.started(work)
    this.ahead.begin(work, claim)
    this.#deliver(work, underway).catch((err) => {
      this.#parts.log.error({ err, deliveryId: claim.delivery.id }, 'delivery.defect')
    })
    this.ahead.fill(work)
  }

  /** The way of one delivery, from its slot to its report. */
  async #deliver(work: EndpointWork, underway: Underway): Promise<void> {
    const { claim, abort } = underway
    const parcel = parcelOf(work.endpoint, claim.delivery, claim.event)
    const tried = await tryOnce(this.#parts, parcel, abort.signal)
    this.#underway.delete(underway)
    const isDelivered = tried.outcome.kind === 'delivered'
    if (isDelivered) work.noteAnswered()
    const chain = this.#decide(work, underway, tried)
    const settled = this.#parts.settler.settle(this.#changes(work, chain))
    if (isDelivered) this.#goOnQueued(work)
    const results = await settled
    work.end(underway, isDelivered)
    this.#slots.free()
    this.#quarantine.ended(work, claim)
    this.ahead.settled(work, chain, results)
    for (const [index, one] of chain.entries()) this.#report(work, one, results[index] ?? { kind: 'stale' })
    this.goOn(work)
  }

  /** It has its slot back: whoever waits in memory need not wait for the disk. */
  #goOnQueued(work: EndpointWork): void {
    if (work.queued === 0) return
    this.#slots.join(work)
    this.giveSlots()
  }

  // ── 3. Decide ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** What has ended: this attempt, and behind it what had been sent ahead and came back before its turn. */
  #decide(work: EndpointWork, underway: Underway, tried: Tried): readonly Ended[] {
    const head = this.#decided(work, underway.claim, tried, underway)
    const behind = this.ahead.endedBehind(work, head, (claim, triedAhead, startedAt) =>
      this.#decided(work, claim, triedAhead, { startedAt, probe: false }),
    )
    return behind.length === 0 ? [head] : [head, ...behind]
  }

  #decided(work: EndpointWork, claim: Claim, tried: Tried, how: Pick<Underway, 'startedAt' | 'probe'>): Ended {
    const decision = this.#decisions.decide(work, claim.delivery, tried, how)
    return { claim, tried, decision, now: this.#parts.clock.steady() }
  }

  // ── 4. Settle ───────────────────────────────────────────────────────────────────────────────────────────────────

  #changes(work: EndpointWork, chain: readonly Ended[]): readonly Change[] {
    const wantsNext = chain[0]?.claim.delivery.lane != null && this.#wantsNext(work)
    const claimNext = wantsNext ? this.#parts.clock.steady() + leaseMs : null
    return chain.map(({ decision: { to, attempt }, tried }, index) => ({
      to,
      attempt,
      claimNext,
      ran: tried.report.kind !== 'interrupted',
      follows: index > 0,
    }))
  }

  /** Whether the next of a lane is wanted at once. */
  #wantsNext(work: EndpointWork): boolean {
    const { clock, memory, stopping } = this.#parts
    if (stopping.aborted || !work.isServing || memory.isTight || this.#quarantine.holds(work)) return false
    return work.allowance(clock.steady()).kind === 'open_to'
  }

  // ── 5. Report ───────────────────────────────────────────────────────────────────────────────────────────────────

  #report(work: EndpointWork, { claim, tried, decision, now }: Ended, result: ChangeResult): void {
    const { memory, stuckLanes } = this.#parts
    const { to, whyDisabled } = decision
    memory.free(work, claim.event.body)
    report(this.#parts, work.endpoint, claim, tried, { to, result })
    if (result.kind === 'applied') {
      stuckLanes.note(work.endpoint, claim.delivery, to, now)
      if (to.status === 'pending') this.lostLinks.noteFailure(work, to.lastError)
    }
    if (whyDisabled !== null) this.#decisions.disable(work, whyDisabled).then(() => this.goOn(work))
    this.#afterSettled(work, to, result)
  }

  /** What the end of one delivery brings for its endpoint: the next of its lane, or something that is due. */
  #afterSettled(work: EndpointWork, to: Change['to'], result: ChangeResult): void {
    const { log, memory, clock } = this.#parts
    if (result.kind === 'stale') log.warn({ deliveryId: to.id }, 'delivery.changed_meanwhile')
    else if (result.next !== null) {
      memory.force(work, result.next.event.body)
      this.ahead.noteWaiting(work)
      this.#take(work, result.next)
    } else if (result.released) work.noteDue(clock.steady())
    if (to.status === 'pending' && to.dueAt !== null) work.noteDue(to.dueAt)
  }

  // ── Without an attempt ──────────────────────────────────────────────────────────────────────────────────────────

  /** Gives what waits in memory back to the store, untried. What was deleted meanwhile ends. */
  handBack(work: EndpointWork, which: 'all' | 'ready' = 'all'): void {
    for (const claim of work.dequeueAll(which)) {
      if (work.isRemoved) this.#end(work, claim, 'endpoint_deleted')
      else this.#release(work, claim)
    }
    this.ahead.recall(work)
    if (!work.isRemoved || work.nextDueAt === null) return
    work.forgetDue()
    this.#parts.orphans.endPending(work.endpoint.id)
  }

  #release(work: EndpointWork, claim: Claim): void {
    void this.#settleUntried(work, claim, released(claim.delivery, this.#parts.clock.steady()))
  }

  #end(work: EndpointWork, claim: Claim, reason: Reason): void {
    void this.#settleUntried(work, claim, ended(claim.delivery, reason, this.#parts.clock.steady()))
  }

  async #settleUntried(work: EndpointWork, claim: Claim, to: Change['to']): Promise<void> {
    const { memory, settler } = this.#parts
    memory.free(work, claim.event.body)
    this.#slots.take()
    const [result = { kind: 'stale' }] = await settler.settle([{ to, attempt: null, claimNext: null }])
    this.#slots.free()
    this.#quarantine.handedBack(claim)
    if (result.kind === 'applied') reportUntried(this.#parts, to, claim.event)
    this.#afterSettled(work, to, result)
    this.goOn(work)
  }

  // ── From outside ────────────────────────────────────────────────────────────────────────────────────────────────

  /** Whether nothing fresh may be taken for this endpoint now. */
  holds(work: EndpointWork): boolean {
    return this.#quarantine.holds(work)
  }

  /** Closes the breaker and ends the hold, because a person says so. */
  resetBreaker(work: EndpointWork): void {
    this.#decisions.resetBreaker(work)
    this.goOn(work)
  }

  /** Nothing wakes up any more. */
  close(): void {
    this.#wakeups.stop()
  }

  /** Aborts the attempts under way; their deliveries are given back. */
  interrupt(): void {
    for (const { abort } of this.#underway) abort.abort()
  }
}
