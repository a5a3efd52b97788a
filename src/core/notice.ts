import type { BreakerState } from './circuit-breaker.ts'
import type { DeliveryStatus } from './delivery.ts'
import type { EndpointKind, EndpointStatus } from './endpoint.ts'
import type { OutcomeKind, Reason } from './outcome.ts'
import type { LinkEnding } from './relay.ts'
import type { ReplayCounts, ReplayStatus } from './replay.ts'

/**
 * Something that happened and is on disk. Metrics, the live stream, notifications and the library's callbacks are all
 * fed from these, so that none of them needs a way of its own into the pipeline.
 */
export type Notice =
  | EventAccepted
  | AttemptSettled
  | DeliveryEnded
  | BreakerChanged
  | EndpointChanged
  | LaneStuck
  | ReplayChanged
  | RelayChanged

export type EventAccepted = Readonly<{
  kind: 'event.accepted'
  tenant: string
  eventId: string
  type: string
  deliveries: number
}>

/** One try is over. */
export type AttemptSettled = Readonly<{
  kind: 'attempt.settled'
  tenant: string
  deliveryId: string
  eventId: string
  endpointId: string
  endpointKind: EndpointKind
  type: string
  number: number
  outcome: OutcomeKind
  statusCode: number | null
  error: string | null
  startedAt: number
  tookMs: number
  /** What became of the delivery. */
  status: DeliveryStatus
  reason: Reason | null
  /** From acceptance to this try; only for the first one. */
  queuedMs: number | null
  /** From acceptance to the end of the delivery; null while it goes on. */
  endToEndMs: number | null
  traceparent: string | null
}>

/** A delivery ended without a try: cancelled, expired, crashed, its endpoint gone, its breaker open. */
export type DeliveryEnded = Readonly<{
  kind: 'delivery.ended'
  tenant: string
  deliveryId: string
  eventId: string
  endpointId: string
  type: string
  status: 'failed' | 'dead_letter'
  reason: Reason
}>

export type BreakerChanged = Readonly<{
  kind: 'breaker.changed'
  tenant: string
  endpointId: string
  from: BreakerState
  to: BreakerState
}>

export type EndpointChanged = Readonly<{
  kind: 'endpoint.changed'
  tenant: string
  endpointId: string
  /** null: it was deleted. */
  status: EndpointStatus | null
  statusReason: string | null
}>

/** The head of a lane has held it for too long. */
export type LaneStuck = Readonly<{
  kind: 'lane.stuck'
  tenant: string
  endpointId: string
  deliveryId: string
  lane: string
  /** How long it has held the lane by its next try. */
  sinceMs: number
}>

export type ReplayChanged = Readonly<{
  kind: 'replay.changed'
  tenant: string | null
  replayId: string
  status: ReplayStatus
}> &
  ReplayCounts

/** A hub came or went. */
export type RelayChanged = Readonly<{
  kind: 'relay.changed'
  tenant: string
  relayId: string
  name: string
  connected: boolean
  /** null while it is connected. */
  ending: LinkEnding | null
  /** Why it is not connected, in a few words; null while it is. */
  why: string | null
}>
