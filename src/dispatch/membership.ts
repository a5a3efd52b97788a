import type { Clock } from '../core/clock.ts'
import { rankOf, shareOf } from '../core/shares.ts'
import { type Logger, SeldomLog } from '../log.ts'
import type { Beat, ClusterStore, MemberLease, MemberNews } from '../store/cluster-store.ts'

export type MembershipParts = Readonly<{
  store: ClusterStore
  clock: Clock
  /** The machine's clock, which goes on, or is set right, while a suspended machine's others stand still. */
  machineNow: () => number
  log: Logger
  /** The store's time, with every answer. */
  onStoreTime: (now: number, store: Readonly<{ isShared: boolean }>) => void
  /** What the others are told with every beat. */
  news: () => MemberNews
}>

const noBeatEveryMs = 30_000

/** They change with whatever other members change. */
type Versions = Pick<Beat, 'registryVersion' | 'linksVersion'>

/** Others hear of a newcomer with their next beat. It begins after two, however many beats hints have caused meanwhile. */
const beatsBeforeStart = 2

export interface MembershipListener {
  /** False: others may take what is in hand from now on. True: this process is a member again. */
  onMembership?(isMember: boolean): void
  /** Somebody has changed the registry. While this fails it is called again with every beat. */
  onRegistry?(): Promise<void>
  /** A hub has come to a member, gone or moved, or a member is gone. While this fails it is called again with every beat. */
  onLinks?(): Promise<void>
  /** There are other members than before, or others that work. */
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
  /** Those of them that make attempts. */
  #working: readonly string[] = []
  #registryVersion: number | null = null
  /** When hubs were looked at last. */
  #linksAt: Readonly<{ version: number; members: readonly string[] }> | null = null
  /** Whether the others have heard by now that this member works, and leave it its share. */
  #hasShare = false
  #sharing: NodeJS.Timeout | null = null
  readonly #listeners = new Set<MembershipListener>()
  /** While the database is away every beat fails. */
  readonly #noBeat: SeldomLog
  #isMember = false
  /** Null: this process is alone, or has not joined. */
  #lease: MemberLease | null = null
  /** By the steady clock; null: never. */
  #lapsesAt: number | null = null
  /** The same by the machine's clock. */
  #lapsesAtMachine = Number.POSITIVE_INFINITY
  #joining: Promise<MemberLease | null> | null = null
  #isStopped = false
  #isRenewing = false
  #isAskedAgain = false
  #beating: NodeJS.Timeout | null = null
  #lapsing: NodeJS.Timeout | null = null

  constructor(parts: MembershipParts) {
    this.#parts = parts
    this.#noBeat = new SeldomLog(parts.log, noBeatEveryMs, parts.clock.steady)
  }

  get isMember(): boolean {
    return this.#isMember && !this.#hasLapsed
  }

