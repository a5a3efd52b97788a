import { probeStarted, reset } from '../core/circuit-breaker.ts'
import type { Clock } from '../core/clock.ts'
import { formatDuration } from '../core/duration.ts'
import { ended, released } from '../core/lifecycle.ts'
import type { Reason } from '../core/outcome.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Change, ChangeResult, Claim } from '../store/store.ts'
import { type Tried, tryOnce } from './attempt.ts'
import type { Catalogue } from './catalogue.ts'
import type { Conditions } from './conditions.ts'
import { conditionAfter, deliveryAfter, isFailingTooLong } from './decide.ts'
import type { EndpointWork, Underway } from './endpoint-work.ts'
import { leaseMs } from './lease-keeper.ts'
import type { Memory } from './memory.ts'
import type { Quarantine } from './quarantine.ts'
import { report, reportUntried } from './report.ts'
import type { Settler } from './settler.ts'
import type { StuckLanes } from './stuck-lanes.ts'
import type { TransportSet } from './transport-set.ts'

export type RoundParts = Readonly<{
  transport: TransportSet
  catalogue: Catalogue
  clock: Clock
  random: () => number
  log: Logger
  notices: Notices
  triesMax: number
  settler: Settler
  memory: Memory
  conditions: Conditions
  quarantine: Quarantine
  stuckLanes: StuckLanes
  consider: (work: EndpointWork) => void
}>

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
    this.#parts.memory.free(work, claim.event.body.length)
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
    if (probe) this.#setCondition(work, { ...work.condition, breaker: probeStarted(work.breaker, now) })
    work.underway.add(underway)
    this.#parts.quarantine.started(work)
    this.#tries += 1
    const parcel = {
      event: claim.event,
      endpoint: work.endpoint,
      deliveryId: claim.delivery.id,
      attempt: claim.delivery.attempts + 1,
      bornAt: claim.delivery.replayedAt ?? claim.delivery.receivedAt,
    }
    tryOnce(this.#parts, parcel, this.#interruption.signal).then((tried) => this.#finish(work, underway, tried, now))
  }

  #finish(work: EndpointWork, underway: Underway, tried: Tried, startedAt: number): void {
    const { claim, probe } = underway
    const now = this.#parts.clock.steady()
    const { endpoint } = work
    this.#tries -= 1
    // Who takes what it gets has its slot back at once. Of one that fails, the outcome comes first.
    const isFree = tried.outcome.kind === 'delivered'
    if (isFree) work.settling += 1
    this.#setCondition(work, conditionAfter(work.condition, tried, { endpoint, startedAt, probe, now }))
    const { clock, random } = this.#parts
    const context = { endpoint, removed: work.removed, probe, random: random(), clock }
    const to = deliveryAfter(claim.delivery, tried, context)
    const attempt = tried.outcome.kind === 'ours' ? null : tried.attempt
    const whyDisabled = this.#whyDisable(work, tried)
    // From now on and not only when it is written: what would be tried meanwhile would be lost in the same way.
    if (whyDisabled !== null) work.leaving = true
    const { memory, quarantine } = this.#parts
    const isOpen = !this.#closed && work.serving && !memory.overdrawn && !quarantine.holds(work)
    const goesOn = claim.delivery.lane !== null && isOpen
    const claimNext = goesOn && work.allowance(now).kind === 'open_to' ? now + leaseMs : null
    const ran = tried.report.kind !== 'interrupted'
    this.#settle(work, { to, attempt, claimNext, ran }, (result) => {
      work.underway.delete(underway)
      quarantine.ended(work, claim)
      if (isFree) work.settling -= 1
      memory.free(work, claim.event.body.length)
      report(this.#parts, endpoint, claim, tried, { to, result })
      if (result.kind === 'applied') this.#parts.stuckLanes.note(endpoint, claim.delivery, to, now)
      if (whyDisabled !== null) this.#disable(work, whyDisabled)
    })
    if (isFree && work.queued > 0) {
      this.join(work)
      this.run()
    }
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
      this.#parts.memory.force(work, result.next.event.body.length)
      if (this.#closed) this.release(work, result.next)
      else this.take(work, result.next)
    } else if (result.released) work.noteDue(this.#parts.clock.steady())
    if (change.to.status === 'pending' && change.to.dueAt !== null) work.noteDue(change.to.dueAt)
    this.#parts.consider(work)
    this.run()
  }

  /** A person says that the endpoint is well again. */
  resetBreaker(work: EndpointWork): void {
    this.#setCondition(work, { ...work.condition, breaker: reset(work.breaker), heldUntil: null })
  }

  /** 410: the receiver says that it is gone for good. And who fails for days is not going to come back by itself. */
  #whyDisable(work: EndpointWork, { outcome }: Tried): string | null {
    if (outcome.kind === 'delivered') work.failuresSeenFrom = null
    if (outcome.kind === 'delivered' || outcome.kind === 'ours' || work.leaving) return null
    work.failuresSeenFrom ??= this.#parts.clock.steady()
    const { endpoint } = work
    if (outcome.kind === 'permanent' && outcome.reason === 'gone') return 'it answered 410 Gone'
    if (endpoint.kind !== 'http' || !isFailingTooLong(work, this.#parts.clock)) return null
    return `nothing but failures for ${formatDuration(endpoint.disableAfterMs ?? 0)}`
  }

  #disable(work: EndpointWork, statusReason: string): void {
    const { catalogue, clock, log } = this.#parts
    const { id } = work.endpoint
    log.warn({ endpointId: id, statusReason }, 'endpoint.disabled')
    catalogue
      .update(id, (endpoint) => ({
        ...endpoint,
        status: 'disabled',
        statusReason,
        updatedAt: clock.wall(),
      }))
      .catch((err) => log.error({ err, endpointId: id }, 'endpoint.not_disabled'))
      .finally(() => {
        work.leaving = false
        this.#parts.consider(work)
        this.run()
      })
  }

  #setCondition(work: EndpointWork, condition: EndpointWork['condition']): void {
    if (condition === work.condition) return
    const before = work.condition
    work.condition = condition
    if (before.breaker.state !== condition.breaker.state) {
      const { log, notices } = this.#parts
      const changed = { endpointId: work.endpoint.id, from: before.breaker.state, to: condition.breaker.state }
      log.warn(changed, 'breaker.changed')
      notices.publish({ kind: 'breaker.changed', tenant: work.endpoint.tenant, ...changed })
    }
    if (!work.removed) this.#parts.conditions.note(before, condition)
  }
}
