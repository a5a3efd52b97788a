import type { Replay } from '../core/replay.ts'

/** How much of the store a replay takes. */
export type Speed = Readonly<{
  /** Deliveries of one step: a transaction that others' commits wait for. */
  chunkMax: number
  /** After a step the store belongs to the others for this many times as long as the step took. */
  restFactor: number
}>
const unrated: Speed = { chunkMax: 40, restFactor: 8 }
/** Where a step takes longer than this, what it does is the least of it: then it may do as much as with a rate. */
const slowStepMs = 10
/** A rate is a person's word for how much the others shall notice. */
const rated: Speed = { chunkMax: 200, restFactor: 2 }

export function speedOf({ rate }: Replay): Speed {
  return rate === null ? unrated : rated
}

/** Of its next step, after one that took so long. */
export function chunkMaxOf(replay: Replay, lastStepMs: number): number {
  return lastStepMs > slowStepMs ? rated.chunkMax : speedOf(replay).chunkMax
}