  get #hasLapsed(): boolean {
    const { clock, machineNow } = this.#parts
    return this.#lapsesAt !== null && (clock.steady() >= this.#lapsesAt || machineNow() >= this.#lapsesAtMachine)
  }

  /**
   * Ends the membership if its lease has lapsed, and answers whether this process still is a member. Asked before anything
   * starts: a process that was stopped for a while handles what has come meanwhile before its timers.
   */
  checkLease(): boolean {
    if (this.#hasLapsed) this.#change(false)
    return this.#isMember
  }

  /** Whether other processes may be members too. */
  get isShared(): boolean {
    return this.#beating !== null
  }

  get id(): string {
    return this.#id
  }

  /** Whether another member could do what is not in hand here. */
  get hasOthers(): boolean {
    return this.#working.some((id) => id !== this.#id)
  }

  /** Whether the handler of this endpoint runs at another member. */
  hasHandlerElsewhere(endpointId: string): boolean {
    return this.#handlersElsewhere.has(endpointId)
  }

  listen(listener: MembershipListener): void {
    this.#listeners.add(listener)
  }

  /**
   * What this member may use of a limit that those that work keep together; null: all of it. It begins when the others have
   * heard that it works.
   */
  shareOf(endpointId: string, limit: number): number | null {
    if (!this.isShared || this.#members.length < 2) return null
    if (!this.#hasShare) return 0
    return shareOf(limit, rankOf(endpointId, this.#id, this.#working), this.#working.length)
  }

  /** Whether this process does what only one should. */
  get isLeader(): boolean {
    return this.isMember && this.#leader === this.#id
  }

  /** From then on this process goes by the store's time: it comes before anything is loaded that may be due. */
  join(): Promise<MemberLease | null> {
    this.#joining ??= this.#join()
    return this.#joining
  }

  async start(): Promise<void> {
    const lease = await this.join()
    await this.#beat()
    if (lease === null) return
    const beat = () => this.#beatSafely()
    this.#beating = setInterval(beat, lease.beatEveryMs)
    this.#parts.store.onHint(({ registry, links, members }) => {
      if (registry || links || members) beat()
    })
  }

  /** What the others should know has changed. */
  tell(): void {
    if (this.isShared) this.#beatSafely()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#beating !== null) clearInterval(this.#beating)
    if (this.#lapsing !== null) clearTimeout(this.#lapsing)
    this.#endShare()
    await this.#parts.store.leave().catch((err) => this.#parts.log.warn({ err }, 'member.not_left'))
  }

  async #join(): Promise<MemberLease | null> {
    const { store, clock, onStoreTime } = this.#parts
    const sentAt = clock.steady()
    const { id, now, lease } = await store.join()
    const tookMs = clock.steady() - sentAt
    onStoreTime(now, { isShared: lease !== null })
    this.#id = id
    this.#lease = lease
    this.#endShare()
    this.#isMember = true
    if (lease !== null) this.#extend(lease.leaseMs - tookMs)
    return lease
  }

  /** One at a time: two answers that say that this member was fenced would make two new ones of it. */
  #beatSafely(): void {
    if (this.#isRenewing) this.#isAskedAgain = true
    else this.#beat().catch((err) => this.#noBeat.warn('beat', { err }, 'member.no_beat'))
  }

  async #beat(): Promise<void> {
    const { registryVersion, linksVersion } = await this.#renew()
    if (this.#isStopped || this.#lease === null) return
    for (const listener of this.#listeners) listener.onBeat?.()
    await this.#noteRegistry(registryVersion)
    await this.#noteLinks({ version: linksVersion, members: this.#members })
  }

  /** Answers the versions by which changes of others are known. */
  async #renew(): Promise<Versions> {
    this.#isRenewing = true
    try {
      return await this.#renewed()
    } finally {
      this.#isRenewing = false
      const isAskedAgain = this.#isAskedAgain && !this.#isStopped
      this.#isAskedAgain = false
      if (isAskedAgain) this.#beatSafely()
    }
  }

  async #renewed(): Promise<Versions> {
    const { store, clock, log, onStoreTime } = this.#parts
    const sentAt = clock.steady()
    const news = this.#parts.news()
    const { leader, members, working, now, isLost, handlersElsewhere, ...versions } = await store.beat(news)
    const tookMs = clock.steady() - sentAt
    onStoreTime(now, { isShared: this.#lease !== null })
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
    } else if (this.#lease !== null && tookMs < this.#lease.leaseMs) {
      this.checkLease()
      this.#extend(this.#lease.leaseMs - tookMs)
      this.#change(true)
      if (news.isWorking) this.#shareSoon(this.#lease)
      else this.#endShare()
      this.#noteMembers(members, working)
    }
    return versions
  }

  #noteMembers(members: readonly string[], working: readonly string[]): void {
    if (isSame(members, this.#members) && isSame(working, this.#working)) return
    this.#tellChange(members)
    this.#members = members
    this.#working = working
    for (const listener of this.#listeners) listener.onMembers?.()
  }

  #shareSoon({ beatEveryMs }: MemberLease): void {
    this.#sharing ??= setTimeout(() => {
      this.#hasShare = true
      for (const listener of this.#listeners) listener.onMembers?.()
    }, beatsBeforeStart * beatEveryMs)
  }

  #endShare(): void {
    if (this.#sharing !== null) clearTimeout(this.#sharing)
    this.#sharing = null
    this.#hasShare = false
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
    this.#lapsesAtMachine = this.#parts.machineNow() + leftMs
    this.#lapsing = setTimeout(() => this.#change(false), Math.max(0, leftMs))
  }

  #change(isMember: boolean): void {
    if (this.#isStopped || this.#isMember === isMember) return
    this.#isMember = isMember
    this.#parts.log.warn({ member: this.#id }, isMember ? 'member.back' : 'member.lapsed')
    for (const listener of this.#listeners) listener.onMembership?.(isMember)
  }
}

function isSame(ids: readonly string[], before: readonly string[]): boolean {
  return ids.length === before.length && ids.every((id, at) => id === before[at])
}
