import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Notice } from '../core/notice.ts'
import type { Notification } from '../core/notification.ts'
import { fullRelayName, type Relay, type RelayLink, relayOf } from '../core/relay.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'
import type { Stats } from './stats.ts'

export type RelayWatchParts = Readonly<{
  store: Pick<Store, 'listEntries' | 'listDeliveries'>
  stats: Pick<Stats, 'read'>
  endpoints: () => readonly Endpoint[]
  /** The link that a relay has now; null: none. */
  linkOf: (relayId: string) => RelayLink | null
  notices: Notices
  clock: Pick<Clock, 'steady'>
  log: Logger
  /** A hub may be away for so long. */
  awayMs: number
  /** Of several processes that share the store, one tells. All of them watch, since any may be the next. */
  dispatcher: Pick<Dispatcher, 'leads'>
  tell: (notification: Notification) => void
}>

export type KnownRelay = Pick<Relay, 'id' | 'name' | 'tenant'>

type Here = Readonly<{ kind: 'here' }>
/** `wasHere` null: it may have been connected before our start, nobody has looked yet. */
type Away = Readonly<{ kind: 'away'; since: number; wasHere: boolean | null; told: boolean }>
type Presence = Here | Away

const here: Here = { kind: 'here' }

type Watched = KnownRelay & { presence: Presence }

/** Often enough for limits of minutes; for shorter ones, oftener. */
const lookEveryMsMax = 30_000
const looksPerLimit = 4

/**
 * Tells when a hub has been away for too long, and when it is back. A relay that never had a hub and for which nothing
 * waits is one that is being set up: there is nothing to tell of it.
 */
export class RelayWatch {
  readonly #parts: RelayWatchParts
  readonly #watched = new Map<string, Watched>()
  readonly #unsubscribe: () => void
  readonly #startedAt: number
  #timer: NodeJS.Timeout | null = null
  #underway: Promise<void> | null = null
  #hasListed = false
  #stopped = false

  constructor(parts: RelayWatchParts) {
    this.#parts = parts
    this.#startedAt = parts.clock.steady()
    this.#unsubscribe = parts.notices.subscribe((notice) => this.#hear(notice))
  }

  start(): void {
    const everyMs = Math.min(lookEveryMsMax, this.#parts.awayMs / looksPerLimit)
    this.#timer = setInterval(() => void this.look(), everyMs)
    this.#timer.unref()
    void this.look()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#unsubscribe()
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#underway
  }

  /** The relays that there are, as far as is known. */
  get relays(): readonly KnownRelay[] {
    return [...this.#watched.values()]
  }

  /** How many hubs are away for longer than they should be. */
  get awayCount(): number {
    return [...this.#watched.values()].filter(({ presence }) => presence.kind === 'away' && presence.told).length
  }

  /** One look at a time: who asks meanwhile gets the same. */
  look(): Promise<void> {
    this.#underway ??= this.#look().finally(() => {
      this.#underway = null
    })
    return this.#underway
  }

  #hear(notice: Notice): void {
    if (notice.kind !== 'relay.changed') return
    const { relayId: id, name, tenant, connected } = notice
    const watched = this.#watched.get(id) ?? { id, name, tenant, presence: here }
    this.#watched.set(id, watched)
    this.#note(watched, connected || this.#parts.linkOf(id) !== null)
  }

  /** Its hub has come to another process, gone from it or moved on. */
  moved(relayId: string): void {
    const watched = this.#watched.get(relayId)
    if (watched !== undefined) this.#note(watched, this.#parts.linkOf(relayId) !== null)
  }

  #note(watched: Watched, connected: boolean): void {
    const { presence } = watched
    if (connected) this.#welcome(watched)
    else if (presence.kind === 'away') watched.presence = { ...presence, wasHere: true }
    else watched.presence = { kind: 'away', since: this.#parts.clock.steady(), wasHere: true, told: false }
  }

  #welcome(watched: Watched): void {
    const { presence } = watched
    watched.presence = here
    if (presence.kind === 'away' && presence.told) this.#tell('posthorn.relay.back', watched, presence.since)
  }

  async #look(): Promise<void> {
    try {
      const relays = await this.#parts.store.listEntries('relay')
      this.#take(relays.map(({ item }) => item))
      const endpoints = Map.groupBy(this.#parts.endpoints(), relayOf)
      for (const watched of this.#watched.values()) {
        await this.#lookAt(watched, endpoints.get(fullRelayName(watched.tenant, watched.name)) ?? [])
      }
    } catch (err) {
      if (!this.#stopped) this.#parts.log.warn({ err }, 'relays.not_looked_at')
    }
  }

  async #lookAt(watched: Watched, endpoints: readonly Endpoint[]): Promise<void> {
    const { clock, linkOf, awayMs } = this.#parts
    const { presence } = watched
    if (presence.kind === 'here' || this.#stopped) return
    // The end of an older link may have been told after the beginning of the newer one.
    if (linkOf(watched.id) !== null) return this.#welcome(watched)
    if (presence.told || clock.steady() - presence.since < awayMs) return
    const looked = await this.#lookedFor(presence, endpoints)
    // It may have come, or have come and gone, meanwhile.
    if (watched.presence !== presence || this.#stopped) return
    watched.presence = looked
    if (looked.told) this.#tell('posthorn.relay.away', watched, looked.since)
  }

  /** Those that are new since the last time, and no longer those that were deleted. */
  #take(relays: readonly Relay[]): void {
    const ids = new Set(relays.map(({ id }) => id))
    for (const id of this.#watched.keys()) if (!ids.has(id)) this.#watched.delete(id)
    for (const { id, name, tenant } of relays) {
      if (!this.#watched.has(id)) this.#watched.set(id, { id, name, tenant, presence: this.#newcomer() })
    }
    this.#hasListed = true
  }

  #newcomer(): Away {
    if (this.#hasListed) return { kind: 'away', since: this.#parts.clock.steady(), wasHere: false, told: false }
    return { kind: 'away', since: this.#startedAt, wasHere: null, told: false }
  }

  /** Whether anybody misses this hub: then it is to be told of. */
  async #lookedFor(presence: Away, endpoints: readonly Endpoint[]): Promise<Away> {
    const wasHere = presence.wasHere ?? (await this.#hasDelivered(endpoints))
    return { ...presence, wasHere, told: wasHere || (await this.#isWaitedFor(endpoints)) }
  }

  async #isWaitedFor(endpoints: readonly Endpoint[]): Promise<boolean> {
    const active = new Set(endpoints.flatMap(({ id, status }) => (status === 'active' ? [id] : [])))
    if (active.size === 0) return false
    const { backlog } = await this.#parts.stats.read()
    return backlog.some(({ endpointId, pending }) => pending > 0 && active.has(endpointId))
  }

  /** Only a hub that was connected can have taken anything. */
  async #hasDelivered(endpoints: readonly Endpoint[]): Promise<boolean> {
    for (const { id: endpointId } of endpoints) {
      const { items } = await this.#parts.store.listDeliveries({ endpointId, statuses: ['delivered'], limit: 1 })
      if (items.length > 0) return true
    }
    return false
  }

  #tell(type: 'posthorn.relay.away' | 'posthorn.relay.back', relay: KnownRelay, since: number): void {
    if (!this.#parts.dispatcher.leads) return
    const { id: relayId, name, tenant } = relay
    this.#parts.tell({ type, tenant, relayId, name, awayMs: this.#parts.clock.steady() - since })
  }
}
