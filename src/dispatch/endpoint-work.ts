import { type Allowance, type Breaker, type WhileOpen, whileOpen } from '../core/circuit-breaker.ts'
import { allowanceHere, type Condition, isForgiven, mayProbe, type ProbeRight } from '../core/condition.ts'
import type { Endpoint } from '../core/endpoint.ts'
import {
  type Gate,
  type Load,
  type Outlook,
  passage,
  type Situation,
  type Standing,
  type StandingFacts,
  standingOf,
  type Turn,
} from '../core/next-action.ts'
import type { OutcomeKind } from '../core/outcome.ts'
import { type Bucket, fullBucket, take } from '../core/rate-limit.ts'
import { windowOf } from '../core/window.ts'
import type { Claim } from '../store/pipeline-store.ts'

/** An attempt that is under way, or whose outcome waits for the disk. */
export type Underway = Readonly<{
  claim: Claim
  /** Whether it is a breaker's probe. */
  probe: boolean
  startedAt: number
  /** Ends this attempt, and no other. */
  abort: AbortController
}>

/** Which queue a claimed delivery goes to: `urgent` goes first, past breaker and hold; `next` before all others. */
export type Queue = 'ready' | 'urgent' | 'next'

/** How much a single attempt changes what is expected of the next. */
const newestAttemptShare = 0.1

/**
 * What one endpoint has in hand, and what keeps it from being tried now.
 *
 * A delivery in hand is in one of these modes, in this order:
 *
 *   reserved   its event is being written, and it will be born claimed
 *   ready      claimed, waiting for a slot (or urgent: a person asked for it)
 *   on wire    its attempt is under way
 *   answered   delivered and waiting for the disk: it holds no slot of the endpoint
 *
 * Of what waits in the store it knows only when the first is due. While it is not `serving` (core/next-action) nothing
 * starts and nothing stays ready.
 */
export class EndpointWork implements Outlook {
  #endpoint: Endpoint
  #condition: Condition
  #facts: StandingFacts
  #standing: Standing
  #ready: Claim[] = []
  #urgent: Claim[] = []
  readonly #underway = new Set<Underway>()
  /** Of these, the ones that were delivered. */
  readonly #answered = new Set<Underway>()
  #reserved = 0
  #nextDueAt: number | null = null
  #share: number | null = null
  #isShared = false
  /** How long attempts take, the latest weighing most. */
  #attemptMs: number | null = null
  /** null: no claim is under way. Otherwise when the first was due as it began. */
  #claiming: Readonly<{ dueBefore: number | null }> | null = null
  #nextBytes: number | null = null
  #failuresSeenFrom: number | null = null
  #probe: ProbeRight = 'none'
  #bucket: Bucket

  constructor(endpoint: Endpoint, condition: Condition, now: number) {
    this.#endpoint = endpoint
    this.#condition = condition
    this.#facts = { status: endpoint.status, served: true, leaving: false, removed: false, halted: false }
    this.#standing = standingOf(this.#facts)
    this.#bucket = fullBucket(endpoint.rateLimit?.perSecond ?? 1, now)
  }

  // ── How it stands ───────────────────────────────────────────────────────────────────────────────────────────────

  get endpoint(): Endpoint {
    return this.#endpoint
  }

  get standing(): Standing {
    return this.#standing
  }

  get isServing(): boolean {
    return this.#standing === 'serving'
  }

  get isServed(): boolean {
    return this.#facts.served
  }

  /** Only another member can make an attempt: it has the hub or the handler, or all of the share. */
  get isOthers(): boolean {
    return !this.#facts.served || this.concurrency === 0
  }

  get isLeaving(): boolean {
    return this.#facts.leaving
  }

  get isRemoved(): boolean {
    return this.#facts.removed
  }

  /** `leaving` and `removed` are decided here; the rest comes from the catalogue, the transport and the operator. */
  stand(changed: Partial<StandingFacts>): void {
    this.#facts = { ...this.#facts, ...changed }
    this.#standing = standingOf(this.#facts)
  }

  /** Takes up new settings. */
  adopt(endpoint: Endpoint): void {
    const before = this.#endpoint
    if (isForgiven(before, endpoint)) this.#failuresSeenFrom = null
    this.#endpoint = endpoint
    this.stand({ status: endpoint.status })
  }

  // ── How it is doing ─────────────────────────────────────────────────────────────────────────────────────────────

  get condition(): Condition {
    return this.#condition
  }

