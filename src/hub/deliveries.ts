import type { Clock } from '../core/clock.ts'
import { classify } from '../core/failure-classifier.ts'
import type { Outcome } from '../core/outcome.ts'
import type { Ack, Credit, Deliver, EndpointRulesMessage, HubReport } from '../transports/relay/protocol.ts'
import type { Transport } from '../transports/transport.ts'
import type { Ends } from './ends.ts'
import type { Tried } from './hub-events.ts'
import { Lane } from './lane.ts'
import { notRemembering, parcelOf, reportForEdge, type Target, targetOf, triedOf } from './target.ts'

/** The edge, as long as a link to it is up. */
export type AnswerLine = Readonly<{ ack(ack: Omit<Ack, 'kind'>): void; returned(deliveries: readonly string[]): void }>

export type DeliveriesSettings = Readonly<{
  routes: ReadonlyMap<string, string>
  /** Tries under way at once, per endpoint. */
  concurrency: number
  credit: Credit
  transport: Transport
  ends: Ends
  clock: Clock
  onTried: (tried: Tried) => void
}>

type Work = {
  readonly key: string
  readonly delivery: string
  readonly behind: string | null
  readonly deliver: Deliver
  readonly lane: Lane<Work>
  /** null: it has not begun. */
  target: Target | null
  /** Whether this link waits for its answer: what was begun for a link that is lost is finished all the same. */
  isAwaited: boolean
  /** It came again while it was under way. */
  wasJoined: boolean
}

/** What there is of one endpoint. */
type Place = {
  /** null: its route is not one of ours, or it was described on a link that is lost. */
  target: Target | null
  readonly lanes: Map<string, Lane<Work>>
  readonly ready: Set<Lane<Work>>
  running: number
}

type Result = Readonly<{ report: HubReport; tookMs: number; remembered: boolean }>

const endpointsMax = 10_000
/** Lanes that have nothing to do are remembered for their last end, up to this number per endpoint. */
const lanesMax = 1_024
/** What is under way for a lost link does not count against the new one; beyond that the edge breaks the rules. */
const creditTimesMax = 2

/** All that the edge has sent and that is not answered: it waits in its lane, or is under way to its target. */
export class Deliveries {
  readonly #settings: DeliveriesSettings
  readonly #places = new Map<string, Place>()
  readonly #works = new Map<string, Work>()
  readonly #interrupt = new AbortController()
  #bytes = 0
  #underWay = 0
  #line: AnswerLine | null = null
  #isDraining = false
  #whenIdle: (() => void)[] = []

  constructor(settings: DeliveriesSettings) {
    this.#settings = settings
  }

  connected(line: AnswerLine): void {
    this.#line = line
  }

  /** What has not begun is forgotten: the edge sends it again. */
  disconnected(): void {
    this.#line = null
    for (const work of this.#works.values()) {
      if (work.target === null) this.#drop(work)
      else work.isAwaited = false
    }
    for (const [id, place] of this.#places) {
      place.target = null
      place.ready.clear()
      for (const [name, lane] of place.lanes) {
        lane.forget()
        if (lane.isIdle) place.lanes.delete(name)
      }
      if (place.running === 0) this.#places.delete(id)
    }
  }

