import { conditionProbing, conditionReset } from '../core/condition.ts'
import { nextAction, nextStart, wantsNext } from '../core/next-action.ts'
import type { Change, ChangeResult, Claim } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import { Ahead } from './ahead.ts'
import { type AttemptMade, makeAttempt, parcelOf } from './attempt.ts'
import { Claimer } from './claimer.ts'
import { type DecisionParts, Decisions, type Returned } from './decide.ts'
import type { EndpointWork, Queue, Underway } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Memory } from './memory.ts'
import { NamedClaims } from './named-claims.ts'
import type { Orphans } from './orphans.ts'
import type { LostLinks } from './pull-back.ts'
import { Quarantine } from './quarantine.ts'
import { report } from './report.ts'
import type { Settler } from './settler.ts'
import { Slots } from './slots.ts'
import type { StuckLanes } from './stuck-lanes.ts'
import type { TransportSet } from './transport-set.ts'
import { Untried } from './untried.ts'
import { Wakeups } from './wakeups.ts'

export type LoopParts = DecisionParts &
  Readonly<{
    store: Store
    transport: TransportSet
    memory: Memory
    settler: Settler
    orphans: Orphans
    stuckLanes: StuckLanes
    lostLinks: LostLinks
    attemptsMax: number
    stopping: AbortSignal
    /** Whether what is claimed here is still this process's own. */
    mayWork: () => boolean
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
  readonly #parts: LoopParts
  readonly #slots: Slots
  readonly #claimer: Claimer
  readonly #named: NamedClaims
  readonly #decisions: Decisions
  readonly #quarantine: Quarantine
  readonly #untried: Untried
  /** For what is due in the store. */
  readonly #wakeups: Wakeups<EndpointWork>
  /** For a token of the rate limit. */
  readonly #tokens: Wakeups<EndpointWork>
  /** Attempts under way, of removed endpoints too. */
  readonly #underway = new Set<Underway>()

  constructor(parts: LoopParts) {
    const goOn = (work: EndpointWork) => this.goOn(work)
    this.#parts = parts
    this.#slots = new Slots(parts.attemptsMax)
    this.#claimer = new Claimer({ ...parts, goOn })
    const receive = (work: EndpointWork, claim: Claim, queue: Queue) => this.#receiveStored(work, claim, queue)
    this.#named = new NamedClaims({ ...parts, receive, goOn })
    this.#decisions = new Decisions(parts)
    this.#quarantine = new Quarantine(goOn, (suspect) => this.#named.fetch(suspect))
    this.ahead = new Ahead({ ...parts, goOn, decisions: this.#decisions })
    this.#untried = new Untried({
      ...parts,
      slots: this.#slots,
      quarantine: this.#quarantine,
      ahead: this.ahead,
      onSettled: (work, to, result) => {
        this.#afterSettled(work, to, result)
        this.goOn(work)
      },
    })
    this.#wakeups = new Wakeups(parts.clock.steady, goOn)
    this.#tokens = new Wakeups(parts.clock.steady, goOn)
  }

  /** Attempts under way, and whatever waits for the disk. */
  get inFlight(): number {
    return this.#slots.occupied
  }

  /** Neither an attempt nor a claim nor a read is under way. */
  get isIdle(): boolean {
    if (this.#slots.occupied > 0 || !this.#parts.orphans.isIdle) return false
    return this.#claimer.underway + this.#named.underway + this.ahead.underway === 0
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
    this.ahead.goingOn(work, allowed)
    for (;;) {
      const keptOut = this.#quarantine.keepsOut(work)
      const action = nextAction(work.situation(this.#slots.isWaiting(work), keptOut, allowed), now)
      switch (action.kind) {
        case 'end':
          this.#untried.endAll(work)
          break
        case 'hand_back':
          this.#untried.handBackAll(work, action.which)
          break
        case 'start':
          this.#slots.join(work)
          break
        case 'wait':
          this.#wakeups.schedule(work, action.until)
          return
        case 'keep_out':
          this.#quarantine.goOnAfter(work)
          return
        case 'claim':
          this.#claim(work, action.limit)
          return
        case 'refuse':
          this.#refuse(work, action.limit)
          return
        case 'rest':
          return
      }
    }
  }

  // ── 1. Claim ────────────────────────────────────────────────────────────────────────────────────────────────────

  #claim(work: EndpointWork, limit: number): void {
    if (!this.#parts.mayWork()) return
    this.#claimer.claim(work, limit, (claims) => {
      for (const claim of claims) this.#receiveStored(work, claim)
    })
  }

  /** `whenOpen: fail`: what is due while the breaker is open fails at once. */
  #refuse(work: EndpointWork, limit: number): void {
    if (!this.#parts.mayWork()) return
    this.#claimer.claim(work, limit, (claims) => {
      // The probe may have closed the breaker meanwhile.
      const isRefused = work.passage(this.#parts.clock.steady()) === 'refuse'
      for (const claim of claims) {
        if (isRefused) this.#untried.end(work, claim, 'breaker_open')
        else this.#receiveStored(work, claim)
      }
    })
  }

  /** Receives what was claimed at its birth, and is fresh from the intake; `giveSlots` starts it. */
  receiveFresh(work: EndpointWork, claim: Claim): void {
    this.#receive(work, claim)
    this.#act(work)
  }

  /** A person's retry: brings the delivery now, whatever backoff, breaker and hold say. */
  hurry(work: EndpointWork, deliveryId: string): Promise<void> {
    return this.#named.hurry(work, deliveryId)
  }

  /** Receives what came from the store, where others may wait behind it. */
  #receiveStored(work: EndpointWork, claim: Claim, queue: Queue = 'ready'): void {
    this.ahead.claimed(work)
    this.#receive(work, claim, queue)
  }

  #receive(work: EndpointWork, claim: Claim, queue: Queue = 'ready'): void {
    switch (this.#quarantine.judge(work, claim)) {
      case 'run':
        work.enqueue(claim, queue)
        break
      case 'run_alone':
        work.enqueue(claim, 'next')
        break
      case 'later':
        this.#untried.handBack(work, claim)
        break
      case 'crashed':
        this.#untried.end(work, claim, 'crashed')
        break
    }
    if (!this.#parts.stopping.aborted) return
    if (work.isRemoved) this.#untried.endAll(work)
    else this.#untried.handBackAll(work)
  }

  // ── 2. Attempt ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** Starts attempts as long as there are slots. */
  giveSlots(): void {
    const { settler, stopping, mayWork } = this.#parts
    if (!mayWork()) return
    const mayStart = (work: EndpointWork): boolean =>
      !stopping.aborted && settler.writable && !this.#quarantine.bars(work)
    this.#slots.give(mayStart, (work) => this.#startOne(work))
  }

  /** Answers whether the endpoint wants another turn. */
  #startOne(work: EndpointWork): boolean {
    const now = this.#parts.clock.steady()
    const turn = work.turn(now)
    if (turn === null) return false
    const next = nextStart(turn, now)
    switch (next.kind) {
      case 'start':
        this.#start(work, work.begin(next.probe, now))
        return work.queued > 0
      case 'hand_back':
        this.#untried.handBack(work, work.takeNext())
        return work.queued > 0
      case 'ask_probe':
        this.#parts.conditions.askProbe(work)
        return false
      case 'wait':
        this.#tokens.schedule(work, next.until)
        return false
      case 'rest':
        return false
    }
  }

  #start(work: EndpointWork, underway: Underway): void {
    this.#underway.add(underway)
    this.#slots.occupy()
    this.#quarantine.starting(work)
    this.#deliver(work, underway).catch((err) => {
      // A defect costs the attempt and no more: what was not written is left to its lease, and tried again then.
      this.#parts.log.error({ err, deliveryId: underway.claim.delivery.id }, 'delivery.defect')
      this.goOn(work)
    })
    this.ahead.started(work)
  }

  /** The way of one delivery, from its slot to its report. */
  async #deliver(work: EndpointWork, underway: Underway): Promise<void> {
    let chain: readonly Returned[] = []
    let results: readonly ChangeResult[] = []
    try {
      const made = await this.#attempt(work, underway)
      chain = this.#decide(work, underway, made)
      results = await this.#settle(work, chain)
    } finally {
      this.#free(work, underway, chain)
      this.ahead.settled(work, underway.claim, chain, results)
    }
    for (const [index, one] of chain.entries()) this.#report(work, one, results[index] ?? { kind: 'stale' })
    this.goOn(work)
  }

  async #attempt(work: EndpointWork, underway: Underway): Promise<AttemptMade> {
    const { claim, probe, startedAt, abort } = underway
    const { endpoint } = work
    const { conditions } = this.#parts
    try {
      if (probe) conditions.change(work, (condition) => conditionProbing(condition, endpoint, startedAt))
      this.ahead.starting(work, claim)
      const made = await makeAttempt(this.#parts, parcelOf(endpoint, claim.delivery, claim.event), abort.signal)
      work.noteTook(this.#parts.clock.steady() - startedAt)
      if (made.outcome.kind === 'delivered') work.noteAnswered(underway)
      return made
    } finally {
      this.#underway.delete(underway)
    }
  }

  /** Nothing is held for it any more, whatever has happened. */
  #free(work: EndpointWork, underway: Underway, chain: readonly Returned[]): void {
    work.end(underway)
    this.#slots.free()
    const held = chain.length === 0 ? [underway] : chain
    for (const { claim } of held) this.#parts.memory.free(work, claim.event.body)
    this.#quarantine.settled(work, underway.claim)
  }

  // ── 3. Decide ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** What has ended: this attempt, and what had been sent ahead behind it and came back before its turn. */
  #decide(work: EndpointWork, underway: Underway, made: AttemptMade): readonly Returned[] {
    return this.ahead.returned(work, this.#decisions.decide(work, underway.claim, made, underway))
  }

  // ── 4. Settle ───────────────────────────────────────────────────────────────────────────────────────────────────

  #settle(work: EndpointWork, chain: readonly Returned[]): Promise<readonly ChangeResult[]> {
    const settled = this.#parts.settler.settle(this.#changes(work, chain))
    // It has its slot back: the next that waits in memory need not wait for the disk.
    if (chain[0]?.made.outcome.kind === 'delivered' && work.queued > 0) {
      this.#slots.join(work)
      this.giveSlots()
    }
    return settled
  }

  #changes(work: EndpointWork, chain: readonly Returned[]): readonly Change[] {
    const wantsNext = chain[0]?.claim.delivery.lane != null && this.#wantsNext(work)
    const claimNext = wantsNext ? this.#parts.clock.steady() + leaseMs : null
    return chain.map(({ decision: { to, attempt }, made }, index) => ({
      to,
      attempt,
      claimNext,
      ran: made.report.kind !== 'interrupted',
      follows: index > 0,
    }))
  }

  /** Whether the next of a lane is wanted at once. */
  #wantsNext(work: EndpointWork): boolean {
    const { clock, memory, stopping } = this.#parts
    if (stopping.aborted || memory.isTight) return false
    return wantsNext(work.standing, work.allowance(clock.steady()), this.#quarantine.keepsOut(work))
  }

  // ── 5. Report ───────────────────────────────────────────────────────────────────────────────────────────────────

  #report(work: EndpointWork, { claim, made, decision, now }: Returned, result: ChangeResult): void {
    const { stuckLanes, lostLinks } = this.#parts
    const { to, whyDisabled } = decision
    report(this.#parts, work.endpoint, claim, made, { to, result })
    if (result.kind === 'applied') {
      stuckLanes.check(work.endpoint, claim.delivery, to, now)
      if (to.status === 'pending') lostLinks.endWaitsAfter(work, to.lastError)
    }
    if (whyDisabled !== null) {
      const disabled = this.#decisions.disable(work, whyDisabled).then(() => this.goOn(work))
      disabled.catch((err) => this.#parts.log.error({ err, endpointId: to.endpointId }, 'endpoint.defect'))
    }
    this.#afterSettled(work, to, result)
  }

  /** What the end of one delivery brings for its endpoint: the next of its lane, or something that is due. */
  #afterSettled(work: EndpointWork, to: Change['to'], result: ChangeResult): void {
    const { log, memory, clock, store, stopping } = this.#parts
    if (result.kind === 'stale') log.warn({ deliveryId: to.id }, 'delivery.changed_meanwhile')
    else if (result.next !== null) {
      memory.force(work, result.next.event.body)
      this.#receiveStored(work, result.next)
    } else if (result.released) work.noteDue(clock.steady())
    const dueAt = to.status === 'pending' ? to.dueAt : null
    if (dueAt !== null) work.noteDue(dueAt)
    // What becomes due and cannot be tried here is another member's.
    const isOthers = work.isOthers || stopping.aborted
    if (isOthers && result.kind === 'applied' && (dueAt !== null || result.released))
      store.hint('due', [work.endpoint.id])
  }

  // ── From outside ────────────────────────────────────────────────────────────────────────────────────────────────

  /** Whether nothing fresh may be taken for this endpoint now. */
  keepsOut(work: EndpointWork): boolean {
    return this.#quarantine.keepsOut(work)
  }

  /** Hands what waits in memory back to the store. */
  handBack(work: EndpointWork): void {
    this.#untried.handBackAll(work)
  }

  /** The endpoint was deleted: ends what waits for it, in memory and in the store. */
  endAll(work: EndpointWork): void {
    this.#untried.endAll(work)
  }

  /** Closes the breaker and ends the hold, because a person says so. */
  resetBreaker(work: EndpointWork): void {
    this.#parts.conditions.change(work, conditionReset)
    this.goOn(work)
  }

  /** Nothing wakes up any more. */
  close(): void {
    this.#wakeups.stop()
    this.#tokens.stop()
  }

  /** Aborts the attempts under way; their deliveries are handed back. */
  interrupt(): void {
    for (const { abort } of this.#underway) abort.abort()
  }
}
