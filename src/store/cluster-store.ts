/**
 * The part of the store port by which several processes share one store. The rows decide: whatever must be true when two
 * processes act at the same moment is decided there. Who is a member, and who leads, may be wrong for a few seconds
 * without breaking a promise.
 */
export interface ClusterStore {
  /**
   * Makes this process a member. What it claims from then on is its own until it leaves, or until its lease has lapsed
   * and another member has fenced it. Called again, it is a new member: what the old one held is free.
   */
  join(): Promise<Joined>

  /** Renews the lease, and tells of the others. `isLost`: another member has fenced this one, which has to join again. */
  beat(): Promise<Beat>

  /** Ends the membership: others take its work at once. May be called twice. */
  leave(): Promise<void>

  /** Something became due at these endpoints: tells the other members, not this one. May get lost: polling is the truth. */
  hint(endpointIds: readonly string[]): void

  /** Calls back with the hints of other members. */
  onHint(listener: (endpointIds: readonly string[]) => void): void
}

export type Joined = Readonly<{
  id: string
  /** The store's time: by it all members agree on what is due. */
  now: number
  /** How long a member lives without a beat, and how often it should beat; null: it cannot be fenced and need not. */
  lease: MemberLease | null
}>

export type MemberLease = Readonly<{ leaseMs: number; beatEveryMs: number }>

export type Beat = Readonly<{
  now: number
  /** The ids of all members, this one included, oldest first. */
  members: readonly string[]
  /** Who does what only one should: everything it does is idempotent, so two leaders for a moment do no harm. */
  leader: string
  /** Raised by every put and every removal of the registry, of whichever kind. While it is the same, nobody has to read again. */
  registryVersion: number
  isLost: boolean
}>
