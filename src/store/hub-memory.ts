import type { Report } from '../core/outcome.ts'

/** What a delivery ended with at the hub: what came of it was `delivered` or `permanent`, so it is not tried again. */
export type KeptEnd = Readonly<{
  delivery: string
  /** When this life of the delivery began. A replay begins a new one, which this end says nothing about. */
  bornAt: number
  report: EndReport
  tookMs: number
}>

export type EndReport = Extract<Report, { kind: 'answered' | 'blocked' }>

/**
 * What a hub remembers of what it has done, so that an answer that was lost on the way is given again, and the target
 * does not get the same delivery twice. What is lost from it costs at most a repeat, so it survives the end of the
 * process and forgets what is oldest.
 *
 * `find`, `keep` and `probe` throw a `PosthornError` when the storage fails. Then nothing may begin that would have to be
 * remembered.
 */
export interface HubMemory {
  find(delivery: string, bornAt: number): KeptEnd | null

  /** When it returns, the end outlives this process. The same end may be kept twice; the later one counts. */
  keep(end: KeptEnd): void

  /** Writes something as `keep` does, whatever it is: throws if nothing can be kept now. */
  probe(): void

  /** May be called twice and never throws. */
  close(): void
}
