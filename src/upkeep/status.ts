import type { Clock } from '../core/clock.ts'
import type { Condition } from '../core/condition.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { Notice } from '../core/notice.ts'
import { isUnwanted, type Reason } from '../core/outcome.ts'
import {
  type AttentionReason,
  attentionFor,
  byUrgency,
  hintsFor,
  type Signs,
  type State,
  stateOf,
} from '../core/status.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'
import type { DeadLetterCount } from '../store/upkeep-store.ts'
import { readinessOf } from './health.ts'
import { RecentCounts, type Tallied } from './recent.ts'
import type { CountedStats, Stats } from './stats.ts'

export type StatusParts = Readonly<{
  store: Pick<Store, 'deadLettersSince' | 'health'>
  catalogue: Pick<Catalogue, 'list'>
  dispatcher: Pick<Dispatcher, 'conditionOf' | 'isServed' | 'paused' | 'settling' | 'disagreement'>
  stats: Pick<Stats, 'readKnown'>
  notices: Notices
  clock: Clock
  /** False while nobody can say how old things are, because the machine's clock was set. */
  agesKnown: () => boolean
  /** Whether the hub of this endpoint is connected and does not have its route. */
  lacksRoute: (endpoint: Endpoint) => boolean
}>

/** null where something has not been counted yet. */
export type StatusReport = Readonly<{
  state: State
  /** What concerns all endpoints, in sentences. */
  problems: readonly string[]
  endpoints: number
  rates: Readonly<Tallied & { spanMs: number; since: number }>
  waiting: Readonly<{ count: number | null; oldestAt: number | null; countedAt: number | null }>
  deadLetters: DeadLetterReport
  /** The worst first. */
  attention: readonly EndpointReport[]
  /** How many more deserve attention than are listed. */
  attentionMore: number
  hints: readonly string[]
}>

export type DeadLetterReport = Readonly<{
  last24h: number
  byReason: Readonly<Partial<Record<Reason, number>>>
  kept: number | null
}>

/** How one endpoint is. */
export type EndpointReport = Readonly<{
  endpoint: Endpoint
  condition: Condition
  /** null: it needs no attention. */
  why: AttentionReason | null
  signs: Signs
  recent: Readonly<Tallied & { spanMs: number }>
  deadLetters: DeadLetterReport
  countedAt: number | null
}>

const dayMs = 86_400_000
/** Rates are of the last minute, and what is said of an endpoint of the last quarter of an hour. */
const ratesOf = { bucketMs: 5_000, buckets: 12 }
const endpointsOf = { bucketMs: 60_000, buckets: 15 }

type Known = Readonly<{
  counted: CountedStats | null
  dead: ReadonlyMap<string, readonly DeadLetterCount[]>
  now: number
}>

/**
 * Whether all is well, and if not, where to look first. Fed from notices, from counts that are kept anyway, and from the
 * dispatcher's memory: asking costs as much as there are endpoints, however much waits.
 */
export class Status {
  readonly #parts: StatusParts
  readonly #startedAt: number
  readonly #rates: RecentCounts
  readonly #recent: RecentCounts

