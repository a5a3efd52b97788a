import type { Allowance } from '../core/circuit-breaker.ts'
import type { Clock } from '../core/clock.ts'
import type { DeliveryFacts } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { laneOf } from '../core/lanes.ts'
import type { Logger } from '../log.ts'
import type { ChangeResult, Claim, Upcoming } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import type { AheadTransport } from '../transports/transport.ts'
import type { AheadHook } from './ahead-hook.ts'
import { attemptOf, parcelOf } from './attempt.ts'
import type { Decisions, Returned } from './decide.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { Memory } from './memory.ts'
import type { Settler } from './settler.ts'
import type { TransportSet } from './transport-set.ts'

/** Deliveries that are read at once. */
const readMax = 256
/** After a read that failed. */
const rereadAfterMs = 500

export type AheadParts = Readonly<{
  store: Store
  transport: TransportSet
  clock: Clock
  log: Logger
  memory: Memory
  settler: Settler
  stopping: AbortSignal
  goOn: (work: EndpointWork) => void
  decisions: Decisions
}>

/** A lane of which something may be sent before its turn. */
type Lane = {
  /** The delivery whose try is under way, or whose end waits for the disk. */
  head: string
  /** The last that was sent: what comes next is behind it. */
  tail: string
  /** Sent before its turn, in order. */
  readonly sent: Upcoming[]
  sentBytes: number
}

/** Of one endpoint. */
type State = {
  /** null: nothing may be sent ahead now. */
  lane: Lane | null
  isReading: boolean
  /** Something may wait in the store behind what is in hand and what was sent ahead. */
  mayWait: boolean
}

/**
 * Sends what waits in a lane while its head is still under way, if the other end keeps the order by itself. In the store
 * only the head is in hand: all of this can be thrown away at any time, and comes again in its turn.
 */
export class Ahead implements AheadHook {
  readonly #parts: AheadParts
  /** Of endpoints whose lane was sent ahead, or could have been. */
  readonly #states = new WeakMap<EndpointWork, State>()
  #reads = 0

  constructor(parts: AheadParts) {
    this.#parts = parts
  }

  get underway(): number {
    return this.#reads
  }

  /** While nothing may be tried, nothing stays ahead. */
  goingOn(work: EndpointWork, allowed: Allowance): void {
    if (!work.isServing || allowed.kind === 'wait') this.recall(work)
    else this.fill(work)
  }

