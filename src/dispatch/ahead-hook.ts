import type { Allowance } from '../core/circuit-breaker.ts'
import type { ChangeResult, Claim } from '../store/pipeline-store.ts'
import type { Returned } from './decide.ts'
import type { EndpointWork } from './endpoint-work.ts'

/**
 * Where sending ahead (`ahead.ts`) hangs on the loop. For an endpoint whose other end does not keep the order of a lane by
 * itself, nothing of this does anything: a reader of the loop can skip it.
 */
export interface AheadHook {
  /** Reads that have not been answered yet. */
  readonly underway: number

  // ── In the order of a delivery's way ────────────────────────────────────────────────────────────────────────────

  /** The endpoint goes on, as far as breaker and hold allow. */
  goingOn(work: EndpointWork, allowed: Allowance): void

  /** A delivery came from the store: others may wait there behind it. */
  claimed(work: EndpointWork): void

  /** An attempt is about to start. */
  starting(work: EndpointWork, claim: Claim): void

  /** It has started. */
  started(work: EndpointWork): void

  /** An attempt has come back: it, and what has ended with it behind it. All of that is written together. */
  returned(work: EndpointWork, head: Returned): readonly Returned[]

  /** This attempt has ended. What was written with it, and how; nothing after a defect. */
  settled(work: EndpointWork, claim: Claim, chain: readonly Returned[], results: readonly ChangeResult[]): void
}
