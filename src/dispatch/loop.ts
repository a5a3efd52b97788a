import type { Claim, Store } from '../store/store.ts'
import { Ahead } from './ahead.ts'
import { Claimer } from './claimer.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { Orphans } from './orphans.ts'
import { LostLinks } from './pull-back.ts'
import { Quarantine, type Suspect } from './quarantine.ts'
import { Round, type RoundParts } from './round.ts'
import { type VerdictParts, Verdicts } from './verdicts.ts'
import { Wakeups } from './wakeups.ts'

export type LoopParts = Omit<RoundParts, 'consider' | 'quarantine' | 'verdicts' | 'ahead' | 'lostLinks'> &
  VerdictParts &
  Readonly<{
    store: Store
    orphans: Orphans
    stopping: AbortSignal
    /** Told when something has ended. */
    onEnded: () => void
  }>

/** claim → attempt → decide → settle, for every endpoint by itself and fair among them. */
export class Loop {
  readonly #parts: LoopParts
  readonly #round: Round
  readonly #claimer: Claimer
  readonly #wakeups: Wakeups<EndpointWork>
  readonly #quarantine: Quarantine
  readonly #verdicts: Verdicts
  readonly #ahead: Ahead
  readonly #lostLinks: LostLinks

  constructor(parts: LoopParts) {
    this.#parts = parts
    this.#quarantine = new Quarantine(
      (work) => this.look(work),
      (suspect) => this.#fetch(suspect),
    )
    const look = (work: EndpointWork) => this.look(work)
    this.#verdicts = new Verdicts(parts)
    this.#ahead = new Ahead({ ...parts, look })
    this.#lostLinks = new LostLinks({ ...parts, look })
    this.#round = new Round({
      ...parts,
      verdicts: this.#verdicts,
      ahead: this.#ahead,
      lostLinks: this.#lostLinks,
      quarantine: this.#quarantine,
      consider: (work) => this.#consider(work),
    })
    this.#claimer = new Claimer({ ...parts, look })
    this.#wakeups = new Wakeups(parts.clock.steady, (work) => this.look(work))
  }

  /** Tries under way, and those whose outcomes wait for the disk. */
  get inFlight(): number {
    return this.#round.inFlight
  }

  /** Neither a try nor a claim nor a read is under way. */
  get idle(): boolean {
    return this.#round.inFlight === 0 && this.#claimer.underway === 0 && this.#ahead.underway === 0
  }

  /** Something may be possible at this endpoint now. */
  look(work: EndpointWork): void {
    this.#consider(work)
    this.#round.run()
    this.#parts.onEnded()
  }

  lookAtAll(works: Iterable<EndpointWork>): void {
    for (const work of works) this.#consider(work)
    this.#round.run()
  }

  /** Takes up what is claimed; `run` starts it. */
  accept(work: EndpointWork, claim: Claim): void {
    this.#round.take(work, claim)
    if (this.#parts.stopping.aborted) this.standDown(work)
    else this.#consider(work)
  }

  run(): void {
    this.#round.run()
  }

  /** Takes a named delivery now, whatever backoff, breaker and hold say. */
  async hurry(work: EndpointWork | undefined, deliveryId: string): Promise<void> {
    if (work === undefined) return
    const { clock, stopping } = this.#parts
    work.noteDue(clock.steady())
    if (!work.serving || stopping.aborted) return
    // It is on disk as due: nobody who asked for it waits until there is memory for it.
    const hasRoom = this.#claimer.hasRoom
    const hurried = this.#hurry(work, deliveryId)
    if (hasRoom) await hurried
  }

  /** Whether nothing fresh may be taken for this endpoint now. */
  holds(work: EndpointWork): boolean {
    return this.#quarantine.holds(work)
  }

  /** Closes the breaker and ends the hold, because a person says so. */
  resetBreaker(work: EndpointWork): void {
    this.#verdicts.resetBreaker(work)
    this.look(work)
  }

  /** Something waits behind what is in hand: it may be sent ahead. */
  noteWaiting(work: EndpointWork): void {
    this.#ahead.noteWaiting(work)
  }

  /** There may be more room ahead. */
  fillAhead(work: EndpointWork | undefined): void {
    if (work !== undefined) this.#ahead.fill(work)
  }

  /** The endpoint or its lane has changed: nothing that is ahead of its turn counts any more. */
  dropAhead(work: EndpointWork | undefined): void {
    if (work !== undefined) this.#ahead.drop(work)
  }

  /** What waits because its link was lost is due, now that there is one. */
  mendLostLinks(work: EndpointWork): void {
    this.#lostLinks.mend(work)
  }

  /** The endpoint is not to be served: nothing of it stays in memory. */
  standDown(work: EndpointWork): void {
    this.#handBack(work, work.ready)
    this.#handBack(work, work.urgent)
    this.#ahead.drop(work)
    if (!work.removed || work.nextDueAt === null) return
    work.nextDueAt = null
    this.#parts.orphans.endPending(work.endpoint.id)
  }

  /** Nothing new begins. */
  close(): void {
    this.#wakeups.stop()
    this.#round.close()
  }

  /** Ends the tries under way; their deliveries are given back. */
  interrupt(): void {
    this.#round.interrupt()
  }

  /** Lets the endpoint have a slot, claims what is due, else sleeps until something changes. */
  #consider(work: EndpointWork): void {
    if (this.#parts.stopping.aborted || !this.#parts.settler.writable) return
    if (!work.serving) {
      this.standDown(work)
      return
    }
    const now = this.#parts.clock.steady()
    const allowed = work.allowance(now)
    if (allowed.kind === 'wait') {
      this.#handBack(work, work.ready)
      this.#ahead.drop(work)
    }
    this.#ahead.fill(work)
    if (work.queued > 0) this.#round.join(work)
    if (work.nextDueAt === null || this.#quarantine.holds(work)) return
    if (allowed.kind !== 'wait') {
      if (work.nextDueAt > now) this.#wakeups.schedule(work, work.nextDueAt)
      else this.#refill(work, allowed.kind === 'probe' ? 1 : work.window - work.inHand)
    } else if (work.endpoint.breaker?.whenOpen === 'fail' && work.breaker.state !== 'closed') this.#refuse(work, now)
    else if (allowed.until !== null) this.#wakeups.schedule(work, Math.max(allowed.until, work.nextDueAt))
  }

  #refill(work: EndpointWork, room: number): void {
    const wanted = work.inHand === 0 || room >= work.window / 2
    if (!wanted || room <= 0) return
    this.#claimer.claim(work, room, (claims) => {
      for (const claim of claims) this.accept(work, claim)
    })
  }

  /** `whenOpen: fail`: what is due while the breaker is open fails at once. */
  #refuse(work: EndpointWork, now: number): void {
    if (work.nextDueAt === null) return
    if (work.nextDueAt > now) {
      this.#wakeups.schedule(work, work.nextDueAt)
      return
    }
    this.#claimer.claim(work, work.window, (claims) => {
      // The probe may have closed the breaker meanwhile.
      const isOpen = work.allowance(this.#parts.clock.steady()).kind === 'wait'
      for (const claim of claims) {
        if (isOpen) this.#round.fail(work, claim, 'breaker_open')
        else this.accept(work, claim)
      }
    })
  }

  async #hurry(work: EndpointWork, deliveryId: string): Promise<void> {
    const { log, stopping } = this.#parts
    try {
      for (const claim of await this.#claimer.named(work, deliveryId)) this.#round.take(work, claim, work.urgent)
    } catch (err) {
      // It is due, and on disk as such: the next claim brings it.
      log.warn({ err, deliveryId }, 'claim.failed')
    }
    if (stopping.aborted) this.standDown(work)
    this.look(work)
  }

  /** Claims a suspect by its name; one that is not to be had any more comes back by itself, or never. */
  async #fetch({ work, deliveryId }: Suspect): Promise<void> {
    const { log, stopping } = this.#parts
    if (!work.serving || stopping.aborted) return
    try {
      // All other handlers stand still for it, and hold what they have.
      const claims = await this.#claimer.named(work, deliveryId, { waits: false })
      for (const claim of claims) this.accept(work, claim)
    } catch (err) {
      log.warn({ err, deliveryId }, 'claim.failed')
    }
    this.#round.run()
  }

  /** Gives what waits in memory back to the store, untried. */
  #handBack(work: EndpointWork, queue: Claim[]): void {
    for (const claim of queue.splice(0)) {
      if (work.removed) this.#round.fail(work, claim, 'endpoint_deleted')
      else this.#round.release(work, claim)
    }
  }
}
