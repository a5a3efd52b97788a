import type { Clock } from '../core/clock.ts'
import type { DeliveryFacts } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { laneOf } from '../core/lanes.ts'
import type { Logger } from '../log.ts'
import type { Claim, Store, Upcoming } from '../store/store.ts'
import type { AheadTransport, Answer } from '../transports/transport.ts'
import { parcelOf } from './attempt.ts'
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
  /** Something may be possible at this endpoint now. */
  look: (work: EndpointWork) => void
}>

/** A lane of which something may be sent before its turn. */
export type LaneAhead = {
  /** The delivery whose try is under way, or whose end waits for the disk. */
  head: string
  /** The last that was sent: what comes next is behind it. */
  tail: string
  /** Sent before its turn, in order. */
  readonly sent: Upcoming[]
  sentBytes: number
}

/**
 * Sends what waits in a lane while its head is still under way, if the other end keeps the order by itself. In the store
 * only the head is in hand: all of this can be thrown away at any time, and comes again in its turn.
 */
export class Ahead {
  readonly #parts: AheadParts
  #reads = 0

  constructor(parts: AheadParts) {
    this.#parts = parts
  }

  /** Reads that have not been answered yet. */
  get underway(): number {
    return this.#reads
  }

  /** A try is about to start. If it was sent ahead, what is behind it stays valid; otherwise it is a new beginning. */
  begin(work: EndpointWork, { delivery }: Claim): void {
    if (delivery.lane !== laneOf('endpoint', null) || this.#transportOf(work.endpoint) === null) return
    const { ahead } = work
    const first = ahead?.sent[0]
    if (ahead != null && first !== undefined && isSame(first.delivery, delivery)) {
      // As a claim it is held anew.
      this.#shift(ahead, first)
      this.#parts.memory.free(work, first.event.body)
      ahead.head = delivery.id
      return
    }
    this.drop(work)
    work.ahead = { head: delivery.id, tail: delivery.id, sent: [], sentBytes: 0 }
  }

  /** Something was put into the store for this endpoint, behind what is there. */
  noteWaiting(work: EndpointWork): void {
    work.mayWait = true
    this.fill(work)
  }

  /** Sends more ahead, if something waits and there is room for it: at the other end, and here. */
  fill(work: EndpointWork): void {
    const { ahead, endpoint } = work
    if (ahead === null || work.readingAhead || !work.mayWait || !work.serving) return
    if (!this.#parts.settler.writable || this.#parts.stopping.aborted) return
    const room = this.#transportOf(endpoint)?.roomAhead(endpoint)
    if (room === undefined || room.count < 1 || room.bytes < 1) return
    // A read for every answer would be dear: half of the room has to be free for it.
    if (ahead.sent.length > 0 && (room.count < ahead.sent.length || room.bytes < ahead.sentBytes)) return
    const setAside = this.#parts.memory.claimBytes
    if (!this.#parts.memory.setAside(work, setAside)) return
    // What is put there while the read is under way is noted anew, and not lost under its answer.
    work.mayWait = false
    work.readingAhead = true
    this.#reads += 1
    const bytesMax = Math.min(room.bytes, setAside)
    void this.#read(work, ahead, { limit: Math.min(readMax, room.count), bytesMax }, setAside)
  }

  /** The answers that came for what is right behind the head, which has ended. */
  answers({ ahead, endpoint }: EndpointWork): readonly Answer[] {
    if (ahead === null || ahead.sent.length === 0) return []
    return this.#transportOf(endpoint)?.answersBehind(endpoint, ahead.head) ?? []
  }

  /** The next that was sent ahead, if it is this one: it is no longer ahead, and its memory is the caller's to free. */
  take({ ahead }: EndpointWork, deliveryId: string): Upcoming | null {
    const first = ahead?.sent[0]
    if (ahead === null || first?.delivery.id !== deliveryId) return null
    this.#shift(ahead, first)
    return first
  }

  /** What is ahead is void: it comes again in its turn. */
  drop(work: EndpointWork): void {
    const { ahead, endpoint } = work
    if (ahead === null) return
    work.ahead = null
    if (ahead.sent.length === 0) return
    for (const { event } of ahead.sent) this.#parts.memory.free(work, event.body)
    work.mayWait = true
    this.#parts.transport.aheadOf(endpoint)?.recall(endpoint)
  }

  async #read(
    work: EndpointWork,
    lane: LaneAhead,
    { limit, bytesMax }: Readonly<{ limit: number; bytesMax: number }>,
    setAside: number,
  ): Promise<void> {
    const { store, memory, log, look } = this.#parts
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
    memory.release(setAside)
    this.#reads -= 1
    if (failed || work.ahead !== lane || lane.tail !== after) work.mayWait = true
    else if (this.#send(work, lane, found)) work.mayWait ||= isFull(found, limit, bytesMax)
    work.readingAhead = false
    if (failed) setTimeout(() => look(work), rereadAfterMs).unref()
    else look(work)
  }

  /** As much of it as there is room for; answers whether that was anything. */
  #send(work: EndpointWork, lane: LaneAhead, found: readonly Upcoming[]): boolean {
    const { clock, memory } = this.#parts
    const { endpoint } = work
    const transport = this.#transportOf(endpoint)
    if (transport === null) return false
    let { count, bytes } = transport.roomAhead(endpoint)
    const parcels = []
    for (const { delivery, event } of found) {
      const size = event.body.length
      if (count < 1 || size > bytes || !memory.take(work, event.body)) break
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
    if (sent > 0 && sent < found.length) work.mayWait = true
    return sent > 0
  }

  #shift(lane: LaneAhead, first: Upcoming): void {
    lane.sent.shift()
    lane.sentBytes -= first.event.body.length
  }

  /** A rate limit and a breaker count tries as they begin: they need every delivery in its turn. */
  #transportOf(endpoint: Endpoint): AheadTransport | null {
    if (endpoint.ordering !== 'endpoint' || endpoint.rateLimit !== null || endpoint.breaker !== null) return null
    return this.#parts.transport.aheadOf(endpoint)
  }
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
