import type { BreakerChanged, Notice } from './notice.ts'
import { isUnwanted, type Reason } from './outcome.ts'
import type { ReplayCounts, ReplayStatus } from './replay.ts'
import { isOwnType } from './routing.ts'

/** What a person on duty wants to know. It is an event too, of this type, for endpoints that ask for it. */
export type Notification =
  | DeadLetters
  | EndpointDisabled
  | BreakerTurned
  | LanesStuck
  | LanesWithoutHead
  | ReplayFinished
  | BacklogTurned
  | RelayTurned

export type NotificationType = Notification['type']
const everyType: Readonly<Record<NotificationType, true>> = {
  'posthorn.dead_letters': true,
  'posthorn.endpoint.disabled': true,
  'posthorn.breaker.opened': true,
  'posthorn.breaker.closed': true,
  'posthorn.lane.stuck': true,
  'posthorn.lanes.without_head': true,
  'posthorn.replay.finished': true,
  'posthorn.replay.settled': true,
  'posthorn.backlog.high': true,
  'posthorn.backlog.normal': true,
  'posthorn.relay.away': true,
  'posthorn.relay.back': true,
}
export const notificationTypes = Object.keys(everyType) as readonly NotificationType[]

/** Deliveries that ended without having been delivered, since the last notification about this endpoint. */
export type DeadLetters = Readonly<{
  type: 'posthorn.dead_letters'
  tenant: string
  /** null: of several endpoints, when too many have dead letters at once to tell of each. */
  endpointId: string | null
  count: number
  reasons: Readonly<Partial<Record<Reason, number>>>
  /** One of them. */
  sample: string
}>

export type EndpointDisabled = Readonly<{
  type: 'posthorn.endpoint.disabled'
  tenant: string
  endpointId: string
  reason: string | null
}>

export type BreakerTurned = Readonly<{
  type: 'posthorn.breaker.opened' | 'posthorn.breaker.closed'
  tenant: string
  endpointId: string
}>

export type LanesStuck = Readonly<{
  type: 'posthorn.lane.stuck'
  tenant: string
  endpointId: string
  count: number
  /** One of them: the lane, the delivery that holds it, and for how long it does. */
  lane: string
  deliveryId: string
  sinceMs: number
}>

/** Lanes in which deliveries wait and none is due: a defect of Posthorn. */
export type LanesWithoutHead = Readonly<{
  type: 'posthorn.lanes.without_head'
  tenant: string
  count: number
}>

export type ReplayFinished = Readonly<{
  type: 'posthorn.replay.finished' | 'posthorn.replay.settled'
  tenant: string
  replayId: string
  status: ReplayStatus
}> &
  ReplayCounts

export type BacklogTurned = Readonly<{
  type: 'posthorn.backlog.high' | 'posthorn.backlog.normal'
  tenant: string
  pending: number
  max: number
  /** The endpoints with the most, largest first. */
  endpoints: readonly Readonly<{ endpointId: string; pending: number }>[]
}>

/** A hub has been away for longer than it should be, or is back after that. */
export type RelayTurned = Readonly<{
  type: 'posthorn.relay.away' | 'posthorn.relay.back'
  tenant: string
  relayId: string
  name: string
  /** How long it has been, or was, away. */
  awayMs: number
}>

/**
 * What a notice is worth telling; null: nothing. What happens to notifications themselves is never told by another one,
 * or the two would keep each other busy. `whose` is the tenant of what concerns all of them.
 */
export function notificationOf(notice: Notice, whose: string): Notification | null {
  switch (notice.kind) {
    case 'event.accepted':
      return null
    case 'attempt.settled':
      return notice.status === 'failed' || notice.status === 'dead_letter' ? deadLetter(notice) : null
    case 'delivery.ended':
      return deadLetter(notice)
    case 'breaker.changed':
      return breakerTurned(notice)
    case 'endpoint.changed': {
      const { tenant, endpointId, status, statusReason: reason } = notice
      return status === 'disabled' ? { type: 'posthorn.endpoint.disabled', tenant, endpointId, reason } : null
    }
    case 'lane.stuck': {
      const { tenant, endpointId, lane, deliveryId, sinceMs } = notice
      return { type: 'posthorn.lane.stuck', tenant, endpointId, count: 1, lane, deliveryId, sinceMs }
    }
    case 'replay.changed': {
      const { kind: _, tenant, status, ...counts } = notice
      if (status !== 'finished' && status !== 'settled') return null
      return { type: `posthorn.replay.${status}`, tenant: tenant ?? whose, status, ...counts }
    }
    case 'relay.changed':
      // A short break is nothing to get up for: whoever watches the time tells.
      return null
  }
}

