import type { Clock } from '../core/clock.ts'
import { rankOf, shareOf } from '../core/shares.ts'
import { type Logger, SeldomLog } from '../log.ts'
import type { Beat, ClusterStore, MemberLease } from '../store/cluster-store.ts'

export type MembershipParts = Readonly<{
  store: ClusterStore
  clock: Clock
  log: Logger
  /** The store's time, with every answer. */
  onStoreTime: (now: number) => void
  /** The endpoints whose handlers run here. */
  handlers: () => readonly string[]
}>

const noBeatEveryMs = 30_000

/** They change with whatever other members change. */
type Versions = Pick<Beat, 'registryVersion' | 'linksVersion'>

/** Others hear of a newcomer with their next beat. */
const beatsBeforeStart = 3

export interface MembershipListener {
  /** False: others may take what is in hand from now on. True: this process is a member again. */
  onMembership?(isMember: boolean): void
  /** Somebody has changed the registry. While this fails it is called again with every beat. */
  onRegistry?(): Promise<void>
  /** A hub has come to a member, gone or moved, or a member is gone. While this fails it is called again with every beat. */
  onLinks?(): Promise<void>
  /** There are other members than before. */
  onMembers?(): void
  /** With every beat. */
  onBeat?(): void
}

/**
 * This process as one of those that share the store.
 *
 *   member   its beats are answered in time: what it has in hand is its own
 *   lapsed   none was answered for as long as the lease, or another member has fenced it: nothing may be under way
 *
 * The lease counts from when a beat is sent, so it lapses here before any other member may take something.
 */
