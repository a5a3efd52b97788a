import type { BreakerState } from './circuit-breaker.ts'
import { type DeliveryStatus, isSettled } from './delivery.ts'
import type { Endpoint } from './endpoint.ts'
import type { Selection } from './selection.ts'

/** `finished`: everything is requeued. `settled`: and every outcome is known. */
export const replayStatuses = ['running', 'paused', 'finished', 'settled', 'cancelled'] as const
export type ReplayStatus = (typeof replayStatuses)[number]

/** A durable job that brings deliveries back, a few at a time. */
export type Replay = Readonly<{
  id: string
  /** Whose deliveries it may touch; null: all tenants'. */
  tenant: string | null
  selection: Selection
  /** Deliveries a second; null: only so fast that others do not notice. */
  rate: number | null
  note: string
  /** Who asked for it. */
  by: string
  status: ReplayStatus
  matched: number
  requeued: number
  /** Of the requeued, those that were delivered since; null: the replay is older than this count. */
  delivered: number | null
  /** Of the requeued, those that became dead letters again, for whatever reason; null as above. */
  failedAgain: number | null
  /** Matched, but could not be requeued: their endpoint is gone. */
  skipped: number
  createdAt: number
  updatedAt: number
  /** When everything was requeued, or the rest was cancelled. */
  endedAt: number | null
  /** When it had ended and the last outcome was known. */
  settledAt: number | null
}>

type Outcomes = Pick<Replay, 'requeued' | 'delivered' | 'failedAgain'>
export type ReplayProgress = Outcomes & Pick<Replay, 'status' | 'endedAt' | 'settledAt'>
/** All that changes of a job, once it is made. */
export type ReplayState = ReplayProgress & Pick<Replay, 'skipped' | 'updatedAt'>

export type ReplayCounts = Pick<Replay, 'matched' | 'requeued' | 'delivered' | 'failedAgain' | 'skipped'> &
  Readonly<{ waiting: number | null }>

/** How far it is, in the order in which people read it. */
export function countsOf(replay: Replay): ReplayCounts {
  const { matched, requeued, delivered, failedAgain, skipped } = replay
  return { matched, requeued, delivered, failedAgain, waiting: waitingOf(replay), skipped }
}

/** Requeued, and neither delivered nor a dead letter yet; null: nobody counted. */
export function waitingOf({ requeued, delivered, failedAgain }: Outcomes): number | null {
  return delivered === null || failedAgain === null ? null : requeued - delivered - failedAgain
}

/** A replay that has ended is settled with its last outcome; a cancelled one stays cancelled. */
export function settledWhenKnown<T extends ReplayProgress>(replay: T, now: number): T {
  if (replay.endedAt === null || replay.settledAt !== null || waitingOf(replay) !== 0) return replay
  return { ...replay, status: replay.status === 'finished' ? 'settled' : replay.status, settledAt: now }
}

// ── Transitions: a store reads the job, and writes what comes back ────────────────────────────────────────────────

/** A job that is still `from`, with its new status. null: it is not any more, and stays as it is. */
export function replayMoved<T extends ReplayState>(
  replay: T,
  { from, to }: Readonly<{ from: ReplayStatus; to: ReplayStatus }>,
  now: number,
): T | null {
  return replay.status === from ? withStatus(replay, to, now) : null
}

/** What one step of a job has done. `exhausted`: nothing is left. */
export type StepDone = Readonly<{ requeued: number; skipped: number; exhausted: boolean }>

/** A job after a step. With nothing left it has finished. */
export function replayStepped<T extends ReplayState>(
  replay: T,
  { requeued, skipped, exhausted }: StepDone,
  now: number,
): T {
  const counts = { requeued: replay.requeued + requeued, skipped: replay.skipped + skipped }
  const stepped = { ...replay, ...counts, updatedAt: now }
  return exhausted ? withStatus(stepped, 'finished', now) : stepped
}

/** The last step of a recovery whose endpoint is gone: nobody is there for what is left, so all of it is skipped. */
export function stepWithoutEndpoint({
  matched,
  requeued,
  skipped,
}: Pick<Replay, 'matched' | 'requeued' | 'skipped'>): StepDone {
  return { requeued: 0, skipped: Math.max(0, matched - requeued - skipped), exhausted: true }
}

/** Ends of requeued deliveries; `at` is the last of them. */
export type ReplayOutcome = Readonly<{ delivered: number; failedAgain: number; at: number }>

/** A job after requeued deliveries have ended. One that is older than the count stays without it. */
export function replayCounted<T extends ReplayState>(replay: T, { delivered, failedAgain, at }: ReplayOutcome): T {
  const counts = {
    delivered: replay.delivered === null ? null : replay.delivered + delivered,
    failedAgain: replay.failedAgain === null ? null : replay.failedAgain + failedAgain,
  }
  return settledWhenKnown({ ...replay, ...counts, updatedAt: Math.max(replay.updatedAt, at) }, at)
}

/** Whether a job ended before this instant and no outcome is missing: only then may it be deleted. */
export function mayPruneReplay(replay: ReplayProgress, before: number): boolean {
  const endedAt = replay.settledAt ?? replay.endedAt
  return endedAt !== null && endedAt < before && (waitingOf(replay) ?? 0) === 0
}

function withStatus<T extends ReplayState>(replay: T, status: ReplayStatus, now: number): T {
  const endedAt = status === 'finished' || status === 'cancelled' ? now : null
  return settledWhenKnown({ ...replay, status, updatedAt: now, endedAt }, now)
}

// ── The link from a delivery to the replay that requeued it ───────────────────────────────────────────────────────

/** What a change of a linked delivery means: its first end is counted, and whoever requeues it after that drops the link. */
export type LinkEffect = 'none' | 'delivered' | 'failedAgain' | 'dropped'

export function linkEffect(before: DeliveryStatus, after: DeliveryStatus): LinkEffect {
  if (isSettled(before)) return isSettled(after) ? 'none' : 'dropped'
  if (!isSettled(after)) return 'none'
  return after === 'delivered' ? 'delivered' : 'failedAgain'
}

// ── What waits when it is requeued ────────────────────────────────────────────────────────────────────────────────

export const blockedWhys = ['breaker_open', 'paused', 'disabled'] as const
export type BlockedWhy = (typeof blockedWhys)[number]

/** Why what is requeued at this endpoint is not tried now; null: it is. */
export function blockedBecause(
  { status, breaker }: Pick<Endpoint, 'status' | 'breaker'>,
  state: BreakerState,
): BlockedWhy | null {
  if (status !== 'active') return status
  return breaker !== null && state !== 'closed' ? 'breaker_open' : null
}

// ── What people ask for ───────────────────────────────────────────────────────────────────────────────────────────

export type ReplayVerb = 'pause' | 'resume' | 'cancel'

/** The status after a person's verb; null when it makes no sense now. */
export function replayAfter(status: ReplayStatus, verb: ReplayVerb): ReplayStatus | null {
  switch (verb) {
    case 'pause':
      return status === 'running' ? 'paused' : null
    case 'resume':
      return status === 'paused' ? 'running' : null
    case 'cancel':
      return status === 'running' || status === 'paused' ? 'cancelled' : null
  }
}