  constructor(parts: StatusParts) {
    const { steady } = parts.clock
    this.#parts = parts
    this.#startedAt = steady()
    this.#rates = new RecentCounts(ratesOf, steady)
    this.#recent = new RecentCounts(endpointsOf, steady)
    parts.notices.subscribe((notice) => this.#count(notice))
  }

  /** Of one tenant, or of all. */
  async read({ tenant, limit }: Readonly<{ tenant: string | null; limit: number }>): Promise<StatusReport> {
    const { catalogue, store, dispatcher } = this.#parts
    const known = await this.#known()
    const endpoints = catalogue.list().filter((endpoint) => tenant === null || endpoint.tenant === tenant)
    const reports = endpoints.map((endpoint) => this.#report(endpoint, known))
    const attention = reports.filter(isListed).sort(byUrgency)
    const { ready, reasons } = readinessOf({
      store: store.health(),
      outcomesWritable: dispatcher.settling.writable,
      stopping: false,
    })
    const { paused: allPaused, disagreement } = dispatcher
    const whole = { ready, allPaused, clocksApart: !this.#parts.agesKnown(), membersApart: disagreement !== null }
    return {
      state: stateOf(attention, whole),
      problems: [
        ...reasons,
        ...(allPaused ? [allPausedSaid] : []),
        ...(whole.clocksApart ? [clocksApartSaid] : []),
        ...(disagreement === null ? [] : [disagreement]),
      ],
      endpoints: endpoints.length,
      rates: { ...this.#rates.sum(tenant), spanMs: this.#rates.spanMs, since: this.#startedAt },
      waiting: waitingAt(reports, known, tenant),
      deadLetters: deadLettersOf(reports, known, tenant),
      attention: attention.slice(0, limit),
      attentionMore: Math.max(0, attention.length - limit),
      hints: hintsFor(attention, whole),
    }
  }

  async of(endpoint: Endpoint): Promise<EndpointReport> {
    return this.#report(endpoint, await this.#known())
  }

  async ofEach(endpoints: readonly Endpoint[]): Promise<readonly EndpointReport[]> {
    const known = await this.#known()
    return endpoints.map((endpoint) => this.#report(endpoint, known))
  }

  async #known(): Promise<Known> {
    const { store, stats, clock } = this.#parts
    const now = clock.steady()
    const [counted, counts] = await Promise.all([stats.readKnown(), store.deadLettersSince(now - dayMs)])
    return { counted, dead: Map.groupBy(counts, ({ endpointId }) => endpointId), now }
  }

  #report(endpoint: Endpoint, known: Known): EndpointReport {
    const { dispatcher, lacksRoute } = this.#parts
    const { id: endpointId, kind, status } = endpoint
    const { counted, now } = known
    const condition = dispatcher.conditionOf(endpointId)
    const recent = this.#recent.sum(endpointId)
    const dead = known.dead.get(endpointId) ?? []
    const backlog = backlogOf(counted, endpointId)
    const deadLetters = { ...talliedByReason(dead), kept: counted === null ? null : keptAt(counted, endpointId) }
    const signs: Signs = {
      endpointId,
      kind,
      status,
      breaker: condition.breaker.state,
      heldUntil: condition.heldUntil,
      served: dispatcher.isServed(endpointId),
      lacksRoute: lacksRoute(endpoint),
      attempts: recent.attempts,
      failedAttempts: recent.failedAttempts,
      waiting: backlog?.pending ?? 0,
      oldestAt: backlog?.oldestAt ?? null,
      deadLetters: dead.reduce((sum, { reason, count }) => sum + (isUnwanted(reason) ? count : 0), 0),
      deadLettersKept: hasFailedSince(condition, counted) ? null : deadLetters.kept,
    }
    const why = attentionFor(signs, now)
    const countedAt = counted?.countedAt ?? null
    return {
      endpoint,
      condition,
      why,
      signs,
      recent: { ...recent, spanMs: this.#recent.spanMs },
      deadLetters,
      countedAt,
    }
  }

  #count(notice: Notice): void {
    switch (notice.kind) {
      case 'event.accepted':
        this.#rates.of(notice.tenant).accepted += 1
        return
      case 'attempt.settled': {
        // What is wrong with us says nothing about the endpoint.
        if (notice.outcome === 'ours') return
        for (const counts of [this.#rates.of(notice.tenant), this.#recent.of(notice.endpointId)]) {
          counts.attempts += 1
          if (notice.outcome === 'delivered') counts.delivered += 1
          else counts.failedAttempts += 1
        }
        return
      }
      case 'delivery.ended':
      case 'breaker.changed':
      case 'endpoint.changed':
      case 'lane.stuck':
      case 'replay.changed':
      case 'relay.changed':
        return
    }
  }
}

/** What failed since nobody has counted. */
function hasFailedSince({ lastErrorAt }: Condition, counted: CountedStats | null): boolean {
  return counted === null || (lastErrorAt !== null && lastErrorAt >= counted.countedAt)
}

const allPausedSaid = 'All delivery is paused.'
const clocksApartSaid =
  "The machine's clock was changed by more than an hour. Nothing is expired or deleted until it has been stable for 10 minutes."

function isListed(report: EndpointReport): report is EndpointReport & { why: AttentionReason } {
  return report.why !== null
}

type Counts = ReadonlyMap<string, CountedStats['stats']['backlog'][number]>
type Kept = ReadonlyMap<string, number>
/** By endpoint; made once for each count. */
const indexes = new WeakMap<CountedStats, Readonly<{ backlog: Counts; kept: Kept }>>()

function indexOf(counted: CountedStats): Readonly<{ backlog: Counts; kept: Kept }> {
  const known = indexes.get(counted)
  if (known !== undefined) return known
  const { backlog, deadLettersAt } = counted.stats
  const index = {
    backlog: new Map(backlog.map((each) => [each.endpointId, each])),
    kept: new Map(deadLettersAt.map(({ endpointId, count }) => [endpointId, count])),
  }
  indexes.set(counted, index)
  return index
}

function backlogOf(counted: CountedStats | null, endpointId: string) {
  return counted === null ? undefined : indexOf(counted).backlog.get(endpointId)
}

function keptAt(counted: CountedStats, endpointId: string): number {
  return indexOf(counted).kept.get(endpointId) ?? 0
}

/** Who sees everything sees what waits at endpoints that were deleted, too. */
function waitingAt(
  reports: readonly EndpointReport[],
  { counted }: Known,
  tenant: string | null,
): StatusReport['waiting'] {
  if (counted === null) return { count: null, oldestAt: null, countedAt: null }
  const all = counted.stats.backlog.map(({ pending, oldestAt }) => ({ waiting: pending, oldestAt }))
  const each = tenant === null ? all : reports.map(({ signs }) => signs)
  let count = 0
  let oldest = Number.POSITIVE_INFINITY
  for (const { waiting, oldestAt } of each) {
    count += waiting
    oldest = Math.min(oldest, oldestAt ?? oldest)
  }
  return { count, oldestAt: count === 0 ? null : oldest, countedAt: counted.countedAt }
}

/** Those of deleted endpoints are still their tenant's. */
function deadLettersOf(
  reports: readonly EndpointReport[],
  { counted, dead }: Known,
  tenant: string | null,
): DeadLetterReport {
  const counts = [...dead.values()].flat().filter((count) => tenant === null || count.tenant === tenant)
  const own = () => reports.reduce((sum, { deadLetters }) => sum + (deadLetters.kept ?? 0), 0)
  const kept = counted === null ? null : tenant === null ? counted.stats.deadLetters : own()
  return { ...talliedByReason(counts), kept }
}

/** The most frequent first. */
function talliedByReason(counts: readonly DeadLetterCount[]): Omit<DeadLetterReport, 'kept'> {
  const byReason = new Map<Reason, number>()
  for (const { reason, count } of counts) byReason.set(reason, (byReason.get(reason) ?? 0) + count)
  const sorted = [...byReason].sort(([, a], [, b]) => b - a)
  return { last24h: sorted.reduce((sum, [, count]) => sum + count, 0), byReason: Object.fromEntries(sorted) }
}
