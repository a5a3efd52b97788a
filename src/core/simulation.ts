import {
  allowance,
  type Breaker,
  type BreakerPolicy,
  type BreakerState,
  closedBreaker,
  probeStarted,
  recorded,
  unlimited,
  whileOpen,
} from './circuit-breaker.ts'
import { type DeliveryFacts, newborn, type Processing } from './delivery.ts'
import { afterAttempt, ageLimit } from './lifecycle.ts'
import { type Gate, gate } from './next-action.ts'
import type { Outcome } from './outcome.ts'
import { type Bucket, fullBucket, take } from './rate-limit.ts'
import type { RetryPolicy } from './retry-policy.ts'
import { Agenda } from './simulation-agenda.ts'

/** Events for one endpoint that is down from the first moment on. Instants count from there. */
export type Scenario = Readonly<{
  policy: RetryPolicy
  /** null: no breaker. */
  breaker: BreakerPolicy | null
  events: number
  /** How fast the events come in; null: all of them are there when the outage begins. */
  eventsPerSecond: number | null
  outageMs: number
  /** What the endpoint can take when it is up; more than that is answered with 503. null: no limit. */
  capacityPerSecond: number | null
  /** Tries at once. */
  concurrency: number
  /** How long a try takes, in both cases. */
  tookMs: number
  seed: number
}>

export type SimulatedTry = Readonly<{ at: number; probe: boolean; breaker: BreakerState; delivered: boolean }>
/** The tries that began in one second. */
export type Second = Readonly<{ second: number; tries: number; failedTries: number }>

export type Simulated = Readonly<{
  delivered: number
  failed: number
  /** Not settled when the simulation was cut short. */
  waiting: number
  tries: number
  triesInOutage: number
  /** The busiest second of all, and the busiest one after the outage. */
  peakPerSecond: number
  peakAfterOutage: number
  /** When the last one was delivered; null: none was. */
  lastDeliveredAt: number | null
  endedAt: number
  /** Seconds in which something was tried, in order. */
  load: readonly Second[]
}>

/** A policy that never gives up could go on for ever: what is not settled by then is counted as waiting. */
export const simulatedTriesMax = 2_000_000

/** Plays the rules of retries and breaker against the outage. The same scenario gives the same result. */
export function simulate(scenario: Scenario, observe: (tried: SimulatedTry) => void = () => undefined): Simulated {
  const run = new Run(scenario, observe)
  let goesOn = true
  while (goesOn) goesOn = run.step()
  return run.result()
}

type Item =
  | Readonly<{ kind: 'due'; delivery: DeliveryFacts }>
  | Readonly<{ kind: 'answer'; delivery: Processing; outcome: Outcome; startedAt: number; probe: boolean }>
  | Readonly<{ kind: 'look' }>

const unavailable: Outcome = { kind: 'unavailable', error: 'HTTP 503', retryAfterMs: null }

class Run {
  readonly #scenario: Scenario
  readonly #observe: (tried: SimulatedTry) => void
  readonly #random: () => number
  readonly #agenda = new Agenda<Item>()
  /** Due and waiting for a slot, oldest first; `#next` is the first that has not been tried. */
  readonly #ready: DeliveryFacts[] = []
  #next = 0
  #arrived = 0
  #underway = 0
  #breaker: Breaker = closedBreaker
  #capacity: Bucket | null
  #now = 0
  #tries = 0
  #triesInOutage = 0
  #delivered = 0
  #failed = 0
  #lastDeliveredAt: number | null = null
  readonly #load = new Map<number, { tries: number; failedTries: number }>()

  constructor(scenario: Scenario, observe: (tried: SimulatedTry) => void) {
    this.#scenario = scenario
    this.#observe = observe
    this.#random = seededRandom(scenario.seed)
    const { capacityPerSecond } = scenario
    this.#capacity = capacityPerSecond === null ? null : fullBucket(capacityPerSecond, 0)
  }

