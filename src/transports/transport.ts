import type { Endpoint } from '../core/endpoint.ts'
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
  readonly kind: Endpoint['kind']

  /**
   * Sends one parcel. Resolves within `parcel.endpoint.timeoutMs` of the call, whatever the other side does, and never
   * rejects: what went wrong is in the report. Aborting `signal` ends the try at once: as `interrupted`, or as answered
   * when the status had arrived.
   */
  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report>

  /** Why this endpoint's address would be refused right now, in a sentence; null when it would not. No connection is made. */
  refusal(url: string): Promise<string | null>

  /** Waits for the tries under way, then ends every connection. May be called twice and never throws. */
  close(): Promise<void>
}
