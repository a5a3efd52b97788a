import { Gauge, type Registry } from 'prom-client'
import { type BreakerState, breakerStates } from '../core/circuit-breaker.ts'
import { type Endpoint, endpointStatuses } from '../core/endpoint.ts'
import type { SpaceSizes, StoreStats } from '../store/upkeep-store.ts'
import { others } from './endpoint-metrics.ts'
import type { StatsRead } from './stats.ts'
import type { UpkeepState } from './upkeep.ts'

export type WatchedGauges = Readonly<{
  inFlight: () => number
  queued: () => number
  intakeWaitingBytes: () => number
  storeWritable: () => boolean
}>

/** What is known about the whole at the moment somebody looks. */
export type OperatingView = Readonly<{
  /** Endpoints with series of their own; the others are one, so that the number of series stays bounded. */
  endpointsMax: number
  stats: () => Promise<StatsRead>
  endpoints: () => readonly Endpoint[]
  conditionOf: (
    endpointId: string,
  ) => Readonly<{ breaker: Readonly<{ state: BreakerState }>; heldUntil: number | null }>
  paused: () => boolean
  membersAgree: () => boolean
  headlessLanes: () => number
  listeningMembers: () => number
  upkeep: () => UpkeepState
  wall: () => number
  steady: () => number
}>

export function watchLoad(register: Registry, gauges: WatchedGauges): void {
  gauge(register, 'posthorn_attempts_in_flight', 'Tries under way.', gauges.inFlight)
  gauge(register, 'posthorn_deliveries_in_memory', 'Deliveries that wait in memory for a slot.', gauges.queued)
  gauge(register, 'posthorn_intake_waiting_bytes', 'Events that wait for the disk.', gauges.intakeWaitingBytes)
  const writable = () => Number(gauges.storeWritable())
  gauge(register, 'posthorn_store_writable', '1 while the store keeps what is written.', writable)
}

export function watchOperating(register: Registry, view: OperatingView): void {
  gauge(register, 'posthorn_paused', '1 while nothing is delivered because somebody said so.', () =>
    Number(view.paused()),
  )
  gauge(register, 'posthorn_members_agree', '0 while each process counts failures and probes by itself.', () =>
    Number(view.membersAgree()),
  )
  const listening = 'Other processes at which somebody listens to the live stream.'
  gauge(register, 'posthorn_members_listening', listening, view.listeningMembers)
  const headless = 'Ordered lanes that the last upkeep run found without a delivery that is due: a defect.'
  gauge(register, 'posthorn_lanes_without_head', headless, view.headlessLanes)
  watchStore(register, view)
  watchBacklog(register, view)
  watchEndpoints(register, view)
  gauge(register, 'posthorn_upkeep_last_run_timestamp_seconds', 'When upkeep ran last.', () => {
    const { last } = view.upkeep()
    return last === null ? 0 : last.startedAt / 1_000
  })
  gauge(register, 'posthorn_upkeep_last_run_seconds', 'How long the last run of upkeep took.', () => {
    return (view.upkeep().last?.tookMs ?? 0) / 1_000
  })
}

function watchStore(register: Registry, { stats }: OperatingView): void {
  gauge(register, 'posthorn_dead_letters', 'Dead letters that are kept.', async () => (await stats()).deadLetters)
  const rows: readonly (readonly [name: string, help: string, size: keyof SpaceSizes])[] = [
    ['posthorn_database_bytes', 'The size of the database file.', 'fileBytes'],
    ['posthorn_database_free_bytes', 'Of these, free for use.', 'freeBytes'],
    ['posthorn_wal_bytes', 'The size of the write-ahead log.', 'walBytes'],
  ]
  for (const [name, help, size] of rows) {
    labelled(register, name, help, [], async (set) => {
      const { sizes } = await stats()
      if (sizes !== null) set([], sizes[size])
    })
  }
}

