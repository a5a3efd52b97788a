import type { Outcome } from '../core/outcome.ts'
import type { HubReport } from '../transports/relay/protocol.ts'

/** What happens at a hub, for who watches it. */
export type HubEvent =
  | Readonly<{ kind: 'connected'; edge: string; relay: string; software: string }>
  /** Also when the edge could not be reached at all. `retryInMs` is null when the hub stays away. */
  | Readonly<{ kind: 'disconnected'; message: string; retryInMs: number | null }>
  | Tried

/** A delivery has been answered: by the local target, or from memory. */
export type Tried = Readonly<{
  kind: 'tried'
  delivery: string
  attempt: number
  eventId: string
  type: string
  route: string
  method: string
  /** At the local target, with its query. */
  path: string
  /** What was sent there. */
  body: Uint8Array
  report: HubReport
  outcome: Outcome
  tookMs: number
  /** Not handed to the target now: this is what came of it before. */
  remembered: boolean
}>

/** Why a hub is no longer there. All but `stopped` carry a sentence that says what to do. */
export type HubEnd =
  | Readonly<{ kind: 'stopped' }>
  | Readonly<{ kind: 'replaced' | 'revoked' | 'version' | 'refused'; message: string }>