  /** If it was sent ahead, what is behind it stays valid; otherwise it is a new beginning. */
  starting(work: EndpointWork, { delivery }: Claim): void {
    if (delivery.lane !== laneOf('endpoint', null) || this.#transportOf(work.endpoint) === null) return
    const state = this.#stateOf(work)
    const { lane } = state
    const first = lane?.sent[0]
    if (lane !== null && first !== undefined && isSame(first.delivery, delivery)) {
      // As a claim it is held anew.
      shift(lane, first)
      this.#parts.memory.free(work, first.event.body)
      lane.head = delivery.id
      return
    }
    this.recall(work)
    state.lane = { head: delivery.id, tail: delivery.id, sent: [], sentBytes: 0 }
  }

  claimed(work: EndpointWork): void {
    if (this.#transportOf(work.endpoint) !== null) this.#stateOf(work).mayWait = true
  }

  /** Something new waits in the store, behind what is in hand. */
  arrivedBehind(work: EndpointWork): void {
    this.claimed(work)
    this.fill(work)
  }

  started(work: EndpointWork): void {
    this.fill(work)
  }

  /** Sends more ahead, if something waits and there is room for it: at the other end, and here. */
  fill(work: EndpointWork): void {
    const state = this.#states.get(work)
    const lane = state?.lane ?? null
    if (state === undefined || lane === null || state.isReading || !state.mayWait || !work.isServing) return
    if (!this.#parts.settler.writable || this.#parts.stopping.aborted) return
    const { endpoint } = work
    const room = this.#transportOf(endpoint)?.roomAhead(endpoint)
    if (room === undefined || room.count < 1 || room.bytes < 1) return
    // A read for every answer would be dear: half of the room has to be free for it.
    if (lane.sent.length > 0 && (room.count < lane.sent.length || room.bytes < lane.sentBytes)) return
    const setAside = this.#parts.memory.claimBytes
    if (!this.#parts.memory.setAside(work, setAside)) return
    // What is put there while the read is under way is noted anew, and not lost under its answer.
    state.mayWait = false
    state.isReading = true
    this.#reads += 1
    const bytesMax = Math.min(room.bytes, setAside)
    const limits = { limit: Math.min(readMax, room.count), bytesMax, setAside }
    this.#read(work, state, lane, limits).catch((err) => {
      this.#parts.log.error({ err, endpointId: endpoint.id }, 'ahead.defect')
      state.isReading = false
      this.recall(work)
    })
  }

  /**
   * What has come back for deliveries behind a head, which were sent before their turn: each has had its attempt. The
   * first that does not end is the head then, and whatever is behind it comes again in its turn.
   */
  returned(work: EndpointWork, head: Returned): readonly Returned[] {
    const chain = [head]
    const lane = this.#laneBehind(work, head.claim)
    if (lane === null) return chain
    const { clock, decisions } = this.#parts
    const { endpoint } = work
    let isVoid = head.decision.to.status === 'pending'
    const mayHaveCome = !isVoid && lane.sent.length > 0
    const answers = (mayHaveCome && this.#transportOf(endpoint)?.answersBehind(endpoint, lane.head)) || []
    for (const { deliveryId, report, tookMs } of answers) {
      const first = lane.sent[0]
      isVoid = report.kind === 'interrupted' || first?.delivery.id !== deliveryId
      if (isVoid || first === undefined) break
      const claim = inTurn(first)
      const attempt = { number: claim.delivery.attempts + 1, startedAt: clock.wall() - tookMs, tookMs }
      const made = attemptOf(report, endpoint, attempt, clock.wall())
      const one = decisions.decide(work, claim, made, { startedAt: clock.steady() - tookMs, probe: false })
      shift(lane, first)
      chain.push(one)
      isVoid = one.decision.to.status === 'pending'
      if (isVoid) break
    }
    if (isVoid) this.recall(work)
    return chain
  }

  /** If nobody of the lane is in hand then, or not the one that was expected, what is ahead is void. */
  settled(work: EndpointWork, head: Claim, chain: readonly Returned[], results: readonly ChangeResult[]): void {
    if (this.#laneBehind(work, head) === null) return
    const last = results.at(-1)
    const goesOn = last?.kind === 'applied' && last.next !== null
    if (chain.length === 0 || !goesOn || results.some(({ kind }) => kind === 'stale')) this.recall(work)
  }

  /** What was sent ahead is void: it comes again in its turn. */
  recall(work: EndpointWork): void {
    const state = this.#states.get(work)
    if (state === undefined || state.lane === null) return
    const { sent } = state.lane
    state.lane = null
    if (sent.length === 0) return
    for (const { event } of sent) this.#parts.memory.free(work, event.body)
    state.mayWait = true
    this.#parts.transport.aheadOf(work.endpoint)?.recall(work.endpoint)
  }

  #stateOf(work: EndpointWork): State {
    const known = this.#states.get(work)
    if (known !== undefined) return known
    const state: State = { lane: null, isReading: false, mayWait: false }
    this.#states.set(work, state)
    return state
  }

  /** The lane, if this delivery is its head. */
  #laneBehind(work: EndpointWork, { delivery }: Claim): Lane | null {
    const lane = this.#states.get(work)?.lane ?? null
    return lane?.head === delivery.id ? lane : null
  }

  async #read(
    work: EndpointWork,
    state: State,
    lane: Lane,
    { limit, bytesMax, setAside }: Readonly<{ limit: number; bytesMax: number; setAside: number }>,
  ): Promise<void> {
    const { store, memory, log, goOn } = this.#parts
    const { id: endpointId } = work.endpoint
    const after = lane.tail
    let found: readonly Upcoming[] = []
    let failed = false
    try {
      found = await store.ahead({ endpointId, lane: laneOf('endpoint', null) ?? '', after, limit, bytesMax })
    } catch (err) {
      log.warn({ err, endpointId }, 'ahead.not_read')
      failed = true
    }
    memory.returnRoom(setAside)
    this.#reads -= 1
    if (failed || state.lane !== lane || lane.tail !== after) state.mayWait = true
    else {
      const sent = this.#send(work, lane, found)
      if (sent > 0) state.mayWait ||= sent < found.length || isFull(found, limit, bytesMax)
    }
    state.isReading = false
    if (failed) setTimeout(() => goOn(work), rereadAfterMs).unref()
    else goOn(work)
  }

  /** As much of it as there is room for; answers how many. */
  #send(work: EndpointWork, lane: Lane, found: readonly Upcoming[]): number {
    const { clock, memory } = this.#parts
    const { endpoint } = work
    const transport = this.#transportOf(endpoint)
    if (transport === null) return 0
    let { count, bytes } = transport.roomAhead(endpoint)
    const parcels = []
    for (const { delivery, event } of found) {
      const size = event.body.length
      if (count < 1 || size > bytes || !memory.occupy(work, event.body)) break
      count -= 1
      bytes -= size
      parcels.push({ ...parcelOf(endpoint, delivery, event), sentAt: clock.wall() })
    }
    const sent = parcels.length === 0 ? 0 : transport.sendAhead(parcels, lane.tail)
    for (const { event } of parcels.slice(sent)) memory.free(work, event.body)
    for (const upcoming of found.slice(0, sent)) {
      lane.sent.push(upcoming)
      lane.sentBytes += upcoming.event.body.length
      lane.tail = upcoming.delivery.id
    }
    return sent
  }

  /** A rate limit and a breaker count attempts as they begin: they need every delivery in its turn. */
  #transportOf(endpoint: Endpoint): AheadTransport | null {
    if (endpoint.ordering !== 'endpoint' || endpoint.rateLimit !== null || endpoint.breaker !== null) return null
    return this.#parts.transport.aheadOf(endpoint)
  }
}

/** The first that was sent is no longer ahead. */
function shift(lane: Lane, first: Upcoming): void {
  lane.sent.shift()
  lane.sentBytes -= first.event.body.length
}

/** One that was sent before its turn, when its turn has come; nobody else can have it in hand. */
function inTurn({ delivery, event }: Upcoming): Claim {
  const { dueAt: _, ...facts } = delivery
  return { delivery: { ...facts, status: 'processing', leaseEndsAt: 0 }, event, interruptions: 0 }
}

/** Replayed meanwhile, it has another life. */
function isSame(sent: DeliveryFacts, head: DeliveryFacts): boolean {
  return sent.id === head.id && sent.replayedAt === head.replayedAt && sent.attempts === head.attempts
}

/** More may wait. If that is a large one it goes unnoticed here, until the head changes. */
function isFull(found: readonly Upcoming[], limit: number, bytesMax: number): boolean {
  if (found.length >= limit) return true
  return 2 * found.reduce((sum, { event }) => sum + event.body.length, 0) >= bytesMax
}
