import type { Processing } from '../core/delivery.ts'
import type { RelayLink } from '../core/relay.ts'

/**
 * The part of the store port by which several processes share one store. The rows decide: whatever must be true when two
 * processes act at the same moment is decided there. Who is a member, and who leads, may be wrong for a few seconds
 * without breaking a promise.
 */
export interface ClusterStore {
  /**
   * Makes this process a member. What it claims from then on is its own until it leaves, or until its lease has lapsed
   * and another member has fenced it. In a store with leases, a process that calls it again is a new member, and what the
   * old one held is free. In a store without, it stays the member that it was, and keeps what it holds.
   */
  join(): Promise<Joined>

  /**
   * Renews the lease, tells the others what is new here, and answers who they are. `isLost`: another member has fenced this
   * one, which has to join again. The others get a hint when it begins to work, or ceases to. Default: it works, and no
   * handlers run here.
   */
  beat(news?: MemberNews): Promise<Beat>

  /** Ends the membership: others take its work at once. May be called twice. */
  leave(): Promise<void>

  /**
   * Tells the other members, not this one, that something became `due` at these endpoints, or that their `condition` was
   * changed in the shared state. May get lost: polling is the truth.
   */
  hint(what: Hinted, endpointIds: readonly string[]): void

  /** Calls back with the hints of other members, who also hint at every change of the registry. */
  onHint(listener: (hint: MemberHint) => void): void

  /**
   * What the rows say this member has in hand. What it knows nothing of was claimed by a call whose answer got lost. In a
   * store whose answers cannot get lost: nothing.
   */
  listHeld(): Promise<readonly Processing[]>

  /** Those that share the store now, oldest first. */
  listMembers(): Promise<readonly Member[]>

  /**
   * These hubs are connected to this member, at most one link of each relay. Where `epoch` is null the link is new and
   * takes the place of any other of its relay; the answer is its epoch, larger than that of every link before it. With an
   * epoch it has new facts; the answer is null if another link has taken its place. Other members hear of new links.
   */
  putLinks(links: readonly LinkPut[]): Promise<readonly (number | null)[]>

  /** These links have ended. Where another has taken the place, that one stays. */
  dropLinks(links: readonly LinkKey[]): Promise<void>

  /** The newest link of each relay, with what was put last; without those of members that are gone. */
  listLinks(): Promise<readonly HubLink[]>
}

/** A link between a hub and the member that it is connected to. */
export type HubLink = LinkKey &
  Readonly<{
    member: string
    /** Of the hub: the same when it comes back, and another one for every process. */
    session: string
    facts: RelayLink
  }>

export type LinkKey = Readonly<{ relayId: string; epoch: number }>

export type LinkPut = Pick<HubLink, 'relayId' | 'session' | 'facts'> & Readonly<{ epoch: number | null }>

export type Hinted = 'due' | 'condition'

export type MemberHint = Readonly<{
  /** Where something became due. */
  endpointIds: readonly string[]
  /** Whose condition was changed. */
  conditionsOf: readonly string[]
  registry: boolean
  /** A hub has come, gone or moved. */
  links: boolean
  /** A member works from now on, or does not any more. */
  members: boolean
}>

/** What a member tells the others of itself. */
export type MemberNews = Readonly<{
  /** The endpoints whose handlers run there. */
  handlers: readonly string[]
  /** Whether it makes attempts: it is neither paused by itself nor about to end. */
  isWorking: boolean
}>

export const plainNews: MemberNews = { handlers: [], isWorking: true }

/** A process that shares the store. */
export type Member = Readonly<{
  id: string
  host: string
  pid: number
  version: string
  since: number
  isLeader: boolean
  /** How long ago it beat; null: it need not. */
  beatMs: number | null
  /** The endpoints whose handlers run there, as its last beat named them. */
  handlers: readonly string[]
}>

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
  /** Those of them whose last beat said that they work. */
  working: readonly string[]
  /** One that works, if there is one. It does what only one should: everything it does is idempotent, so two leaders for a moment do no harm. */
  leader: string
  /** Raised by every put and every removal of the registry, of whichever kind. While it is the same, nobody has to read again. */
  registryVersion: number
  /** Raised whenever a hub comes, goes or moves; not when a member is gone, with the hubs that it had. */
  linksVersion: number
  isLost: boolean
  /** The endpoints whose handlers run at other members. */
  handlersElsewhere: readonly string[]
}>