  /** Answers whether there is more to do. */
  step(): boolean {
    if (this.#tries >= simulatedTriesMax) return false
    const arrivesAt = this.#nextArrivalAt()
    const planned = this.#agenda.firstAt()
    if (arrivesAt !== null && (planned === null || arrivesAt <= planned)) {
      this.#now = arrivesAt
      this.#arrived += 1
      this.#take({ kind: 'due', delivery: eventNumber(this.#arrived, arrivesAt) })
    } else if (planned !== null) {
      this.#now = planned
      const item = this.#agenda.take()
      if (item !== null) this.#take(item)
    } else return false
    this.#start()
    return true
  }

  result(): Simulated {
    const { events, outageMs } = this.#scenario
    const load = [...this.#load].sort(([a], [b]) => a - b).map(([second, counts]) => ({ second, ...counts }))
    // A second that the outage ends in belongs to it.
    const after = load.filter(({ second }) => second * 1_000 >= outageMs)
    return {
      delivered: this.#delivered,
      failed: this.#failed,
      waiting: events - this.#delivered - this.#failed,
      tries: this.#tries,
      triesInOutage: this.#triesInOutage,
      peakPerSecond: load.reduce((most, { tries }) => Math.max(most, tries), 0),
      peakAfterOutage: after.reduce((most, { tries }) => Math.max(most, tries), 0),
      lastDeliveredAt: this.#lastDeliveredAt,
      endedAt: this.#now,
      load,
    }
  }

  #nextArrivalAt(): number | null {
    const { events, eventsPerSecond } = this.#scenario
    if (this.#arrived >= events) return null
    return eventsPerSecond === null ? 0 : Math.floor((this.#arrived * 1_000) / eventsPerSecond)
  }

  #take(item: Item): void {
    switch (item.kind) {
      case 'due':
        this.#ready.push(item.delivery)
        return
      case 'answer':
        this.#settle(item)
        return
      case 'look':
        return
    }
  }

  #start(): void {
    for (let delivery = this.#ready[this.#next]; delivery !== undefined; delivery = this.#ready[this.#next]) {
      const given = this.#given(delivery)
      if (given === 'wait') return
      this.#next += 1
      if (given === 'refuse') this.#failed += 1
      else this.#try(delivery, given === 'probe')
    }
    this.#ready.length = 0
    this.#next = 0
  }

  /** What is to be done with a delivery that is due. */
  #given(delivery: DeliveryFacts): Gate {
    const { policy, breaker, concurrency } = this.#scenario
    const expiresAt = ageLimit(delivery, policy)
    if (expiresAt !== null && this.#now >= expiresAt) return 'refuse'
    const load = { concurrency, onWire: this.#underway, answered: 0 }
    const allowed = breaker === null ? unlimited : allowance(this.#breaker, this.#now)
    return gate(load, allowed, whileOpen(this.#breaker, breaker))
  }

  #try(delivery: DeliveryFacts, probe: boolean): void {
    const at = this.#now
    const isDown = at < this.#scenario.outageMs
    const outcome: Outcome = isDown || !this.#hasCapacity() ? unavailable : { kind: 'delivered' }
    const delivered = outcome.kind === 'delivered'
    this.#observe({ at, probe, breaker: this.#breaker.state, delivered })
    if (probe) this.#breaker = probeStarted(this.#breaker, this.#scenario.tookMs, at)
    this.#underway += 1
    this.#tries += 1
    if (isDown) this.#triesInOutage += 1
    const second = Math.floor(at / 1_000)
    const { tries, failedTries } = this.#load.get(second) ?? { tries: 0, failedTries: 0 }
    this.#load.set(second, { tries: tries + 1, failedTries: failedTries + (delivered ? 0 : 1) })
    const answer: Item = { kind: 'answer', delivery: held(delivery), outcome, startedAt: at, probe }
    this.#agenda.add(at + this.#scenario.tookMs, answer)
  }

  #hasCapacity(): boolean {
    const { capacityPerSecond } = this.#scenario
    if (capacityPerSecond === null || this.#capacity === null) return true
    const answer = take(this.#capacity, capacityPerSecond, this.#now)
    if (answer.kind === 'taken') this.#capacity = answer.bucket
    return answer.kind === 'taken'
  }

  #settle({ delivery, outcome, startedAt, probe }: Extract<Item, { kind: 'answer' }>): void {
    const { policy, breaker } = this.#scenario
    const now = this.#now
    this.#underway -= 1
    if (breaker !== null) {
      const statusCode = outcome.kind === 'delivered' ? 200 : 503
      this.#breaker = recorded(this.#breaker, { outcome, statusCode, startedAt, probe }, breaker, now)
      // Nothing else may happen before the cool-down is over.
      if (this.#breaker.state === 'open') this.#agenda.add(this.#breaker.until, { kind: 'look' })
    }
    const to = afterAttempt(delivery, outcome, {
      policy,
      random: this.#random(),
      now,
      ages: { now, correction: null },
      probe,
    })
    switch (to.status) {
      case 'pending':
        this.#agenda.add(to.dueAt ?? now, { kind: 'due', delivery: to })
        return
      case 'delivered':
        this.#delivered += 1
        this.#lastDeliveredAt = now
        return
      case 'failed':
      case 'dead_letter':
        this.#failed += 1
    }
  }
}

function eventNumber(number: number, receivedAt: number): DeliveryFacts {
  return newborn({ id: `${number}`, eventId: `${number}`, endpointId: 'simulated', lane: null, receivedAt })
}

function held(delivery: DeliveryFacts): Processing {
  return { ...delivery, status: 'processing', leaseEndsAt: Number.POSITIVE_INFINITY }
}

/** The same numbers in [0, 1) for the same seed, on every machine (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