export class Membership {
  readonly #parts: MembershipParts
  #id = ''
  #leader: string | null = null
  #handlersElsewhere: ReadonlySet<string> = new Set()
  #members: readonly string[] = []
  #registryVersion: number | null = null
  /** When hubs were looked at last. */
  #linksAt: Readonly<{ version: number; members: readonly string[] }> | null = null
  /** Since it joined. */
  #beats = 0
  readonly #listeners = new Set<MembershipListener>()
  /** While the database is away every beat fails. */
  readonly #noBeat: SeldomLog
  #isMember = false
  /** By the steady clock; null: never. */
  #lapsesAt: number | null = null
  #isStopped = false
  #isRenewing = false
  #isAskedAgain = false
  #beating: NodeJS.Timeout | null = null
  #lapsing: NodeJS.Timeout | null = null

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#noBeat = new SeldomLog(parts.log, noBeatEveryMs, parts.clock.steady)
  }

  /** A process that was stopped for a while handles what has come meanwhile before its timers: the clock decides. */
  get isMember(): boolean {
    if (this.#lapsesAt !== null && this.#parts.clock.steady() >= this.#lapsesAt) this.#change(false)
    return this.#isMember
  }

  /** Whether other processes may be members too. */
  get isShared(): boolean {
    return this.#beating !== null
  }

  get id(): string {
    return this.#id
  }

  /** Whether the handler of this endpoint runs at another member. */
  hasHandlerElsewhere(endpointId: string): boolean {
    return this.#handlersElsewhere.has(endpointId)
  }

  listen(listener: MembershipListener): void {
    this.#listeners.add(listener)
  }

  /**
   * What this member may use of a limit that all of them keep together; null: all of it. A newcomer begins when the others
   * have heard of it.
   */
  shareOf(endpointId: string, limit: number): number | null {
    if (!this.isShared || this.#members.length < 2) return null
    if (this.#beats < beatsBeforeStart) return 0
    return shareOf(limit, rankOf(endpointId, this.#id, this.#members), this.#members.length)
  }

  /** Whether this process does what only one should. */
  get isLeader(): boolean {
    return this.isMember && this.#leader === this.#id
  }

  async start(): Promise<void> {
    const lease = await this.#join()
    await this.#beat(lease?.leaseMs ?? null)
    if (lease === null) return
    const beat = () => this.#beatSafely(lease.leaseMs)
    this.#beating = setInterval(beat, lease.beatEveryMs)
    this.#parts.store.onHint(({ registry, links }) => {
      if (registry || links) beat()
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#beating !== null) clearInterval(this.#beating)
    if (this.#lapsing !== null) clearTimeout(this.#lapsing)
    await this.#parts.store.leave().catch((err) => this.#parts.log.warn({ err }, 'member.not_left'))
  }

  async #join(): Promise<MemberLease | null> {
    const { store, clock, onStoreTime } = this.#parts
    const sentAt = clock.steady()
    const { id, now, lease } = await store.join()
    const tookMs = clock.steady() - sentAt
    onStoreTime(now)
    this.#id = id
    this.#beats = 0
    this.#isMember = true
    if (lease !== null) this.#extend(lease.leaseMs - tookMs)
    return lease
  }

  /** One at a time: two answers that say that this member was fenced would make two new ones of it. */
  #beatSafely(leaseMs: number): void {
    if (this.#isRenewing) this.#isAskedAgain = true
    else this.#beat(leaseMs).catch((err) => this.#noBeat.warn('beat', { err }, 'member.no_beat'))
  }

  async #beat(leaseMs: number | null): Promise<void> {
    const { registryVersion, linksVersion } = await this.#renew(leaseMs)
    if (this.#isStopped || leaseMs === null) return
    for (const listener of this.#listeners) listener.onBeat?.()
    await this.#noteRegistry(registryVersion)
    await this.#noteLinks({ version: linksVersion, members: this.#members })
  }

  /** Answers the versions by which changes of others are known. */
  async #renew(leaseMs: number | null): Promise<Versions> {
    this.#isRenewing = true
    try {
      return await this.#renewed(leaseMs)
    } finally {
      this.#isRenewing = false
      const isAskedAgain = this.#isAskedAgain && !this.#isStopped
      this.#isAskedAgain = false
      if (isAskedAgain && leaseMs !== null) this.#beatSafely(leaseMs)
    }
  }

  async #renewed(leaseMs: number | null): Promise<Versions> {
    const { store, clock, log, onStoreTime } = this.#parts
    const sentAt = clock.steady()
    const { leader, members, now, isLost, handlersElsewhere, ...versions } = await store.beat(this.#parts.handlers())
    const tookMs = clock.steady() - sentAt
    onStoreTime(now)
    if (this.#isStopped) return versions
    if (leader !== this.#leader && this.#leader !== null)
      log.info({ leader, isThis: leader === this.#id }, 'leader.changed')
    this.#leader = leader
    this.#handlersElsewhere = new Set(handlersElsewhere)
    if (isLost) {
      log.warn({ member: this.#id }, 'member.fenced')
      this.#change(false)
      await this.#join()
      for (const listener of this.#listeners) listener.onMembership?.(true)
    } else if (leaseMs !== null && tookMs < leaseMs) {
      this.#extend(leaseMs - tookMs)
      this.#change(true)
      this.#noteMembers(members)
    }
    return versions
  }

  #noteMembers(members: readonly string[]): void {
    this.#beats += 1
    const isSame = members.length === this.#members.length && members.every((id, at) => id === this.#members[at])
    if (isSame && this.#beats !== beatsBeforeStart) return
    this.#tellChange(members)
    this.#members = members
    for (const listener of this.#listeners) listener.onMembers?.()
  }

  #tellChange(members: readonly string[]): void {
    const joined = members.filter((id) => !this.#members.includes(id) && id !== this.#id)
    const gone = this.#members.filter((id) => !members.includes(id))
    if (joined.length + gone.length > 0)
      this.#parts.log.info({ joined, gone, members: members.length }, 'members.changed')
  }

  /** Also after the first beat: what was changed since the registries were read is not to be missed. */
  async #noteRegistry(version: number): Promise<void> {
    if (version === this.#registryVersion) return
    for (const listener of this.#listeners) await listener.onRegistry?.()
    this.#registryVersion = version
  }

  async #noteLinks(at: Readonly<{ version: number; members: readonly string[] }>): Promise<void> {
    const { version, members } = this.#linksAt ?? {}
    if (version === at.version && members === at.members) return
    for (const listener of this.#listeners) await listener.onLinks?.()
    this.#linksAt = at
  }

  /** From now on. The store's time is followed before that: it may move the steady clock. */
  #extend(leftMs: number): void {
    if (this.#lapsing !== null) clearTimeout(this.#lapsing)
    this.#lapsesAt = this.#parts.clock.steady() + leftMs
    this.#lapsing = setTimeout(() => this.#change(false), Math.max(0, leftMs))
  }

  #change(isMember: boolean): void {
    if (this.#isStopped || this.#isMember === isMember) return
    this.#isMember = isMember
    this.#parts.log.warn({ member: this.#id }, isMember ? 'member.back' : 'member.lapsed')
    for (const listener of this.#listeners) listener.onMembership?.(isMember)
  }
}
