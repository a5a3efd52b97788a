import type { Endpoint, EndpointKind } from '../core/endpoint.ts'
import type { Event } from '../core/event.ts'
import type { Report } from '../core/outcome.ts'

/** One try: everything that the wire needs. */
export type Parcel = Readonly<{
  event: Event
  endpoint: Endpoint
  deliveryId: string
  /** The number of this try, from 1. */
  attempt: number
  /** Wall-clock time of this try, for the signature. */
  sentAt: number
}>

/**
 * Code that reaches one kind of endpoint. A transport returns facts and never decides: what a report means is the
 * failure classifier's business.
 */
export interface Transport {
  readonly kind: EndpointKind

  /**
   * Sends one parcel. Resolves within `parcel.endpoint.timeoutMs` of the call, whatever the other side does (within twice
   * that for a handler in an ordered lane, which waits for a late run so that order is kept), and never rejects: what
   * went wrong is in the report. Aborting `signal` ends the try at once: as `interrupted`, or as answered when the status
   * had arrived.
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
