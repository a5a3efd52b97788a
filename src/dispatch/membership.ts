import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { ClusterStore, MemberLease } from '../store/cluster-store.ts'

export type MembershipParts = Readonly<{
  store: ClusterStore
  clock: Clock
  log: Logger
  /** The store's time, with every answer. */
  onStoreTime: (now: number) => void
  /** False: others may take what is in hand from now on. True: this process is a member again. */
  onStanding: (isMember: boolean) => void
}>

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
  #isMember = false
  #isStopped = false
  #beating: NodeJS.Timeout | null = null
  #lapsing: NodeJS.Timeout | null = null

  constructor(parts: MembershipParts) {
    this.#parts = parts
  }

  get isMember(): boolean {
    return this.#isMember
  }

  /** Whether this process does what only one should. */
  get isLeader(): boolean {
    return this.#isMember && this.#leader === this.#id
  }

  async start(): Promise<void> {
    const { log } = this.#parts
    const lease = await this.#join()
    await this.#beat(lease?.leaseMs ?? null)
    if (lease === null) return
    const beat = () => this.#beat(lease.leaseMs).catch((err) => log.warn({ err }, 'member.no_beat'))
    this.#beating = setInterval(beat, lease.beatEveryMs)
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
    this.#id = id
    this.#isMember = true
    if (lease !== null) this.#extend(sentAt + lease.leaseMs)
    onStoreTime(now)
    return lease
  }

  async #beat(leaseMs: number | null): Promise<void> {
    const { store, clock, log, onStoreTime } = this.#parts
    const sentAt = clock.steady()
    const { leader, now, isLost } = await store.beat()
    if (this.#isStopped) return
    this.#leader = leader
    if (isLost) {
      log.warn({ member: this.#id }, 'member.fenced')
      this.#stand(false)
      await this.#join()
      this.#parts.onStanding(true)
    } else if (leaseMs !== null) {
      this.#extend(sentAt + leaseMs)
      this.#stand(true)
    }
    onStoreTime(now)
  }

  #extend(lapsesAt: number): void {
    if (this.#lapsing !== null) clearTimeout(this.#lapsing)
    const leftMs = Math.max(0, lapsesAt - this.#parts.clock.steady())
    this.#lapsing = setTimeout(() => this.#stand(false), leftMs)
  }

  #stand(isMember: boolean): void {
    if (this.#isStopped || this.#isMember === isMember) return
    this.#isMember = isMember
    this.#parts.log.warn({ member: this.#id }, isMember ? 'member.back' : 'member.lapsed')
    this.#parts.onStanding(isMember)
  }
}
