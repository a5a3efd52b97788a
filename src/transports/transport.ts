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
   * Sends one parcel, once. Never rejects: what went wrong is in the report.
   *
   * The other side has `parcel.endpoint.timeoutMs` to answer. Then the try resolves as a failure. Two transports take
   * longer: a handler in an ordered lane waits up to the same time again for the late run, so that order is kept, and a
   * relay waits a while for its hub, which has the timeout for itself.
   *
   * Aborting `signal` ends the try at once and leaves other tries alone. The report is `interrupted`, unless the outcome
   * is known: the status has arrived, or the handler is past its deadline.
   *
   * Sends nothing and reports `interrupted` if `signal` is already aborted, if nobody is there, and after `close`.
   */
  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report>

  /**
   * Whether there is somebody who could take a delivery now: a handler is registered, a hub is connected. While there is
   * nobody the endpoint is held: no try, no outcome, no breaker.
   */
  serves(endpoint: Endpoint): boolean

  /**
   * Calls back when the answer of `serves` may have changed for this endpoint. A listener that wants to hear of the next
   * change asks `serves` again.
   */
  onServing(listener: (endpointId: string) => void): void

  /** Begins no more tries, waits for those under way, then lets go of everything. May be called twice and never throws. */
  close(): Promise<void>
}
