import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Relay, RelayLink } from '../core/relay.ts'

/** Where hubs come in. Who may is decided before: a relay that is given here has shown its key. */
export interface RelayGate {
  /** Makes a link of an HTTP upgrade. An older link of the same relay is told why, and ends. */
  admit(relay: Relay, upgrade: Readonly<{ request: IncomingMessage; socket: Duplex; head: Buffer }>): void

  /** null: not connected. */
  linkOf(relayId: string): RelayLink | null

  /** The relay is gone for good: its link ends at once. */
  revoke(relayId: string): void
}
