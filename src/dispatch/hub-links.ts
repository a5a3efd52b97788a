import { setTimeout as pause } from 'node:timers/promises'
import { type Endpoint, isRelayEndpoint } from '../core/endpoint.ts'
import { lacksRoute, type PlacedLink, type Relay, type RelayLink } from '../core/relay.ts'
import type { Logger } from '../log.ts'
import type { ClusterStore, HubLink, LinkKey } from '../store/cluster-store.ts'
import type { OwnLinks, RelayGate, Upgrade } from '../transports/relay-gate.ts'
import type { MembershipListener } from './membership.ts'
import type { OtherHubs } from './other-hubs.ts'

export type HubLinksParts = Readonly<{
  store: Pick<ClusterStore, 'putLinks' | 'dropLinks' | 'listLinks'>
  own: OwnLinks
  /** The relay that an endpoint names; null: there is none. */
  named: (tenant: string, name: string) => Relay | null
  /** The id of this member. */
  member: () => string
  log: Logger
}>

/** A link of this process; its epoch is null until the store has it. */
type Held = { readonly session: string; epoch: number | null; told: string }

/** After an outage all hubs come back at once: they are looked at together. */
const gatheredMs = 50
/** What changes while a link lasts (its round trip, its last answer) goes to the others with every fifth beat. */
const beatsPerRenewal = 5

/**
 * Which hub is connected to which of the members. The newest link of a relay has the hub, wherever it is; an older one at
 * another member ends as soon as that member hears of it. While the store does not answer, every member goes on with the
 * hubs that it has.
 */
export class HubLinks implements RelayGate, OtherHubs, MembershipListener {
  readonly #parts: HubLinksParts
  readonly #held = new Map<string, Held>()
  /** Links that have ended here, and that the store still has. */
  readonly #ended: LinkKey[] = []
  /** By the relay's id: what the other members have. */
  #elsewhere = new Map<string, HubLink>()
  readonly #listeners = new Set<(relayId: string) => void>()
  #isTelling = false
  #gathering: Promise<void> | null = null
  /** Looks that were begun, and the newest whose answer was taken. */
  #polls = 0
  #adopted = 0
  #beats = 0
  #isStopped = false

  constructor(parts: HubLinksParts) {
    this.#parts = parts
  }

  // ── What is asked ───────────────────────────────────────────────────────────────────────────────────────────────

  admit(relay: Relay, upgrade: Upgrade): void {
    this.#parts.own.admit(relay, upgrade)
  }

  linkOf(relayId: string): PlacedLink | null {
    const own = this.ownLinkOf(relayId)
    if (own !== null) return { ...own, member: this.#parts.member(), isHere: true }
    const other = this.#elsewhere.get(relayId)
    return other === undefined ? null : { ...other.facts, member: other.member, isHere: false }
  }

  /** null: it is not connected to this process. */
  ownLinkOf(relayId: string): RelayLink | null {
    return this.#parts.own.linkOf(relayId)
  }

  serves(endpoint: Endpoint): boolean {
    if (!isRelayEndpoint(endpoint)) return false
    const relay = this.#parts.named(endpoint.tenant, endpoint.relay)
    const link = relay === null ? null : (this.#elsewhere.get(relay.id)?.facts ?? null)
    return link !== null && !lacksRoute(link, endpoint.route)
  }

  onOtherHub(listener: (relayId: string) => void): void {
    this.#listeners.add(listener)
  }

  // ── What happens here ───────────────────────────────────────────────────────────────────────────────────────────

  /** A hub has come to this process. */
  connected(relayId: string, session: string): void {
    this.#held.set(relayId, { session, epoch: null, told: '' })
    this.#tellStore()
  }

  /** It has gone. */
  disconnected(relayId: string): void {
    const held = this.#held.get(relayId)
    if (held === undefined) return
    this.#held.delete(relayId)
    if (held.epoch !== null) this.#ended.push({ relayId, epoch: held.epoch })
    this.#tellStore()
  }

  /** The store is about to close. As this process is no member any more, nobody takes its hubs for connected. */
  stop(): void {
    this.#isStopped = true
  }

  #tellStore(): void {
    if (!this.#isTelling && !this.#isStopped) void this.#tell()
  }

  /** What cannot be sent now is sent with the next beat that is answered. */
  async #tell(): Promise<void> {
    this.#isTelling = true
    try {
      // New ones first: a hub that comes back is not away in between.
      let more = true
      while (more) more = (await this.#put(({ epoch }) => epoch === null)) || (await this.#dropEnded())
    } catch (err) {
      this.#failed(err)
    } finally {
      this.#isTelling = false
    }
  }

  /** Answers whether there was anything to put. */
  async #put(isWanted: (held: Held, relayId: string) => boolean): Promise<boolean> {
    const puts = [...this.#held].flatMap(([relayId, held]) => {
      const facts = isWanted(held, relayId) ? this.ownLinkOf(relayId) : null
      return facts === null ? [] : [{ relayId, held, facts, session: held.session, epoch: held.epoch }]
    })
    if (puts.length === 0) return false
    const epochs = await this.#parts.store.putLinks(puts.map(({ held: _, ...put }) => put))
    for (const [index, { relayId, held, facts }] of puts.entries()) {
      const epoch = epochs[index] ?? null
      if (epoch !== null && held.epoch === null) this.#noteEpoch(relayId, held, epoch)
      held.told = JSON.stringify(facts)
    }
    if (epochs.includes(null)) await this.#leave(puts.filter((_, index) => epochs[index] === null))
    return true
  }

