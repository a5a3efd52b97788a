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
