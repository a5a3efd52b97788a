import type { Clock } from '../core/clock.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { defaultTenant } from '../core/event.ts'
import type { Notification } from '../core/notification.ts'
import type { RelayLink } from '../core/relay.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
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
  catalogue: Catalogue
  dispatcher: Dispatcher
  notices: Notices
  metrics: Metrics
  clock: Clock
  log: Logger
  version: string
  settings: UpkeepSettings & Readonly<{ backlogMax: number; relayAwayMs: number }>
  /** The link that a relay has now; null: none. */
  linkOf: (relayId: string) => RelayLink | null
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
  const { store, catalogue, dispatcher, notices, metrics, clock, log, settings, linkOf } = parts
  const stats = new Stats(store, clock.steady)
  const endpoints = () => catalogue.list()
  const goOnAt = (endpointIds: readonly string[]) => dispatcher.goOnAt(endpointIds)
  const upkeep = new Upkeep({ store, endpoints, clock, log, notices, settings, goOnAt })
  const agesKnown = () => upkeep.agesKnown
  const watched = { store, catalogue, dispatcher, stats, notices, clock }
  const status = new Status({ ...watched, lacksRoute: parts.lacksRoute, agesKnown })
  const disabled = endpoints().flatMap(({ id, status }) => (status === 'disabled' ? [id] : []))
  const typesOf = (id: string) => catalogue.get(id)?.types ?? null
  const send = sender(parts)
  const notifications = new Notifications({ notices, log, typesOf, disabled, send, tenant: defaultTenant })
  const tell = (notification: Notification) => notifications.tell(notification)
  const watch = new BacklogWatch({ stats, log, max: settings.backlogMax, tenant: defaultTenant, tell })
  const awayMs = settings.relayAwayMs
  const relayWatch = new RelayWatch({ store, stats, endpoints, linkOf, notices, clock, log, awayMs, tell })
  const endpointOf = (id: string) => catalogue.get(id)
  const routeWatch = new RouteWatch({ endpoints, endpointOf, linkOf, notices, log })
  upkeep.onRun(metrics.upkeepDone)
  notifications.subscribe(({ type }) => metrics.notified(type))
  metrics.watchOperating({
    stats: () => stats.readSoon(),
    endpoints,
    conditionOf: (id) => dispatcher.conditionOf(id),
    paused: () => dispatcher.paused,
    upkeep: () => upkeep.state,
    wall: clock.wall,
    steady: clock.steady,
  })
  metrics.watchRelays({ known: () => relayWatch.relays, awayCount: () => relayWatch.awayCount, linkOf })
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

/** A notification is an event of the tenant that it concerns; one that nobody wants is not kept. */
function sender({ catalogue, accept }: OperatingParts) {
  return async (notification: Notification): Promise<void> => {
    const { type, tenant, ...content } = notification
    if (catalogue.route(tenant, type).length === 0) return
    const key = 'endpointId' in content ? content.endpointId : null
    await accept({ type, tenant, key, data: new TextEncoder().encode(JSON.stringify(content)) })
  }
}
