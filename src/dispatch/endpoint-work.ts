import { type Allowance, allowance, type Breaker, closedBreaker } from '../core/circuit-breaker.ts'
import { type Endpoint, targetOf } from '../core/endpoint.ts'
import { type Bucket, fullBucket, take } from '../core/rate-limit.ts'
import type { Claim, Condition } from '../store/store.ts'
import type { LaneAhead } from './ahead.ts'
import type { Holder } from './memory.ts'
import type { Sleeper } from './wakeups.ts'

/** A try that is under way, or whose outcome waits for the disk. */
export type Underway = Readonly<{ claim: Claim; probe: boolean }>

/** Deliveries of one endpoint held in memory, tried or about to be; more would only wait here instead of in the store. */
const windowMin = 64
const windowMax = 1_024

/** What one endpoint has in hand, and what keeps it from being tried now. */
export class EndpointWork implements Sleeper, Holder {
  endpoint: Endpoint
  condition: Condition
  wakeAt: number | null = null
  /** Claimed and waiting for a slot, oldest first. */
  readonly ready: Claim[] = []
  /** Asked for by a person: goes before the others, past breaker and hold, but within the limits. */
  readonly urgent: Claim[] = []
  /** On the wire, or answered and not yet on disk. */
  readonly underway = new Set<Underway>()
  /** Of these, how many are delivered and wait for the disk: they keep no slot. */
  settling = 0
  /** Promised to events that are being written. */
  reserved = 0
  heldBytes = 0
  /** When the first delivery in the store is due, as far as we know; null: none waits there. */
  nextDueAt: number | null = null
  claiming = false
  /** The bytes of the next body in the store, if that is too large for a claim as it is; null: not known to be. */
  nextBytes: number | null = null
  /** What is sent before its turn, and behind whom; null: nothing may be. Only Ahead changes this and the next. */
  ahead: LaneAhead | null = null
  readingAhead = false
  /** Something may wait in the store behind what is in hand and what was sent ahead. */
  mayWait = false
  removed = false
  /** Whether the transport has somebody who could take a delivery; without, the endpoint is held. */
  served = true
  /** It said that it is gone, or fails for too long, and is about to be disabled. */
  leaving = false
  /** When we saw the first of its failures since the last good try, whatever was known before the start. */
  failuresSeenFrom: number | null = null
  /** All delivery is paused by a person, not only this endpoint's. */
  halted = false
  /** The rate limit has no token before this instant, and a timer runs for it. */
  pacedUntil: number | null = null
  #bucket: Bucket

  constructor(endpoint: Endpoint, condition: Condition, now: number) {
    this.endpoint = endpoint
    this.condition = condition
    this.#bucket = fullBucket(endpoint.rateLimit?.perSecond ?? 1, now)
  }

  get breaker(): Breaker {
    return this.condition.breaker
  }

  get inHand(): number {
    return this.queued + this.underway.size + this.reserved
  }

  /** Claimed and not under way. */
  get queued(): number {
    return this.ready.length + this.urgent.length
  }

  get window(): number {
    const { concurrency } = this.endpoint
    // It is filled up when half of it is free, which must not leave slots empty.
    return Math.max(2 * concurrency, Math.min(windowMax, Math.max(windowMin, 16 * concurrency)))
  }

  get serving(): boolean {
    const isWanted = this.endpoint.status === 'active' && !this.removed && !this.leaving
    return isWanted && this.served && !this.halted
  }

  /** What breaker and hold allow now. */
  allowance(now: number): Allowance {
    const { heldUntil } = this.condition
    if (heldUntil !== null && now < heldUntil) return { kind: 'wait', until: heldUntil }
    return this.endpoint.breaker === null ? { kind: 'open_to', limit: null } : allowance(this.breaker, now)
  }

  /** A try that is made now would be a probe. */
  get probing(): boolean {
    return this.endpoint.breaker !== null && this.breaker.state !== 'closed'
  }

  /** The queue from which a try may start now; null when none may. */
  startable(now: number): Claim[] | null {
    if (!this.serving || this.pacedUntil !== null || !this.#hasSlot()) return null
    if (this.urgent.length > 0) return this.urgent
    return this.ready.length > 0 && this.#mayStart(now) ? this.ready : null
  }

  /** Takes up new settings. */
  adopt(endpoint: Endpoint): void {
    if (endpoint.rateLimit?.perSecond !== this.endpoint.rateLimit?.perSecond) this.pacedUntil = null
    const isAnother = targetOf(endpoint) !== targetOf(this.endpoint)
    // A person has seen to it: it has all of its time again.
    if (isAnother || (endpoint.status === 'active' && this.endpoint.status !== 'active')) this.#forgive()
    // What another target answered says nothing about this one.
    if (isAnother && this.condition.lastError !== null) {
      this.condition = { ...this.condition, lastError: null, lastErrorAt: null }
    }
    this.endpoint = endpoint
    // Nothing is recorded while there is no breaker: what is left of it would be old news when it is wanted again.
    if (endpoint.breaker === null) this.condition = { ...this.condition, breaker: closedBreaker }
  }

  /** Takes a token of the rate limit; answers when there will be one if there is none now. */
  takeToken(now: number): number | null {
    const { rateLimit } = this.endpoint
    if (rateLimit === null) return null
    const answer = take(this.#bucket, rateLimit.perSecond, now)
    if (answer.kind === 'wait') return answer.until
    this.#bucket = answer.bucket
    return null
  }

  noteDue(dueAt: number): void {
    if (this.nextDueAt === null || dueAt < this.nextDueAt) this.nextDueAt = dueAt
  }

  /** Whether the store may hold something that is due: then fresh events queue up behind it. */
  hasBacklog(now: number): boolean {
    return this.claiming || (this.nextDueAt !== null && this.nextDueAt <= now)
  }

  /** Whether it could take more and still has something due in the store. */
  isCrowded(now: number): boolean {
    return this.serving && this.hasBacklog(now) && this.allowance(now).kind !== 'wait'
  }

  #forgive(): void {
    this.failuresSeenFrom = null
    if (this.condition.failingSince !== null) this.condition = { ...this.condition, failingSince: null }
  }

  /** As many as the endpoint takes are on the wire, and no more than that wait for the disk behind them. */
  #hasSlot(): boolean {
    const { concurrency } = this.endpoint
    return this.underway.size - this.settling < concurrency && this.settling < concurrency
  }

  #mayStart(now: number): boolean {
    const allowed = this.allowance(now)
    switch (allowed.kind) {
      case 'wait':
        return false
      case 'probe':
        return true
      case 'open_to':
        return allowed.limit === null || this.underway.size < allowed.limit
    }
  }
}