function deadLetter(ended: {
  tenant: string
  endpointId: string
  deliveryId: string
  type: string
  reason: Reason | null
}): DeadLetters | null {
  const { tenant, endpointId, deliveryId, type, reason } = ended
  if (isOwnType(type) || reason === null || !isUnwanted(reason)) return null
  return { type: 'posthorn.dead_letters', tenant, endpointId, count: 1, reasons: { [reason]: 1 }, sample: deliveryId }
}

/** Half-open is part of being open. */
function breakerTurned({ tenant, endpointId, from, to }: BreakerChanged): BreakerTurned | null {
  if ((from === 'closed') === (to === 'closed')) return null
  return { type: to === 'closed' ? 'posthorn.breaker.closed' : 'posthorn.breaker.opened', tenant, endpointId }
}

/** Notifications about the same thing: within a while after one of them, the others are gathered into one. */
export function subjectOf(notification: Notification): string {
  const { tenant } = notification
  switch (notification.type) {
    case 'posthorn.dead_letters':
      return `dead ${tenant} ${notification.endpointId}`
    case 'posthorn.endpoint.disabled':
      return `disabled ${notification.endpointId}`
    case 'posthorn.breaker.opened':
    case 'posthorn.breaker.closed':
      return `breaker ${notification.endpointId}`
    case 'posthorn.lane.stuck':
      return `lane ${notification.endpointId}`
    case 'posthorn.lanes.without_head':
      return `lanes ${tenant}`
    case 'posthorn.replay.finished':
    case 'posthorn.replay.settled':
      return `${notification.type} ${notification.replayId}`
    case 'posthorn.backlog.high':
    case 'posthorn.backlog.normal':
      return `backlog ${tenant}`
    case 'posthorn.relay.away':
    case 'posthorn.relay.back':
      return `relay ${notification.relayId}`
  }
}

/** Two about the same subject as one: counts add up, of a state the later one is true. */
export function gathered(earlier: Notification, later: Notification): Notification {
  if (earlier.type === 'posthorn.dead_letters' && later.type === earlier.type) {
    const reasons: Partial<Record<Reason, number>> = { ...earlier.reasons }
    for (const [reason, count] of Object.entries(later.reasons) as [Reason, number][]) {
      reasons[reason] = (reasons[reason] ?? 0) + count
    }
    return { ...later, count: earlier.count + later.count, reasons }
  }
  if (earlier.type === 'posthorn.lane.stuck' && later.type === earlier.type) {
    return { ...later, count: earlier.count + later.count }
  }
  return later
}

/** Whether each process that shares the store sees a part of it. Of all else one process sees the whole. */
export function addsUp({ type }: Notification): boolean {
  return type === 'posthorn.dead_letters' || type === 'posthorn.lane.stuck'
}

/** Whether there is anything to tell when this is what has come of it since `told`: a state that is as before is not. */
export function isNews(told: Notification, next: Notification): boolean {
  switch (next.type) {
    case 'posthorn.breaker.opened':
    case 'posthorn.breaker.closed':
    case 'posthorn.backlog.high':
    case 'posthorn.backlog.normal':
    case 'posthorn.relay.away':
    case 'posthorn.relay.back':
      return told.type !== next.type
    case 'posthorn.dead_letters':
    case 'posthorn.endpoint.disabled':
    case 'posthorn.lane.stuck':
    case 'posthorn.lanes.without_head':
    case 'posthorn.replay.finished':
    case 'posthorn.replay.settled':
      return true
  }
}

/** Whether somebody should look after it: a replay that has delivered everything is only good to know. */
export function needsAttention(notification: Notification): boolean {
  if (notification.type === 'posthorn.replay.settled') return notification.failedAgain !== 0 || notification.skipped > 0
  return notification.type !== 'posthorn.replay.finished'
}

/** The endpoint that a notification is about; null when it is about none in particular. */
export function endpointConcerned(notification: Notification): string | null {
  return 'endpointId' in notification ? notification.endpointId : null
}
