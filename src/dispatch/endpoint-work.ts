import { type Allowance, allowance, closedBreaker } from '../core/circuit-breaker.ts'
import type { Condition } from '../core/condition.ts'
import { type Endpoint, targetOf } from '../core/endpoint.ts'
import {
  gate,
  hasSlot,
  type Load,
  type Situation,
  type Standing,
  type StandingFacts,
  standingOf,
} from '../core/next-action.ts'
import type { OutcomeKind } from '../core/outcome.ts'
import { type Bucket, fullBucket, take } from '../core/rate-limit.ts'
import type { Claim } from '../store/pipeline-store.ts'
import type { Holder } from './memory.ts'
import type { Sleeper } from './wakeups.ts'

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

/** Deliveries of one endpoint held in memory, tried or about to be; more would only wait here instead of in the store. */
const windowMin = 64
const windowMax = 1_024

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
export class EndpointWork implements Sleeper, Holder {
  /** Owned by Wakeups. */
  wakeAt: number | null = null
  /** Owned by Memory. */
  heldBytes = 0
  #endpoint: Endpoint
  #condition: Condition
  #facts: StandingFacts
  #standing: Standing
  #ready: Claim[] = []
  #urgent: Claim[] = []
  readonly #underway = new Set<Underway>()
  #answered = 0
  #reserved = 0
  #nextDueAt: number | null = null
  #claiming = false
  #nextBytes: number | null = null
  #failuresSeenFrom: number | null = null
  #pacedUntil: number | null = null
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
    if (endpoint.rateLimit?.perSecond !== before.rateLimit?.perSecond) this.#pacedUntil = null
    const isAnother = targetOf(endpoint) !== targetOf(before)
    // A person has seen to it: it has all of its time again.
    if (isAnother || (endpoint.status === 'active' && before.status !== 'active')) this.#forgive()
    // What another target answered says nothing about this one.
    if (isAnother && this.#condition.lastError !== null) {
      this.#condition = { ...this.#condition, lastError: null, lastErrorAt: null }
    }
    this.#endpoint = endpoint
    this.stand({ status: endpoint.status })
    // Nothing is recorded while there is no breaker: what is left of it would be old news when it is wanted again.
    if (endpoint.breaker === null) this.#condition = { ...this.#condition, breaker: closedBreaker }
  }

  // ── How it is doing ─────────────────────────────────────────────────────────────────────────────────────────────

  get condition(): Condition {
    return this.#condition
  }

  set condition(condition: Condition) {
    this.#condition = condition
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
    const { heldUntil, breaker } = this.#condition
    if (heldUntil !== null && now < heldUntil) return { kind: 'wait', until: heldUntil }
    return this.#endpoint.breaker === null ? { kind: 'open_to', limit: null } : allowance(breaker, now)
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
    const { concurrency } = this.#endpoint
    // It is filled up when half of it is free, which must not leave slots empty.
    return Math.max(2 * concurrency, Math.min(windowMax, Math.max(windowMin, 16 * concurrency)))
  }

  get nextUrgent(): Claim | undefined {
    return this.#urgent[0]
  }

  reserve(): void {
    this.#reserved += 1
  }

  unreserve(): void {
    this.#reserved -= 1
  }

  enqueue(claim: Claim, queue: Queue): void {
    if (queue === 'ready') this.#ready.push(claim)
    else if (queue === 'urgent') this.#urgent.push(claim)
    else this.#urgent.unshift(claim)
  }

  /** The delivery whose attempt may start now; null: none may. */
  startable(now: number): Claim | null {
    if (!this.isServing || this.#pacedUntil !== null || !hasSlot(this.#load())) return null
    const [urgent] = this.#urgent
    if (urgent !== undefined) return urgent
    const [ready] = this.#ready
    if (ready === undefined) return null
    const may = gate(this.#load(), this.allowance(now), false)
    return may === 'attempt' || may === 'probe' ? ready : null
  }

  /** Takes this one, which was startable, out of its queue. */
  dequeue(claim: Claim): void {
    if (this.#urgent[0] === claim) this.#urgent.shift()
    else this.#ready.shift()
  }

  /** Empties the queues. */
  dequeueAll(which: 'all' | 'ready'): readonly Claim[] {
    const claims = which === 'all' ? [...this.#ready, ...this.#urgent] : this.#ready
    this.#ready = []
    if (which === 'all') this.#urgent = []
    return claims
  }

  begin(claim: Claim, now: number): Underway {
    const probe = this.#endpoint.breaker !== null && this.#condition.breaker.state !== 'closed'
    const underway: Underway = { claim, probe, startedAt: now, abort: new AbortController() }
    this.#underway.add(underway)
    return underway
  }

  /** Whoever takes what it gets has its slot back at once. Of one that fails, the outcome comes first. */
  noteAnswered(): void {
    this.#answered += 1
  }

  end(underway: Underway, wasAnswered: boolean): void {
    this.#underway.delete(underway)
    if (wasAnswered) this.#answered -= 1
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
    return this.#claiming
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
    this.#claiming = true
    this.#nextDueAt = null
  }

  noteClaimed(answer: Readonly<{ nextDueAt: number | null; tooLarge: number | null }>): void {
    this.#nextBytes = answer.tooLarge
    if (answer.nextDueAt !== null) this.noteDue(answer.nextDueAt)
  }

  endClaim(): void {
    this.#claiming = false
  }

  /** Whether the store may hold something that is due: then fresh events queue up behind it. */
  hasBacklog(now: number): boolean {
    return this.#claiming || (this.#nextDueAt !== null && this.#nextDueAt <= now)
  }

  /** Whether it could take more and still has something due in the store. */
  isCrowded(now: number): boolean {
    return this.isServing && this.hasBacklog(now) && this.allowance(now).kind !== 'wait'
  }

  // ── What it does next ───────────────────────────────────────────────────────────────────────────────────────────

  situation(inTurn: boolean, allowed: Allowance): Situation {
    return {
      standing: this.#standing,
      ready: this.#ready.length,
      urgent: this.#urgent.length,
      inTurn,
      inHand: this.inHand,
      window: this.window,
      nextDueAt: this.#nextDueAt,
      allowed,
      refuses: this.#endpoint.breaker?.whenOpen === 'fail' && this.#condition.breaker.state !== 'closed',
    }
  }

  /** Takes a token of the rate limit; answers when there will be one if there is none now. */
  takeToken(now: number): number | null {
    const { rateLimit } = this.#endpoint
    if (rateLimit === null) return null
    const answer = take(this.#bucket, rateLimit.perSecond, now)
    if (answer.kind === 'wait') return answer.until
    this.#bucket = answer.bucket
    return null
  }

  /** Nothing starts before the rate limit has a token again. */
  pace(until: number): void {
    this.#pacedUntil = until
  }

  endPace(until: number): void {
    if (this.#pacedUntil === until) this.#pacedUntil = null
  }

  #load(): Load {
    return {
      concurrency: this.#endpoint.concurrency,
      onWire: this.#underway.size - this.#answered,
      answered: this.#answered,
    }
  }

  #forgive(): void {
    this.#failuresSeenFrom = null
    if (this.#condition.failingSince !== null) this.#condition = { ...this.#condition, failingSince: null }
  }
}

function withLease(claim: Claim, leaseEndsAt: number): Claim {
  const { delivery } = claim
  return { ...claim, delivery: { ...delivery, leaseEndsAt: Math.max(delivery.leaseEndsAt, leaseEndsAt) } }
}