  /** Takes up what is known of it now (dispatch/conditions). */
  know(condition: Condition): void {
    const { breaker: before } = this.#condition
    const { breaker } = condition
    this.#condition = condition
    const isNewProbe = before.state === 'half_open' && probeStartOf(before) !== probeStartOf(breaker)
    if (this.#probe === 'granted' && (breaker.state !== 'half_open' || isNewProbe)) this.#probe = 'none'
  }

  askProbe(): void {
    this.#probe = 'asked'
  }

  answerProbe(isGranted: boolean): void {
    this.#probe = isGranted ? 'granted' : 'none'
  }

  /** When we saw the first of its failures since the last good attempt, whatever was known before the start. */
  get failuresSeenFrom(): number | null {
    return this.#failuresSeenFrom
  }

  noteOutcome(kind: OutcomeKind, now: number): void {
    if (kind === 'delivered') this.#failuresSeenFrom = null
    else if (kind !== 'ours') this.#failuresSeenFrom ??= now
  }

  /** What breaker and hold allow now. */
  allowance(now: number): Allowance {
    return allowanceHere(this.#condition, this.#endpoint, { probe: this.#probe, share: this.#share }, now)
  }

  /** What that means for a delivery that is due. */
  passage(now: number): Gate {
    return passage(this.allowance(now), this.#whileOpen)
  }

  // ── What it has in hand ─────────────────────────────────────────────────────────────────────────────────────────

  get inHand(): number {
    return this.queued + this.#underway.size + this.#reserved
  }

  /** Claimed and not under way. */
  get queued(): number {
    return this.#ready.length + this.#urgent.length
  }

  get reserved(): number {
    return this.#reserved
  }

  get underway(): number {
    return this.#underway.size
  }

  get window(): number {
    return windowOf({ concurrency: this.concurrency, attemptMs: this.#attemptMs, isShared: this.#isShared })
  }

  /** How many attempts may be on the wire here: the endpoint's concurrency, or this member's share of it. */
  get concurrency(): number {
    return this.#share ?? this.#endpoint.concurrency
  }

  /** Whether others serve the endpoint too, and which part of its limits may be used here then; null: all of them. */
  limitTo(share: number | null, isShared: boolean): void {
    this.#share = share
    this.#isShared = isShared
  }

  /** How long an attempt took. */
  noteTook(ms: number): void {
    this.#attemptMs = this.#attemptMs === null ? ms : this.#attemptMs + (ms - this.#attemptMs) * newestAttemptShare
  }

  /** The one whose attempt starts next. */
  get next(): Claim | undefined {
    return this.#urgent[0] ?? this.#ready[0]
  }

  reserve(): void {
    this.#reserved += 1
  }

  /** Of an endpoint that was deleted and set up anew meanwhile, the promise was another's. */
  unreserve(): void {
    this.#reserved = Math.max(0, this.#reserved - 1)
  }

  enqueue(claim: Claim, queue: Queue): void {
    if (queue === 'ready') this.#ready.push(claim)
    else if (queue === 'urgent') this.#urgent.push(claim)
    else this.#urgent.unshift(claim)
  }

  /** Takes the one that is next out of its queue. */
  takeNext(): Claim {
    const claim = this.#urgent.shift() ?? this.#ready.shift()
    if (claim === undefined) throw new Error('Nothing waits in memory for this endpoint.')
    return claim
  }

  /** Empties the queues. */
  dequeueAll(which: 'all' | 'ready'): readonly Claim[] {
    const claims = which === 'all' ? [...this.#ready, ...this.#urgent] : this.#ready
    this.#ready = []
    if (which === 'all') this.#urgent = []
    return claims
  }

  /** The one that is next has its attempt. It takes a token of the rate limit. */
  begin(probe: boolean, now: number): Underway {
    const underway: Underway = { claim: this.takeNext(), probe, startedAt: now, abort: new AbortController() }
    if (probe) this.#probe = 'none'
    this.takeToken(now)
    this.#underway.add(underway)
    return underway
  }

  /** An endpoint that takes what it gets has its slot back at once. Of one that fails, the outcome comes first. */
  noteAnswered(underway: Underway): void {
    this.#answered.add(underway)
  }

  end(underway: Underway): void {
    this.#underway.delete(underway)
    this.#answered.delete(underway)
  }

  /** Everything that is claimed. */
  *claims(): Generator<Claim> {
    yield* this.#ready
    yield* this.#urgent
    for (const { claim } of this.#underway) yield claim
  }

  /** What came into the queues meanwhile has a lease of its own, which may end later. */
  renewLeases(renewed: ReadonlySet<string>, leaseEndsAt: number): void {
    const renew = (claim: Claim) => (renewed.has(claim.delivery.id) ? withLease(claim, leaseEndsAt) : claim)
    this.#ready = this.#ready.map(renew)
    this.#urgent = this.#urgent.map(renew)
  }

  // ── What waits in the store ─────────────────────────────────────────────────────────────────────────────────────

  /** When the first delivery in the store is due, as far as we know; null: none waits there. */
  get nextDueAt(): number | null {
    return this.#nextDueAt
  }

  /** The bytes of the next body in the store, if that is too large for a claim as it is; null: not known to be. */
  get nextBytes(): number | null {
    return this.#nextBytes
  }

  get isClaiming(): boolean {
    return this.#claiming !== null
  }

  noteDue(dueAt: number): void {
    if (this.#nextDueAt === null || dueAt < this.#nextDueAt) this.#nextDueAt = dueAt
  }

  /** Nothing waits for it in the store, or somebody else sees to it. */
  forgetDue(): void {
    this.#nextDueAt = null
  }

  /** What becomes due while the claim is under way is noted anew, and not lost under its answer. */
  beginClaim(): void {
    this.#claiming = { dueBefore: this.#nextDueAt }
    this.#nextDueAt = null
  }

  noteClaimed(answer: Readonly<{ nextDueAt: number | null; tooLarge: number | null }>): void {
    this.#nextBytes = answer.tooLarge
    if (answer.nextDueAt !== null) this.noteDue(answer.nextDueAt)
  }

  endClaim(): void {
    this.#claiming = null
  }

  /** What was due when it began still is. */
  failClaim(): void {
    const { dueBefore } = this.#claiming ?? { dueBefore: null }
    this.#claiming = null
    if (dueBefore !== null) this.noteDue(dueBefore)
  }

  // ── What it does next ───────────────────────────────────────────────────────────────────────────────────────────

  /** `inTurn` and `keptOut` are known to others: the slots, and the quarantine. */
  situation(inTurn: boolean, keptOut: boolean, allowed: Allowance): Situation {
    return {
      standing: this.#standing,
      ready: this.#ready.length,
      urgent: this.#urgent.length,
      inTurn,
      inHand: this.inHand,
      window: this.window,
      nextDueAt: this.#nextDueAt,
      allowed,
      open: this.#whileOpen,
      keptOut,
    }
  }

  /** Its turn at the slots; null: nothing waits in memory. */
  turn(now: number): Turn | null {
    const { next } = this
    if (next === undefined) return null
    return {
      standing: this.#standing,
      load: this.#load(),
      allowed: this.allowance(now),
      open: this.#whileOpen,
      isUrgent: this.#urgent.length > 0,
      mayProbe: mayProbe(this.#condition, this.#probe, now),
      leaseEndsAt: next.delivery.leaseEndsAt,
      timeoutMs: this.#endpoint.timeoutMs,
      tokenAt: this.#tokenAt(now),
    }
  }

  /** Takes a token of the rate limit; answers when there will be one if there is none now. */
  takeToken(now: number): number | null {
    const answer = this.#token(now)
    if (answer?.kind === 'taken') this.#bucket = answer.bucket
    return answer?.kind === 'wait' ? answer.until : null
  }

  #tokenAt(now: number): number | null {
    const answer = this.#token(now)
    return answer?.kind === 'wait' ? answer.until : null
  }

  /** null: there is no rate limit. */
  #token(now: number): ReturnType<typeof take> | null {
    const { rateLimit } = this.#endpoint
    if (rateLimit === null) return null
    // Without a share only a person's test comes here.
    const part = (this.concurrency || 1) / this.#endpoint.concurrency
    return take(this.#bucket, rateLimit.perSecond * part, now)
  }

  get #whileOpen(): WhileOpen {
    return whileOpen(this.#condition.breaker, this.#endpoint.breaker)
  }

  #load(): Load {
    return {
      concurrency: this.concurrency,
      onWire: this.#underway.size - this.#answered.size,
      answered: this.#answered.size,
    }
  }
}

function probeStartOf(breaker: Breaker): number | null {
  return breaker.state === 'half_open' ? breaker.probeStartedAt : null
}

function withLease(claim: Claim, leaseEndsAt: number): Claim {
  const { delivery } = claim
  return { ...claim, delivery: { ...delivery, leaseEndsAt: Math.max(delivery.leaseEndsAt, leaseEndsAt) } }
}
