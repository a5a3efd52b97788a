import type { Endpoint, EndpointKind } from '../core/endpoint.ts'
import type { Event } from '../core/event.ts'
import type { Report } from '../core/outcome.ts'

/** One try: everything that the wire needs. */
export type Parcel = Readonly<{
  event: Event
  endpoint: Endpoint
  deliveryId: string
  /** The lane in which the delivery was kept, whatever its endpoint's ordering is by now; null: it is in no order. */
  lane: string | null
  /** The number of this try, from 1. */
  attempt: number
  /** Wall-clock time of this try, for the signature. */
  sentAt: number
  /** When this life of the delivery began: its arrival, or its last replay. Who remembers results knows them by it. */
  bornAt: number
}>

/** What came back for a parcel that had been sent ahead. */
export type Answer = Readonly<{ deliveryId: string; report: Report; tookMs: number }>

/**
 * For a transport whose other end keeps the order of a lane by itself: what comes next may be on its way before its turn.
 * What is sent ahead is no try yet. It becomes one with the answer, or with `deliver` when its turn has come.
 */
export interface AheadTransport extends Transport {
  /** How much more of this endpoint's lane may be sent ahead now. */
  roomAhead(endpoint: Endpoint): Readonly<{ count: number; bytes: number }>

  /**
   * Sends these in their order, as many as can be sent now; answers how many. `behind` is the delivery before the first
   * of them, which was sent or sent ahead.
   */
  sendAhead(parcels: readonly Parcel[], behind: string): number

  /** The answers that came for what was sent ahead right behind this delivery, in order, up to the first that has none. Given once. */
  answersBehind(endpoint: Endpoint, deliveryId: string): readonly Answer[]

  /** What was sent ahead for this endpoint is void: it comes again in its turn. */
  recall(endpoint: Endpoint): void

  /** Calls back when there may be more room ahead. */
  onRoom(listener: (endpointId: string) => void): void
}

/**
 * Code that reaches one kind of endpoint. A transport returns facts and never decides: what a report means is the
 * failure classifier's business.
 */
export interface Transport {
  readonly kind: EndpointKind

  /**
   * Sends one parcel. Resolves within `parcel.endpoint.timeoutMs` of the call, whatever the other side does (within twice
   * that for a handler in an ordered lane, which waits for a late run so that order is kept; a while later for a relay,
   * whose hub has the time-out for itself), and never rejects: what went wrong is in the report. Aborting `signal` ends
   * the try at once: as `interrupted`, or as answered when the status had arrived.
   */
  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report>

  /**
   * Whether there is somebody who could take a delivery now: a handler is registered, a hub is connected. While there is
   * nobody the endpoint is held: no try, no outcome, no breaker.
   */
  serves(endpoint: Endpoint): boolean

  /** Calls back when the answer of `serves` may have changed for this endpoint. */
  onServing(listener: (endpointId: string) => void): void

  /** Waits for the tries under way, then lets go of everything. May be called twice and never throws. */
  close(): Promise<void>
}
