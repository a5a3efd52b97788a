import { collectDefaultMetrics, Histogram, Registry } from 'prom-client'
import { breakerStates } from '../core/circuit-breaker.ts'
import { settledStatuses } from '../core/delivery.ts'
import { endpointKinds } from '../core/endpoint.ts'
import type { Notice } from '../core/notice.ts'
import { type NotificationType, notificationTypes } from '../core/notification.ts'
import { outcomeKinds, reasons } from '../core/outcome.ts'
import type { Notices } from '../notices.ts'
import type { WrittenBatch } from '../store/store.ts'
import { EndpointCounts, watchEndpointCounts } from './endpoint-metrics.ts'
import { type OperatingView, type WatchedGauges, watchLoad, watchOperating } from './gauges.ts'
import { linkEvent, linkEvents, type RelaysView, watchRelays } from './relay-gauges.ts'
import { tallied, timed } from './tally.ts'
import { skipReasons, type UpkeepReport } from './upkeep.ts'

/** Numbers about what has happened: every notice is a few additions. */
export interface Metrics {
  /** Events were taken in and are on disk, so many milliseconds after they had come. */
  accepted(tookMs: number): void
  /** One transaction. */
  batchWritten(batch: WrittenBatch): void
  upkeepDone(report: UpkeepReport): void
  notified(type: NotificationType): void
  /** Notices went to other processes, or were dropped. */
  noticesSent(result: NoticesSent, count: number): void
  /** Values that are read when somebody looks. */
  watch(gauges: WatchedGauges): void
  watchOperating(view: Omit<OperatingView, 'endpointsMax'>): void
  watchRelays(view: RelaysView): void
  page(): Promise<string>
  readonly contentType: string
}

const noticesSent = ['sent', 'dropped'] as const
type NoticesSent = (typeof noticesSent)[number]
const acceptSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const commitSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1]
const commitCalls = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 4_096]
const attemptSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const removedKinds = ['deliveries', 'events', 'keys', 'replays'] as const
const waitSeconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 3_600, 86_400]

/** `endpointsMax`: endpoints with series of their own. */
export function openMetrics(notices: Notices, endpointsMax: number): Metrics {
  const register = new Registry()
  // With them comes the delay of the event loop (nodejs_eventloop_lag_*).
  collectDefaultMetrics({ register })
  const endpointCounts = new EndpointCounts(endpointsMax)
  notices.subscribe(counting(register))
  notices.subscribe((notice) => endpointCounts.count(notice))
  const calls = new Histogram({
    name: 'posthorn_commit_calls',
    help: 'Writes that share one commit.',
    buckets: commitCalls,
    registers: [register],
  })
  const commit = timed(register, 'posthorn_commit_seconds', 'A commit, with the sync of the disk.', commitSeconds)
  const notified = tallied(register, 'posthorn_notifications_total', 'Notifications, by type.', {
    type: notificationTypes,
  })
  const sent = tallied(
    register,
    'posthorn_notices_sent_total',
    'Notices for other processes, by what became of them.',
    {
      result: noticesSent,
    },
  )
  return {
    contentType: register.contentType,
    accepted: timed(register, 'posthorn_accept_seconds', 'From the call to the answer of the disk.', acceptSeconds),
    batchWritten: (batch) => {
      calls.observe(batch.calls)
      commit(batch.commitMs)
    },
    upkeepDone: upkeepCounting(register),
    notified: (type) => notified.add(type, 1),
    noticesSent: (result, count) => sent.add(result, count),
    watch: (gauges) => watchLoad(register, gauges),
    watchOperating: (view) => {
      watchEndpointCounts(register, endpointCounts, view.endpoints)
      watchOperating(register, { ...view, endpointsMax })
    },
    watchRelays: (view) => watchRelays(register, view),
    page: () => register.metrics(),
  }
}

function counting(register: Registry): (notice: Notice) => void {
  const accepted = tallied(register, 'posthorn_events_accepted_total', 'Events that are on disk.')
  const attempts = tallied(register, 'posthorn_attempts_total', 'Tries, by what they meant and where they went.', {
    outcome: outcomeKinds,
    kind: endpointKinds,
  })
  const settled = tallied(register, 'posthorn_deliveries_settled_total', 'Deliveries that ended, by status.', {
    status: settledStatuses,
  })
  const deadLetters = tallied(
    register,
    'posthorn_dead_letters_total',
    'Deliveries that became dead letters, by reason.',
    {
      reason: reasons,
    },
  )
  const breakers = tallied(register, 'posthorn_breaker_changes_total', 'Changes of breakers, by new state.', {
    to: breakerStates,
  })
  const stuck = tallied(register, 'posthorn_lanes_stuck_total', 'Lanes that were held for too long by their head.')
  const links = tallied(register, 'posthorn_relay_links_total', 'Links of hubs that began and ended, by event.', {
    event: linkEvents,
  })
  const { queued, took, endToEnd } = timing(register)
  return (notice) => {
    switch (notice.kind) {
      case 'event.accepted':
        accepted.add('', 1)
        return
      case 'attempt.settled':
        attempts.add(`${notice.outcome} ${notice.endpointKind}`, 1)
        took(notice.tookMs)
        if (notice.queuedMs !== null) queued(notice.queuedMs)
        if (notice.endToEndMs === null) return
        settled.add(notice.status, 1)
        endToEnd(notice.endToEndMs)
        if (notice.reason !== null) deadLetters.add(notice.reason, 1)
        return
      case 'delivery.ended':
        settled.add(notice.status, 1)
        deadLetters.add(notice.reason, 1)
        return
      case 'breaker.changed':
        breakers.add(notice.to, 1)
        return
      case 'lane.stuck':
        stuck.add('', 1)
        return
      case 'relay.changed':
        links.add(linkEvent(notice), 1)
        return
      case 'endpoint.changed':
      case 'replay.changed':
        return
    }
  }
}

function timing(register: Registry) {
  const whole = 'From the acceptance of an event to the end of a delivery.'
  return {
    queued: timed(register, 'posthorn_queue_wait_seconds', 'From the acceptance to the first try.', waitSeconds),
    took: timed(register, 'posthorn_attempt_seconds', 'How long tries took.', attemptSeconds),
    endToEnd: timed(register, 'posthorn_end_to_end_seconds', whole, waitSeconds),
  }
}

function upkeepCounting(register: Registry): (report: UpkeepReport) => void {
  const runs = tallied(register, 'posthorn_upkeep_runs_total', 'Upkeep runs; skipped ones deleted nothing.', {
    result: ['done', ...skipReasons],
  })
  const expired = tallied(register, 'posthorn_upkeep_expired_total', 'Deliveries that waited for too long.')
  const removed = tallied(register, 'posthorn_upkeep_removed_total', 'What was kept long enough, and is deleted.', {
    what: removedKinds,
  })
  const freed = tallied(register, 'posthorn_upkeep_pages_freed_total', 'Pages given back to the file system.')
  return (report) => {
    runs.add(report.skipped ?? 'done', 1)
    expired.add('', report.expired)
    for (const what of removedKinds) removed.add(what, report[what])
    freed.add('', report.pagesFreed)
  }
}
