import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { PlacedLink, Relay, RelayLink } from '../core/relay.ts'

/** Where hubs come in, and which of them are connected. Who may is decided before: a relay that is given here has shown its key. */
export interface RelayGate {
  /** Makes a link of an HTTP upgrade. An older link of the same relay is told why, and ends. */
  admit(relay: Relay, upgrade: Upgrade): void

  /** null: not connected, to none of the processes that share the store. */
  linkOf(relayId: string): PlacedLink | null

  /** Reads anew what other processes know of their hubs. */
  poll(): Promise<void>
}

export type Upgrade = Readonly<{ request: IncomingMessage; socket: Duplex; head: Buffer }>

/** The hubs that are connected to this process. */
export interface OwnLinks {
  admit(relay: Relay, upgrade: Upgrade): void

  /** null: not connected here. */
  linkOf(relayId: string): RelayLink | null

  /** A newer link of this relay is at another process: the one here ends. `session` is that of the newer link. */
  evict(relayId: string, session: string): void
}
