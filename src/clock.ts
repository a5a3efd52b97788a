import type { Clock } from './core/clock.ts'

/** The machine's clock, and beside it one that nobody can set, in whole milliseconds. */
export function openClock(): Clock {
  const startedAt = Date.now() - performance.now()
  return { wall: Date.now, steady: () => Math.floor(startedAt + performance.now()) }
}
