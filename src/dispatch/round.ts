import type { Clock } from '../core/clock.ts'
import type { Delivery } from '../core/delivery.ts'
import { ended, released } from '../core/lifecycle.ts'
import type { Reason } from '../core/outcome.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Change, ChangeResult, Claim, Upcoming } from '../store/store.ts'
import type { Ahead } from './ahead.ts'
import { parcelOf, type Tried, triedAs, tryOnce } from './attempt.ts'
import type { EndpointWork, Underway } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Memory } from './memory.ts'
import type { LostLinks } from './pull-back.ts'
import type { Quarantine } from './quarantine.ts'
import { report, reportUntried } from './report.ts'
import type { Settler } from './settler.ts'
import type { StuckLanes } from './stuck-lanes.ts'
import type { TransportSet } from './transport-set.ts'
import type { Verdict, Verdicts } from './verdicts.ts'

export type RoundParts = Readonly<{
  transport: TransportSet
  clock: Clock
  log: Logger
  notices: Notices
  triesMax: number
  settler: Settler
  memory: Memory
  verdicts: Verdicts
  ahead: Ahead
  lostLinks: LostLinks
  quarantine: Quarantine
  stuckLanes: StuckLanes
  consider: (work: EndpointWork) => void
}>

/** A try that has come back, and what is to be written of it. */
type Ended = Readonly<{ claim: Claim; tried: Tried; verdict: Verdict; now: number }>

const shareMax = 0.5
const spareShare = 0.1

/** Gives slots to endpoints in turn, one try each, so that none waits for another's queue. */
export class Round {
  readonly #parts: RoundParts
  /** Who wants a slot, in the order of their turns. */
  readonly #turns = new Set<EndpointWork>()
  #tries = 0
  #settling = 0
  #closed = false
  /** One for all tries: it only ever ends them all. */
  readonly #interruption = new AbortController()

  constructor(parts: RoundParts) {
    this.#parts = parts
  }

  /** Tries under way, and those whose outcomes wait for the disk. */
  get inFlight(): number {
    return this.#tries + this.#settling
  }

  join(work: EndpointWork): void {
    this.#turns.add(work)
  }

  /** Starts tries as long as there are slots. */
  run(): void {
    const { settler, triesMax } = this.#parts
    for (const work of this.#turns) {
      if (this.#closed || !settler.writable || this.inFlight >= triesMax) return
      if (!this.#mayHaveMore(work) || this.#parts.quarantine.bars(work)) continue
      this.#turns.delete(work)
      // Whoever wants more goes to the end, behind those that have not had a turn.
      if (this.#startOne(work)) this.#turns.add(work)
    }
  }

  /** However many hang: one endpoint gets a share of the slots, and the last ones are for those that have none. */
  #mayHaveMore({ underway }: EndpointWork): boolean {
    const { triesMax } = this.#parts
    if (underway.size === 0) return true
    return underway.size < triesMax * shareMax && this.inFlight < triesMax * (1 - spareShare)
  }

  /** No further try starts. */
  close(): void {
    this.#closed = true
  }

  /** Ends the tries under way; their deliveries are given back. */
  interrupt(): void {
    this.#interruption.abort()
  }

  /** Takes up what is claimed; `run` starts it. */
  take(work: EndpointWork, claim: Claim, queue = work.ready): void {
    switch (this.#parts.quarantine.judge(work, claim)) {
      case 'run':
        queue.push(claim)
        break
      case 'run_alone':
        work.urgent.unshift(claim)
        break
      case 'later':
        this.release(work, claim)
        break
      case 'crashed':
        this.fail(work, claim, 'crashed')
        break
    }
  }

  /** Ends a claimed delivery without a try. */
  fail(work: EndpointWork, claim: Claim, reason: Reason): void {
    this.#letGo(work, claim, ended(claim.delivery, reason, this.#parts.clock.steady()))
  }

  /** Gives a claimed delivery back untried. */
  release(work: EndpointWork, claim: Claim): void {
    this.#letGo(work, claim, released(claim.delivery, this.#parts.clock.steady()))
  }

  #letGo(work: EndpointWork, claim: Claim, to: Change['to']): void {
    this.#parts.memory.free(work, claim.event.body)
    this.#settle(work, { to, attempt: null, claimNext: null }, (result) => {
      this.#parts.quarantine.letGo(claim)
      if (result.kind === 'applied') reportUntried(this.#parts, to, claim.event)
    })
  }

