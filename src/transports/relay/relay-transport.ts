import { type ServerOptions, WebSocketServer } from 'ws'
import type { Clock } from '../../core/clock.ts'
import type { Endpoint, RelayEndpoint } from '../../core/endpoint.ts'
import type { Report } from '../../core/outcome.ts'
import { fullRelayName, type LinkEnding, type Relay, type RelayLink } from '../../core/relay.ts'
import type { Logger } from '../../log.ts'
import type { OwnLinks, Upgrade } from '../relay-gate.ts'
import type { AheadTransport, Answer, Parcel } from '../transport.ts'
import { Compression } from './compression.ts'
import type { HubWork } from './hub-work.ts'
import { endings, Link, type LinkParts } from './link.ts'
import { LinkLog } from './link-log.ts'
import { closeCodes, hubMessageBytesMax } from './protocol.ts'
import { interrupted, type RelayParcel } from './relay-try.ts'
import { type Timings, timings } from './timings.ts'

/** A hub came or went; `ending` and `why` are null when it came. */
export type LinkChange = Readonly<{
  relay: Relay
  connected: boolean
  /** Of the hub: the same when it comes back. */
  session: string
  ending: LinkEnding | null
  why: string | null
}>

export type RelayTransportParts = Readonly<{
  clock: Clock
  log: Logger
  /** What we say to hubs that we are, e.g. `posthorn/1.2.0`. */
  software: string
  onLink: (change: LinkChange) => void
  timings?: Partial<Timings>
  versionMin?: number
}>

const compressedBytesMin = 1_024
const compressionsMax = 4

const nobody = interrupted('the hub is not connected, or does not have this route')
const noRoom = { count: 0, bytes: 0 }

/** Delivers to hubs that have connected to us. While the hub of an endpoint is not there, the endpoint is held. */
export class RelayTransport implements AheadTransport, OwnLinks {
  readonly kind = 'relay'
  readonly #parts: RelayTransportParts
  readonly #timings: Timings
  readonly #linkParts: LinkParts
  readonly #server: WebSocketServer
  /** One for every relay whose hub is there, by the relay's id, and by what endpoints call it. */
  readonly #up = new Map<string, Link>()
  readonly #byName = new Map<string, Link>()
  /** Those that have not said hello, by the relay's id: the newest, so that there are never more than relays. */
  readonly #early = new Map<string, Link>()
  /** All whose connection is still there. */
  readonly #open = new Set<Link>()
  /** Which endpoints asked for a relay: they are told when it comes or goes. */
  readonly #askers = new Map<string, Set<string>>()
  readonly #servingListeners = new Set<(endpointId: string) => void>()
  readonly #roomListeners = new Set<(endpointId: string) => void>()
  readonly #underway = new Set<Promise<Report>>()
  #sweeper: NodeJS.Timeout | null = null
  #sweptAt = 0
  #closed: Promise<void> | null = null
  #isDraining = false

  constructor(parts: RelayTransportParts) {
    this.#parts = parts
    this.#timings = { ...timings, ...parts.timings }
    this.#linkParts = {
      clock: parts.clock,
      log: new LinkLog(parts),
      software: parts.software,
      timings: this.#timings,
      compression: new Compression(),
      versionMin: parts.versionMin ?? 1,
      owner: {
        linkUp: (link) => this.#linkUp(link),
        servingChanged: (link) => this.#tellServing(link.relay),
        linkDown: (link, ending, why) => this.#linkDown(link, ending, why),
        roomChanged: (endpointId) => {
          for (const listener of this.#roomListeners) listener(endpointId)
        },
      },
    }
    this.#server = openServer(this.#timings)
  }

  // ── Where hubs come in ──────────────────────────────────────────────────────────────────────────────────────────

  admit(relay: Relay, { request, socket, head }: Upgrade): void {
    if (this.#isDraining) {
      socket.destroy()
      return
    }
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      this.#early.get(relay.id)?.end(endings.replaced)
      const link = new Link(relay, ws, socket, this.#linkParts)
      this.#early.set(relay.id, link)
      this.#open.add(link)
      link.onClosed(() => this.#open.delete(link))
      this.#startSweeping()
    })
  }

  linkOf(relayId: string): RelayLink | null {
    return this.#up.get(relayId)?.facts ?? null
  }

  evict(relayId: string, session: string): void {
    const link = this.#up.get(relayId)
    // The same hub that comes back need not be told that it was replaced, which would make it stay away.
    if (link?.session === session) link.terminate()
    else link?.end(endings.replaced)
  }

  /** The relay is gone for good, or has another key: its link ends at once. */
  revoke(relayId: string): void {
    this.#early.get(relayId)?.end(endings.revoked)
    this.#up.get(relayId)?.end(endings.revoked)
  }