  #noteEpoch(relayId: string, held: Held, epoch: number): void {
    held.epoch = epoch
    this.#elsewhere.delete(relayId)
    if (this.#held.get(relayId) !== held) this.#ended.push({ relayId, epoch })
  }

  /** Other members have newer links of these relays. Reads the list first, so that each link ends with the right reason. */
  async #leave(lost: readonly Readonly<{ relayId: string; held: Held }>[]): Promise<void> {
    await this.poll()
    for (const { relayId, held } of lost) {
      if (this.#held.get(relayId) === held) this.#parts.own.evict(relayId, held.session)
    }
  }

  async #dropEnded(): Promise<boolean> {
    const ended = this.#ended.splice(0)
    if (ended.length === 0) return false
    try {
      await this.#parts.store.dropLinks(ended)
    } catch (error) {
      this.#ended.push(...ended)
      throw error
    }
    return true
  }

  // ── What others tell ────────────────────────────────────────────────────────────────────────────────────────────

  onBeat(): void {
    this.#beats += 1
    this.#tellStore()
    if (this.#beats % beatsPerRenewal === 0) void this.#renew()
  }

  /** Hubs have come, gone or moved at some member. */
  onLinks(): Promise<void> {
    this.#gathering ??= pause(gatheredMs, undefined, { ref: false }).then(() => {
      this.#gathering = null
      return this.poll()
    })
    return this.#gathering
  }

  async poll(): Promise<void> {
    this.#polls += 1
    const poll = this.#polls
    const listed = await this.#parts.store.listLinks()
    if (poll <= this.#adopted) return
    this.#adopted = poll
    this.#adopt(listed)
  }

  #adopt(listed: readonly HubLink[]): void {
    const before = this.#elsewhere
    const { own, member } = this.#parts
    const others = listed.filter((link) => link.member !== member() && !this.#isOlder(link))
    this.#elsewhere = new Map(others.map((link) => [link.relayId, link]))
    for (const { relayId, epoch, session } of others) {
      const held = this.#held.get(relayId)
      if (held !== undefined && held.epoch !== null && held.epoch < epoch) own.evict(relayId, session)
    }
    const ids = new Set([...before.keys(), ...this.#elsewhere.keys()])
    for (const id of ids) {
      if (before.get(id)?.epoch === this.#elsewhere.get(id)?.epoch) continue
      for (const listener of this.#listeners) listener(id)
    }
  }

  /** Listed before the store had ours. */
  #isOlder({ relayId, epoch }: HubLink): boolean {
    const held = this.#held.get(relayId)
    return held !== undefined && held.epoch !== null && epoch < held.epoch
  }

  async #renew(): Promise<void> {
    try {
      await this.#put(({ epoch, told }, id) => epoch !== null && JSON.stringify(this.ownLinkOf(id)) !== told)
    } catch (err) {
      this.#failed(err)
    }
  }

  #failed(err: unknown): void {
    if (!this.#isStopped) this.#parts.log.warn({ err }, 'links.not_told')
  }
}