  /** Answers whether the endpoint wants another turn. */
  #startOne(work: EndpointWork): boolean {
    const now = this.#parts.clock.steady()
    const queue = work.startable(now)
    const claim = queue?.[0]
    if (claim === undefined) return false
    if (claim.delivery.leaseEndsAt < now + work.endpoint.timeoutMs) {
      // The lease could end before the try does, and then another might begin: back to the store, for a new one.
      queue?.shift()
      this.release(work, claim)
      return work.queued > 0
    }
    const tokenAt = work.takeToken(now)
    if (tokenAt !== null) {
      this.#pace(work, tokenAt, now)
      return false
    }
    queue?.shift()
    this.#start(work, claim)
    return work.queued > 0
  }

  #pace(work: EndpointWork, tokenAt: number, now: number): void {
    work.pacedUntil = tokenAt
    setTimeout(() => {
      if (work.pacedUntil === tokenAt) work.pacedUntil = null
      this.#parts.consider(work)
      this.run()
    }, tokenAt - now).unref()
  }

  #start(work: EndpointWork, claim: Claim): void {
    const probe = work.probing
    const underway: Underway = { claim, probe }
    const now = this.#parts.clock.steady()
    if (probe) this.#parts.verdicts.probeStarted(work)
    work.underway.add(underway)
    this.#parts.quarantine.started(work)
    this.#tries += 1
    this.#parts.ahead.begin(work, claim)
    const parcel = parcelOf(work.endpoint, claim.delivery, claim.event)
    tryOnce(this.#parts, parcel, this.#interruption.signal).then((tried) => this.#finish(work, underway, tried, now))
    this.#parts.ahead.fill(work)
  }

  #finish(work: EndpointWork, underway: Underway, tried: Tried, startedAt: number): void {
    const { claim, probe } = underway
    const { memory, quarantine, verdicts } = this.#parts
    this.#tries -= 1
    // Who takes what it gets has its slot back at once. Of one that fails, the outcome comes first.
    const isFree = tried.outcome.kind === 'delivered'
    if (isFree) work.settling += 1
    const { endpoint, ahead } = work
    const now = this.#parts.clock.steady()
    const head = { claim, tried, verdict: verdicts.on(work, claim.delivery, tried, { startedAt, probe }), now }
    const behind = ahead?.head === claim.delivery.id ? this.#endedBehind(work, head) : []
    const last = behind.at(-1) ?? head
    const claimNext = claim.delivery.lane !== null && this.#goesOn(work) ? now + leaseMs : null
    const settled = (one: Ended, result: ChangeResult): void => {
      memory.free(work, one.claim.event.body)
      report(this.#parts, endpoint, one.claim, one.tried, { to: one.verdict.to, result })
      // Nobody of the lane is in hand, or not the one that was expected, unless it has gone on meanwhile.
      const isOver = result.kind === 'stale' || (one === last && result.next === null)
      if (isOver && work.ahead === ahead && ahead?.head === claim.delivery.id) this.#parts.ahead.drop(work)
      this.#afterTry(work, one, result)
    }
    const ran = tried.report.kind !== 'interrupted'
    this.#settle(work, { ...written(head), claimNext, ran }, (result) => {
      work.underway.delete(underway)
      quarantine.ended(work, claim)
      if (isFree) work.settling -= 1
      settled(head, result)
    })
    for (const one of behind) {
      const change = { ...written(one), claimNext, ran: true, follows: true }
      this.#parts.settler.settle(change, (result) => {
        settled(one, result)
        this.#afterSettled(work, change, result)
      })
    }
    if (isFree && work.queued > 0) {
      this.join(work)
      this.run()
    }
  }

  /**
   * What has come back for deliveries behind a head, which were sent before their turn: each has had its try. The first
   * that does not end is the head then, and whatever is behind it comes again in its turn.
   */
  #endedBehind(work: EndpointWork, head: Ended): readonly Ended[] {
    const { ahead, clock, verdicts } = this.#parts
    const ended: Ended[] = []
    let isVoid = head.verdict.to.status === 'pending'
    for (const { deliveryId, report: reported, tookMs } of isVoid ? [] : ahead.answers(work)) {
      const upcoming = reported.kind === 'interrupted' ? null : ahead.take(work, deliveryId)
      isVoid = upcoming === null
      if (upcoming === null) break
      const claim = inTurn(upcoming)
      const attempt = { number: claim.delivery.attempts + 1, startedAt: clock.wall() - tookMs, tookMs }
      const tried = triedAs(reported, work.endpoint, attempt, clock.wall())
      const now = clock.steady()
      const verdict = verdicts.on(work, claim.delivery, tried, { startedAt: now - tookMs, probe: false })
      ended.push({ claim, tried, verdict, now })
      isVoid = verdict.to.status === 'pending'
      if (isVoid) break
    }
    if (isVoid) ahead.drop(work)
    return ended
  }

  /** Whether the next of a lane is wanted at once. */
  #goesOn(work: EndpointWork): boolean {
    const { clock, memory, quarantine } = this.#parts
    if (this.#closed || !work.serving || memory.isTight || quarantine.holds(work)) return false
    return work.allowance(clock.steady()).kind === 'open_to'
  }

  #afterTry(work: EndpointWork, { claim, verdict, now }: Ended, result: ChangeResult): void {
    const { lostLinks, stuckLanes, verdicts } = this.#parts
    const { to, whyDisabled } = verdict
    if (result.kind === 'applied') {
      stuckLanes.note(work.endpoint, claim.delivery, to, now)
      if (to.status === 'pending') lostLinks.noteFailure(work, to.lastError)
    }
    if (whyDisabled === null) return
    verdicts.disable(work, whyDisabled).then(() => {
      this.#parts.consider(work)
      this.run()
    })
  }

  #settle(work: EndpointWork, change: Change, done?: (result: ChangeResult) => void): void {
    this.#settling += 1
    this.#parts.settler.settle(change, (result) => {
      this.#settling -= 1
      done?.(result)
      this.#afterSettled(work, change, result)
    })
  }

  #afterSettled(work: EndpointWork, change: Change, result: ChangeResult): void {
    if (result.kind === 'stale') {
      this.#parts.log.warn({ deliveryId: change.to.id }, 'delivery.changed_meanwhile')
    } else if (result.next !== null) {
      work.mayWait = true
      this.#parts.memory.force(work, result.next.event.body)
      if (this.#closed) this.release(work, result.next)
      else this.take(work, result.next)
    } else if (result.released) work.noteDue(this.#parts.clock.steady())
    if (change.to.status === 'pending' && change.to.dueAt !== null) work.noteDue(change.to.dueAt)
    this.#parts.consider(work)
    this.run()
  }
}

function written({ verdict: { to, attempt } }: Ended): Readonly<{ to: Delivery; attempt: Change['attempt'] }> {
  return { to, attempt }
}

/** One that was sent before its turn, when its turn has come; nobody else can have it in hand. */
function inTurn({ delivery, event }: Upcoming): Claim {
  const { dueAt: _, ...facts } = delivery
  return { delivery: { ...facts, status: 'processing', leaseEndsAt: 0 }, event, interruptions: 0 }
}
