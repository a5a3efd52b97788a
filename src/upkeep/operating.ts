import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { defaultTenant } from '../core/event.ts'
import type { Notification } from '../core/notification.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { HubLinks } from '../dispatch/hub-links.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { SharedState } from '../shared-state/shared-state.ts'
import type { Store } from '../store/store.ts'
import { BacklogWatch } from './backlog-watch.ts'
import type { Metrics } from './metrics.ts'
import { Notifications } from './notifications.ts'
import { RelayWatch } from './relay-watch.ts'
import { RouteWatch } from './route-watch.ts'
import { Stats } from './stats.ts'
import { Status } from './status.ts'
import { openTraces } from './traces.ts'
import { Upkeep, type UpkeepSettings } from './upkeep.ts'

export type OperatingParts = Readonly<{
  store: Store
  /** What all processes that share the store agree on while they work. */
  state: SharedState
  catalogue: Catalogue
  dispatcher: Dispatcher
  notices: Notices
  metrics: Metrics
  clock: Clock
  log: Logger
  version: string
  settings: UpkeepSettings & Readonly<{ backlogMax: number; relayAwayMs: number }>
  /** Other processes at which somebody listens to the live stream. */
  listeningMembers: () => number
  gate: Pick<HubLinks, 'linkOf' | 'ownLinkOf' | 'onOtherHub'>
  /** Whether the hub of this endpoint is connected and does not have its route. */
  lacksRoute: (endpoint: Endpoint) => boolean
  /** Takes an event of our own in. */
  accept: (event: Readonly<{ type: string; tenant: string; key: string | null; data: Uint8Array }>) => Promise<void>
}>

/** All that keeps a running Posthorn in order and tells of it. */
export type Operating = Readonly<{
  upkeep: Upkeep
  notifications: Notifications
  stats: Stats
  status: Status
  /** Says what is still to be said; before the intake stops. */
  stop(): Promise<void>
}>

/** Opens and starts it. */
export async function openOperating(parts: OperatingParts): Promise<Operating> {
  const { store, catalogue, dispatcher, notices, metrics, clock, log, settings, gate } = parts
  const stats = new Stats(store, clock.steady)
  const endpoints = () => catalogue.list()
  const upkeep = new Upkeep({ store, endpoints, clock, log, notices, settings, dispatcher })
  const agesKnown = () => upkeep.agesKnown
  const watched = { store, catalogue, dispatcher, stats, notices, clock }
  const status = new Status({ ...watched, lacksRoute: parts.lacksRoute, agesKnown })
  const disabled = endpoints().flatMap(({ id, status }) => (status === 'disabled' ? [id] : []))
  const typesOf = (id: string) => catalogue.get(id)?.types ?? null
  const send = sender(parts)
  const mayTell = dispatcher.membership.isShared ? oneOfMany(parts.state) : null
  const saying = { notices, log, typesOf, disabled, send, dispatcher, mayTell, tenant: defaultTenant }
  const notifications = new Notifications(saying)
  const tell = (notification: Notification) => notifications.tell(notification)
  const watch = new BacklogWatch({ stats, log, max: settings.backlogMax, tenant: defaultTenant, dispatcher, tell })
  const awayMs = settings.relayAwayMs
  const linkOf = (id: string) => gate.linkOf(id)
  const relayWatch = new RelayWatch({ store, stats, endpoints, linkOf, notices, clock, log, awayMs, dispatcher, tell })
  gate.onOtherHub((relayId) => relayWatch.moved(relayId))
  const endpointOf = (id: string) => catalogue.get(id)
  const routeWatch = new RouteWatch({ endpoints, endpointOf, linkOf, notices, log })
  upkeep.onRun(metrics.upkeepDone)
  upkeep.onRun(() => {
    const count = upkeep.headlessLanes
    if (count > 0) tell({ type: 'posthorn.lanes.without_head', tenant: defaultTenant, count })
  })
  notifications.subscribe(({ type }) => metrics.notified(type))
  watchForMetrics(parts, { stats, upkeep, relayWatch })
  const endTraces = await openTraces(notices, parts.version)
  upkeep.start()
  watch.start()
  relayWatch.start()
  return {
    upkeep,
    notifications,
    stats,
    status,
    async stop() {
      watch.stop()
      routeWatch.stop()
      await relayWatch.stop()
      await upkeep.stop()
      await notifications.stop()
      endTraces?.()
    },
  }
}

/** What metrics show on a scrape. */
function watchForMetrics(
  { metrics, catalogue, dispatcher, clock, gate, listeningMembers }: OperatingParts,
  { stats, upkeep, relayWatch }: Readonly<{ stats: Stats; upkeep: Upkeep; relayWatch: RelayWatch }>,
): void {
  metrics.watchOperating({
    stats: () => stats.readSoon(),
    endpoints: () => catalogue.list(),
    conditionOf: (id) => dispatcher.conditionOf(id),
    paused: () => dispatcher.paused,
    listeningMembers,
    membersAgree: () => dispatcher.disagreement === null,
    // What one found that led before, the leader looks for again.
    headlessLanes: () => (dispatcher.leads ? upkeep.headlessLanes : 0),
    upkeep: () => upkeep.state,
    wall: clock.wall,
    steady: clock.steady,
  })
  metrics.watchRelays({
    known: () => relayWatch.relays,
    awayCount: () => (dispatcher.leads ? relayWatch.awayCount : 0),
    linkOf: (id) => gate.ownLinkOf(id),
  })
}

/** Who comes first with a subject has it for that time. */
function oneOfMany(state: SharedState) {
  return async (subject: string, forMs: number): Promise<boolean> => {
    const [answer] = await state.swap([{ key: `told ${subject}`, from: null, to: 'told', ttlMs: forMs }])
    return answer?.swapped ?? true
  }
}

/** A notification is an event of the tenant that it concerns; one that nobody wants is not kept. */
function sender({ catalogue, accept }: OperatingParts) {
  return async (notification: Notification): Promise<void> => {
    const { type, tenant, ...content } = notification
    if (catalogue.route(tenant, type).length === 0) return
    const key = 'endpointId' in content ? content.endpointId : null
    await accept({ type, tenant, key, data: new TextEncoder().encode(JSON.stringify(content)) })
  }
}