  /** False: these are more endpoints than an edge can have. */
  describe(message: EndpointRulesMessage): boolean {
    const url = this.#settings.routes.get(message.route)
    const target = url === undefined ? null : targetOf(message, url)
    const known = this.#places.get(message.endpoint)
    if (known === undefined && this.#places.size >= endpointsMax) return false
    if (known === undefined) {
      this.#places.set(message.endpoint, { target, lanes: new Map(), ready: new Set(), running: 0 })
    } else {
      known.target = target
    }
    return true
  }

  /** False: it is more than the edge was told that it may send. */
  take(deliver: Deliver): boolean {
    const { head, body } = deliver
    const { credit } = this.#settings
    const known = this.#works.get(keyOf(head))
    if (known !== undefined && this.#rejoin(known, head.behind)) return true
    if (this.#works.size >= credit.frames * creditTimesMax) return false
    if (this.#bytes + body.length > credit.bytes * creditTimesMax) return false
    const place = this.#places.get(head.endpoint)
    if (this.#isDraining || place?.target == null) {
      this.#line?.returned([head.delivery])
      return true
    }
    const lane = laneOf(place, head.lane)
    const { delivery, behind } = head
    const key = keyOf(head)
    const work: Work = { key, delivery, behind, deliver, lane, target: null, isAwaited: true, wasJoined: false }
    this.#works.set(key, work)
    this.#bytes += body.length
    this.#giveBack(lane.arrive(work))
    this.#advance(place, lane)
    return true
  }

  recall(endpoint: string): void {
    const place = this.#places.get(endpoint)
    if (place === undefined) return
    const lanes = new Set([...place.lanes.values(), ...place.ready])
    for (const lane of lanes) {
      this.#giveBack(lane.recall())
      place.ready.delete(lane)
    }
  }

  /** From now on nothing begins; resolves when nothing is under way. */
  drain(): Promise<void> {
    this.#isDraining = true
    for (const endpoint of this.#places.keys()) this.recall(endpoint)
    return this.#underWay === 0 ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** Ends the tries under way, without an answer. */
  interrupt(): void {
    this.#interrupt.abort()
  }

  /** Whether what came again is answered by what is here already. */
  #rejoin(known: Work, behind: string | null): boolean {
    if (known.target !== null) {
      known.isAwaited = true
      known.wasJoined = true
      return true
    }
    if (behind !== null || known.behind === null) return true
    // It was sent ahead, and now its turn has come: nothing is before it any more, so its old place is void.
    for (const waiting of known.lane.recall()) {
      this.#drop(waiting)
      if (waiting !== known) this.#line?.returned([waiting.delivery])
    }
    return false
  }

  /** A loop, since answers from memory come at once. */
  #advance(place: Place, lane: Lane<Work>): void {
    if (lane.isReady) place.ready.add(lane)
    for (const next of place.ready) {
      if (place.running >= this.#settings.concurrency) return
      place.ready.delete(next)
      const work = next.begin()
      if (work !== null) this.#begin(place, work)
      if (next.isReady) place.ready.add(next)
    }
  }

  #begin(place: Place, work: Work): void {
    const { ends } = this.#settings
    const { delivery, bornAt } = work.deliver.head
    const target = place.target
    if (target === null) {
      // Its route is gone by now.
      this.#giveBack([work, ...work.lane.settle(false)])
      return
    }
    work.target = target
    const kept = ends.find(delivery, bornAt)
    // What was an end by rules that have changed since is none: the edge would ask for it again and again.
    if (kept !== null && this.#isEnd(kept.report, target)) {
      const { report, tookMs } = kept
      this.#settle(work, target, { report, tookMs, remembered: true })
    } else if (ends.problem !== null) {
      this.#settle(work, target, { report: notRemembering(ends.problem), tookMs: 0, remembered: false })
    } else {
      place.running++
      this.#underWay++
      this.#try(work, target).finally(() => {
        place.running--
        this.#underWay--
        this.#advance(place, work.lane)
        if (this.#underWay > 0) return
        for (const done of this.#whenIdle.splice(0)) done()
      })
    }
  }

  async #try(work: Work, target: Target): Promise<void> {
    const { transport, ends, clock } = this.#settings
    const { delivery, bornAt } = work.deliver.head
    const beganAt = performance.now()
    const raw = await transport.deliver(parcelOf(work.deliver, target, clock.wall()), this.#interrupt.signal)
    const tookMs = Math.round(performance.now() - beganAt)
    const report = reportForEdge(raw)
    if (report === null) {
      this.#drop(work)
      for (const behind of work.lane.settle(false)) this.#drop(behind)
      return
    }
    // Before the answer, and before the next of the lane: else a crash would hand it to the target again.
    if (report.kind !== 'unreachable' && this.#isEnd(report, target))
      await ends.keep({ delivery, bornAt, report, tookMs })
    this.#settle(work, target, { report, tookMs, remembered: false })
  }

  #isEnd(report: HubReport, { endpoint }: Target): boolean {
    return hasEnded(classify(report, endpoint.classify, this.#settings.clock.wall()))
  }

  #settle(work: Work, target: Target, result: Result): void {
    const { delivery, bornAt } = work.deliver.head
    const { report, tookMs } = result
    const outcome = classify(report, target.endpoint.classify, this.#settings.clock.wall())
    const remembered = result.remembered || work.wasJoined
    this.#drop(work)
    if (work.isAwaited) {
      this.#line?.ack({ delivery, bornAt, report, tookMs, ...(remembered ? { remembered } : {}) })
    }
    this.#giveBack(work.lane.settle(hasEnded(outcome)))
    this.#settings.onTried(triedOf(work.deliver, target, { ...result, outcome }))
  }

  #giveBack(works: readonly Work[]): void {
    for (const work of works) this.#drop(work)
    if (works.length > 0) this.#line?.returned(works.map(({ delivery }) => delivery))
  }

  #drop(work: Work): void {
    if (this.#works.delete(work.key)) this.#bytes -= work.deliver.body.length
  }
}

function keyOf({ delivery, bornAt }: Readonly<{ delivery: string; bornAt: number }>): string {
  return `${delivery} ${bornAt}`
}

/** Who is in no order has a lane of its own. */
function laneOf(place: Place, name: string | null): Lane<Work> {
  if (name === null) return new Lane()
  const known = place.lanes.get(name)
  if (known !== undefined) return known
  const lane = new Lane<Work>()
  place.lanes.set(name, lane)
  if (place.lanes.size > lanesMax) forgetOldestIdle(place, lane)
  return lane
}

/** What is behind its last end is then given back once. */
function forgetOldestIdle({ lanes }: Place, fresh: Lane<Work>): void {
  for (const [name, lane] of lanes) {
    if (!lane.isIdle || lane === fresh) continue
    lanes.delete(name)
    return
  }
}

function hasEnded({ kind }: Outcome): boolean {
  return kind === 'delivered' || kind === 'permanent'
}