  #linkUp(link: Link): void {
    const { relay } = link
    this.#early.delete(relay.id)
    const { session } = link
    this.evict(relay.id, session)
    this.#up.set(relay.id, link)
    this.#byName.set(fullRelayName(relay.tenant, relay.name), link)
    const { software, protocol } = link.facts ?? {}
    this.#linkParts.log.change(relay, 'relay.connected', { software, protocol })
    this.#parts.onLink({ relay, session, connected: true, ending: null, why: null })
    this.#tellServing(relay)
  }

  #linkDown(link: Link, ending: LinkEnding, why: string): void {
    const { relay } = link
    if (this.#early.get(relay.id) === link) this.#early.delete(relay.id)
    if (this.#up.get(relay.id) !== link) return
    this.#up.delete(relay.id)
    this.#byName.delete(fullRelayName(relay.tenant, relay.name))
    this.#parts.onLink({ relay, session: link.session, connected: false, ending, why })
    this.#tellServing(relay)
  }

  // ── One timer for all links ─────────────────────────────────────────────────────────────────────────────────────

  #startSweeping(): void {
    if (this.#sweeper !== null) return
    this.#sweptAt = this.#parts.clock.steady()
    this.#sweeper = setInterval(() => this.#sweep(), this.#timings.sweepEveryMs).unref()
  }

  #sweep(): void {
    const now = this.#parts.clock.steady()
    const { sweepEveryMs } = this.#timings
    const lateMs = Math.max(0, now - this.#sweptAt - sweepEveryMs)
    this.#sweptAt = now
    for (const link of this.#early.values()) link.sweep(now, lateMs)
    for (const link of this.#up.values()) link.sweep(now, lateMs)
    if (this.#sweeper === null || this.#early.size + this.#up.size > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = null
  }

  // ── What the dispatcher asks ────────────────────────────────────────────────────────────────────────────────────

  serves(endpoint: Endpoint): boolean {
    if (endpoint.kind !== 'relay') return false
    const name = fullRelayName(endpoint.tenant, endpoint.relay)
    const askers = this.#askers.get(name)
    if (askers === undefined) this.#askers.set(name, new Set([endpoint.id]))
    else askers.add(endpoint.id)
    return this.#workFor(endpoint)?.serves(endpoint) ?? false
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#servingListeners.add(listener)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    if (!isForRelay(parcel) || signal.aborted) return Promise.resolve(nobody)
    const work = this.#workFor(parcel.endpoint)
    if (work === null || !work.serves(parcel.endpoint)) return Promise.resolve(nobody)
    const report = work.deliver(parcel, signal)
    this.#underway.add(report)
    report.then(() => this.#underway.delete(report))
    return report
  }

  roomAhead(endpoint: Endpoint): Readonly<{ count: number; bytes: number }> {
    if (endpoint.kind !== 'relay') return noRoom
    const room = this.#workFor(endpoint)?.room(endpoint)
    return room === undefined ? noRoom : { count: room.frames, bytes: room.bytes }
  }

  sendAhead(parcels: readonly Parcel[], behind: string): number {
    const ours = parcels.filter(isForRelay)
    const [first] = ours
    if (first === undefined) return 0
    return this.#workFor(first.endpoint)?.sendAhead(ours, behind) ?? 0
  }

  answersBehind(endpoint: Endpoint, deliveryId: string): readonly Answer[] {
    if (endpoint.kind !== 'relay') return []
    return this.#workFor(endpoint)?.answersBehind(deliveryId) ?? []
  }

  recall(endpoint: Endpoint): void {
    if (endpoint.kind === 'relay') this.#workFor(endpoint)?.recall(endpoint)
  }

  onRoom(listener: (endpointId: string) => void): void {
    this.#roomListeners.add(listener)
  }

  #workFor({ tenant, relay }: RelayEndpoint): HubWork | null {
    return this.#byName.get(fullRelayName(tenant, relay))?.work ?? null
  }

  /** Whoever still wants to know asks again when it is told. */
  #tellServing({ tenant, name }: Relay): void {
    if (this.#servingListeners.size === 0) return
    const key = fullRelayName(tenant, name)
    const askers = this.#askers.get(key) ?? []
    this.#askers.delete(key)
    for (const endpointId of askers) for (const listener of this.#servingListeners) listener(endpointId)
  }

  // ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Hubs get nothing new and are told so; what they have begun is still waited for. */
  drain(): void {
    if (this.#isDraining) return
    this.#isDraining = true
    for (const link of this.#early.values()) link.leave(closeCodes.restarting, 'The edge stops.')
    for (const link of this.#up.values()) {
      link.drain()
      this.#tellServing(link.relay)
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.drain()
    await Promise.allSettled(this.#underway)
    for (const link of this.#up.values()) link.leave(closeCodes.restarting, 'The edge stops.')
    await Promise.all([...this.#open].map((link) => new Promise<void>((resolve) => link.onClosed(resolve))))
    if (this.#sweeper !== null) clearInterval(this.#sweeper)
    this.#server.close()
  }
}

function openServer({ closeMsMax: closeTimeout }: Timings): WebSocketServer {
  const options: ServerOptions & { closeTimeout: number } = {
    noServer: true,
    clientTracking: false,
    // Answered by the link, which looks at what it holds for a hub that does not read.
    autoPong: false,
    maxPayload: hubMessageBytesMax,
    closeTimeout,
    // Only with hubs that ask for it, and without a window that is kept between messages.
    perMessageDeflate: {
      threshold: compressedBytesMin,
      concurrencyLimit: compressionsMax,
      serverNoContextTakeover: true,
      clientNoContextTakeover: true,
    },
  }
  return new WebSocketServer(options)
}

function isForRelay(parcel: Parcel): parcel is RelayParcel {
  return parcel.endpoint.kind === 'relay'
}