function watchBacklog(register: Registry, view: OperatingView): void {
  const labels = ['tenant', 'endpoint']
  const deliveries = 'Deliveries that wait, by endpoint.'
  labelled(register, 'posthorn_backlog_deliveries', deliveries, labels, async (set) => {
    for (const { tenant, endpointId, pending } of shownOf(await view.stats(), view)) set([tenant, endpointId], pending)
  })
  const oldest = 'How long ago the oldest waiting delivery was received, by endpoint.'
  labelled(register, 'posthorn_backlog_oldest_seconds', oldest, labels, async (set) => {
    for (const { tenant, endpointId, oldestAt } of shownOf(await view.stats(), view)) {
      set([tenant, endpointId], Math.max(0, view.wall() - oldestAt) / 1_000)
    }
  })
}

type Backlog = StoreStats['backlog'][number] & Readonly<{ tenant: string }>

/** Those behind a breaker, then those with the most, and the rest as one; so are endpoints that were deleted. */
function shownOf({ backlog }: StoreStats, { endpoints, conditionOf, endpointsMax }: OperatingView): readonly Backlog[] {
  const tenants = new Map(endpoints().map(({ id, tenant }) => [id, tenant]))
  const known = backlog.flatMap((each): readonly Backlog[] => {
    const tenant = tenants.get(each.endpointId)
    return tenant === undefined ? [] : [{ ...each, tenant }]
  })
  const isBroken = ({ endpointId }: Backlog) => Number(conditionOf(endpointId).breaker.state !== 'closed')
  const shown = known.toSorted((a, b) => isBroken(b) - isBroken(a) || b.pending - a.pending).slice(0, endpointsMax)
  const own = new Set(shown.map(({ endpointId }) => endpointId))
  const rest = backlog.filter(({ endpointId }) => !own.has(endpointId))
  if (rest.length === 0) return shown
  const pending = rest.reduce((sum, each) => sum + each.pending, 0)
  const oldestAt = rest.reduce((oldest, each) => Math.min(oldest, each.oldestAt), Number.POSITIVE_INFINITY)
  return [...shown, { tenant: others, endpointId: others, pending, oldestAt }]
}

function watchEndpoints(register: Registry, view: OperatingView): void {
  const { endpoints, conditionOf, steady, endpointsMax } = view
  const countOf = (fits: (endpoint: Endpoint) => boolean) => endpoints().filter(fits).length
  labelled(register, 'posthorn_endpoints', 'Endpoints, by status.', ['status'], async (set) => {
    for (const status of endpointStatuses) {
      set(
        [status],
        countOf((endpoint) => endpoint.status === status),
      )
    }
  })
  labelled(register, 'posthorn_breakers', 'Breakers, by state.', ['state'], async (set) => {
    for (const state of breakerStates) {
      set(
        [state],
        countOf(({ id }) => conditionOf(id).breaker.state === state),
      )
    }
  })
  const open = '1 for each active endpoint whose breaker is not closed.'
  labelled(register, 'posthorn_breaker_open', open, ['tenant', 'endpoint', 'state'], async (set) => {
    const active = endpoints().filter(({ status }) => status === 'active')
    const states = active.map(({ id, tenant }) => [tenant, id, conditionOf(id).breaker.state])
    for (const labels of states.filter(([, , state]) => state !== 'closed').slice(0, endpointsMax)) set(labels, 1)
  })
  gauge(register, 'posthorn_endpoints_held', 'Endpoints that asked for a pause by Retry-After.', () =>
    countOf(({ id }) => (conditionOf(id).heldUntil ?? 0) > steady()),
  )
}

/** What cannot be read now is left out: the other metrics are needed most when something is wrong. */
export function gauge(register: Registry, name: string, help: string, read: () => number | Promise<number>): void {
  labelled(register, name, help, [], async (set) => set([], await read()))
}

export function labelled(
  register: Registry,
  name: string,
  help: string,
  labelNames: string[],
  fill: (set: (labels: string[], value: number) => void) => Promise<void>,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [register],
    async collect() {
      const values: (readonly [labels: string[], value: number])[] = []
      try {
        await fill((labels, value) => values.push([labels, value]))
      } catch {
        // Somebody else says why: here there is just no value.
      }
      this.reset()
      if (labelNames.length === 0 && values.length === 0) this.remove()
      for (const [labels, value] of values) this.labels(...labels).set(value)
    },
  })
}
