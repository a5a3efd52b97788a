import { readFileSync } from 'node:fs'
import { openClock } from './clock.ts'
import { type Config, processEnvironment } from './config.ts'
import type { Clock } from './core/clock.ts'
import { PosthornError } from './core/errors.ts'
import { type PresetName, presets, processingPolicy, type RetryPolicy } from './core/retry-policy.ts'
import { Catalogue } from './dispatch/catalogue.ts'
import { Dispatcher } from './dispatch/dispatcher.ts'
import { HubLinks } from './dispatch/hub-links.ts'
import { PauseOfAll } from './dispatch/pause-of-all.ts'
import { ReplayRunner } from './dispatch/replays.ts'
import { TransportSet } from './dispatch/transport-set.ts'
import type { Engines } from './engines/engine.ts'
import { EngineSet } from './engines/engine-set.ts'
import { IdSource } from './intake/ids.ts'
import { Intake } from './intake/intake.ts'
import { Sources } from './intake/sources.ts'
import { testEvents } from './intake/test-events.ts'
import type { KafkaDriver } from './kafka/driver.ts'
import { type Logger, openLog, SeldomLog } from './log.ts'
import { type Elsewhere, Notices } from './notices.ts'
import { hubLacksRoute } from './server/delivery-detail.ts'
import { Relays } from './server/relays.ts'
import { NoticeExchange } from './shared-state/notice-exchange.ts'
import { openBus } from './shared-state/open-bus.ts'
import { openState } from './shared-state/open-state.ts'
import type { SharedState } from './shared-state/shared-state.ts'
import type { Database } from './store/database.ts'
import { databaseAt } from './store/open-store.ts'
import type { Store } from './store/store.ts'
import { HandlerTransport } from './transports/handler/handler-transport.ts'
import { parseAllowPrivate } from './transports/http/address-guard.ts'
import { openHttpTransport } from './transports/http/http-transport.ts'
import { type LinkChange, RelayTransport } from './transports/relay/relay-transport.ts'
import type { RelayGate } from './transports/relay-gate.ts'
import { type Metrics, openMetrics } from './upkeep/metrics.ts'
import { type Operating, type OperatingParts, openOperating } from './upkeep/operating.ts'

/** Everything that takes events in, keeps and delivers them; without a server. */
export type Pipeline = Readonly<{
  config: Config
  log: Logger
  clock: Clock
  database: Pick<Database, 'name'>
  store: Store
  ids: IdSource
  catalogue: Catalogue
  sources: Sources
  relays: Relays
  gate: RelayGate
  dispatcher: Dispatcher
  pauseOfAll: PauseOfAll
  replays: ReplayRunner
  intake: Intake
  metrics: Metrics
  notices: Notices
  elsewhere: Elsewhere
  upkeep: Operating['upkeep']
  notifications: Operating['notifications']
  stats: Operating['stats']
  status: Operating['status']
  /** Where handlers register themselves, and how they run. */
  handlers: HandlerTransport
  engines: Engines
  state: SharedState
  /** Loads the client of Kafka when it is wanted. */
  kafka: () => Promise<KafkaDriver>
  presets: Readonly<Record<PresetName, RetryPolicy>>
  /** Why an endpoint may not have this URL; null: it may. */
  refusal: (url: string, who?: Readonly<{ isOperator: boolean }>) => Promise<string | null>
  /** Says what is still to be said, and takes no further event. */
  closeIntake(): Promise<void>
  /** Finishes or hands back what is in flight within the grace time, closes. May be called twice. */
  stop(): Promise<void>
}>

/** What consumers need, with or without a store. */
export type Consuming = Readonly<{
  config: Pick<Config, 'kafkaBrokers' | 'kafkaSettings' | 'dlqTopicSuffix'>
  kafka: () => Promise<KafkaDriver>
  engines: Engines
  state: SharedState
  clock: Clock
  log: Logger
  presets: Pipeline['presets']
}>

/** A running Posthorn with its server. */
export type App = Readonly<{
  url: string
  /** May be called twice. */
  stop(): Promise<void>
}>

export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

export type PipelineOptions = Readonly<{
  /** The store has ended by a defect: nothing can be kept any more, the process should end and be started anew. */
  onFatal: (error: Error) => void
}>

export type AppOptions = PipelineOptions &
  Readonly<{
    /** Runs before the first request is taken: what registers itself here misses nothing. */
    prepare?: (pipeline: Pipeline) => Promise<void>
  }>

/** Opens the parts, starts them, and stops them in the order in which an event travels. */
export async function openPipeline(config: Config, { onFatal }: PipelineOptions): Promise<Pipeline> {
  refuseWrongRanges(config)
  const parts = await openParts(config, onFatal)
  const { store, state, elsewhere, catalogue, sources, relays, http, handlers, relay, gate, engines } = parts
  const { dispatcher, pauseOfAll, replays, intake } = parts
  let operating: Operating | null = null
  const closeIntake = once(async () => {
    await operating?.stop()
    intake.stop()
  })
  dispatcher.membership.listen(gate)
  dispatcher.membership.listen({
    onRegistry: async () => {
      await Promise.all([catalogue.refresh(), sources.refresh(), relays.refresh(), pauseOfAll.refresh()])
    },
    onBeat: () => void replays.refresh().catch((err) => parts.log.warn({ err }, 'replays.not_read')),
  })
  const stop = once(async () => {
    await closeIntake()
    await replays.stop()
    relay.drain()
    await dispatcher.stop(config.graceMs)
    gate.stop()
    await Promise.all([http.close(), handlers.close(), relay.close(), engines.stop()])
    await elsewhere.close()
    await Promise.all([state.close(), store.close()])
  })
  try {
    // Whatever is loaded may be due at once, by the store's time.
    await dispatcher.membership.join()
    await Promise.all([catalogue.load(), sources.load(), relays.load(), replays.load(), pauseOfAll.load()])
    await dispatcher.start()
    replays.start()
    operating = await openOperating(operatingParts(config, parts))
    return {
      ...parts,
      config,
      upkeep: operating.upkeep,
      notifications: operating.notifications,
      stats: operating.stats,
      status: operating.status,
      presets: presetsOf(config),
      kafka: kafkaOf(config),
      refusal: (url, who) => http.refusal(url, who),
      closeIntake,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function presetsOf(config: Config): Pipeline['presets'] {
  return { ...presets, processing: processingPolicy(config) }
}

/** The client is a package of its own, which most do not have: it is loaded when it is wanted. */
function kafkaOf({ kafkaClient }: Config): () => Promise<KafkaDriver> {
  let driver: KafkaDriver | null = null
  return async () => {
    const { openConfluent } = await import('./kafka/confluent/open.ts')
    driver ??= openConfluent(kafkaClient)
    return driver
  }
}

/** Consumers alone: they keep nothing in a store. */
export async function openConsuming(config: Config): Promise<Consuming & Readonly<{ close: () => Promise<void> }>> {
  const log = openLog({ level: config.logLevel, format: config.logFormat })
  const clock = openClock()
  const state = await openState(config, clock.steady)
  const engines = new EngineSet({ log, env: processEnvironment() })
  const close = once(async () => {
    await engines.stop()
    await state.close()
  })
  return { config, log, clock, state, engines, presets: presetsOf(config), kafka: kafkaOf(config), close }
}

type Parts = Awaited<ReturnType<typeof openParts>>

/** What all parts share. */
async function openShared(config: Config, onFatal: PipelineOptions['onFatal']) {
  const log = openLog({ level: config.logLevel, format: config.logFormat })
  const clock = openClock()
  const notices = new Notices((err) => log.error({ err }, 'notice.listener_failed'))
  const metrics = openMetrics(notices, config.metricsEndpointsMax)
  const database = databaseAt(config)
  const { store, lastNumber } = await database.open({
    onFatal: told(log, onFatal),
    onBatch: metrics.batchWritten,
    onWarning: (warning) => log.warn({ warning }, 'database.dangerous'),
  })
  const state = await openState(config, clock.steady)
  const bus = await openBus(config, store.bus)
  const elsewhere = new NoticeExchange({ bus, notices, clock, onSent: metrics.noticesSent })
  const ids = new IdSource(lastNumber)
  return { log, clock, notices, metrics, database, store, state, elsewhere, ids }
}

/** What an event passes on its way, up to the intake, which needs all of it. */
async function openParts(config: Config, onFatal: PipelineOptions['onFatal']) {
  const shared = await openShared(config, onFatal)
  const { log, clock, notices, store } = shared
  const catalogue = new Catalogue(store, notices, { endpointsMax: config.tenantEndpointsMax })
  const sources = new Sources(store, { sourcesMax: config.tenantSourcesMax })
  const relays = new Relays(store, { tenantMax: config.tenantRelaysMax })
  const http = openHttp(config, clock, log)
  const handlers = new HandlerTransport()
  const { relay, gate } = openHubs({ store, relays, clock, log, notices }, () => dispatcher.membership.id)
  const engines = new EngineSet({ log, env: processEnvironment() })
  const transport = new TransportSet([http, handlers, relay])
  const dispatcher = openDispatcher(config, { ...shared, catalogue, transport, otherHubs: gate })
  const pauseOfAll = new PauseOfAll(store, config.paused, ({ paused, isOwn }) => {
    dispatcher.standsAside = isOwn
    if (paused !== dispatcher.paused) dispatcher.paused = paused
  })
  const replays = openReplays(config, { ...shared, catalogue, dispatcher })
  const intake = openIntake(config, { ...shared, catalogue, dispatcher })
  return {
    ...shared,
    catalogue,
    sources,
    relays,
    http,
    handlers,
    relay,
    gate,
    engines,
    dispatcher,
    pauseOfAll,
    replays,
    intake,
  }
}

export async function openApp(config: Config, options: AppOptions): Promise<App> {
  const pipeline = await openPipeline(config, options)
  try {
    await options.prepare?.(pipeline)
    return await serve(pipeline)
  } catch (error) {
    await pipeline.stop()
    throw error
  }
}

/** Serves a pipeline, and stops it with the server. */
export async function serve(pipeline: Pipeline): Promise<App> {
  const { log, database } = pipeline
  // Loaded when it is wanted: the library does without.
  const { openServer } = await import('./server/server.ts')
  const server = await openServer({ ...pipeline, now: pipeline.clock.wall, version })
  const { url, publicUrl } = server
  log.info({ url, publicUrl, pid: process.pid, version, database: database.name }, 'posthorn.started')
  const stop = once(async () => {
    await pipeline.closeIntake()
    await server.stop()
    await pipeline.stop()
    log.info({}, 'posthorn.stopped')
  })
  return { url, stop }
}

/** It is in the log before whoever is called ends the process. */
function told(log: Logger, onFatal: (error: Error) => void): (error: Error) => void {
  return (err) => {
    log.fatal({ err }, 'store.ended')
    onFatal(err)
  }
}

/** Whoever calls again gets the same answer. */
function once(work: () => Promise<void>): () => Promise<void> {
  let underway: Promise<void> | null = null
  return () => {
    underway ??= work()
    return underway
  }
}

type DispatcherNeeds = Pick<Parts, 'store' | 'state' | 'catalogue' | 'ids' | 'clock' | 'log' | 'notices'>

function openDispatcher(
  config: Config,
  parts: DispatcherNeeds & Readonly<{ transport: TransportSet; otherHubs: HubLinks }>,
): Dispatcher {
  return new Dispatcher({
    ...parts,
    random: Math.random,
    composeTest: testEvents(parts.ids, parts.clock),
    machineNow: Date.now,
    onStoreTime: parts.clock.follow,
    laneStuckMs: config.laneStuckMs,
    attemptsMax: config.concurrency,
    memoryBytesMax: config.memoryBytesMax,
  })
}

type ReplayNeeds = Pick<Parts, 'store' | 'catalogue' | 'dispatcher' | 'ids' | 'clock' | 'log' | 'notices'>

function openReplays(config: Config, parts: ReplayNeeds): ReplayRunner {
  return new ReplayRunner({
    ...parts,
    target: parts.dispatcher,
    newId: (prefix) => parts.ids.next(prefix, parts.clock.wall()),
    recordKeptMs: Math.min(config.keepDeliveredMs, config.keepFailedMs),
    tenantRunningMax: config.tenantReplaysMax,
  })
}

type IntakeNeeds = Pick<Parts, 'store' | 'catalogue' | 'dispatcher' | 'ids' | 'clock' | 'notices' | 'metrics'>

function openIntake(config: Config, parts: IntakeNeeds): Intake {
  return new Intake({
    ...parts,
    route: (tenant, type) => parts.catalogue.route(tenant, type),
    fresh: parts.dispatcher.fresh,
    hopsMax: config.hopsMax,
    waitingBytesMax: config.intakeBytesMax,
    onAccepted: parts.metrics.accepted,
  })
}

/** As many connections as there can be tries: nobody waits for one while its deadline runs. */
function openHttp({ allowPrivate, concurrency }: Config, clock: Clock, log: Logger) {
  const blocked = new SeldomLog(log, blockedEveryMs, () => clock.steady())
  return openHttpTransport({
    userAgent: `Posthorn/${version}`,
    allowPrivate,
    connectionsPerOriginMax: concurrency,
    onBlocked: (host, detail) => blocked.warn(host, { host, detail }, 'address.blocked'),
  })
}

const blockedEveryMs = 60_000

/** Where hubs come in, here or at another process, and how deliveries go to those that are here. */
function openHubs(
  { store, relays, clock, log, notices }: Pick<Pipeline, 'store' | 'relays' | 'clock' | 'log' | 'notices'>,
  member: () => string,
): Readonly<{ relay: RelayTransport; gate: HubLinks }> {
  const onLink = ({ relay: { id: relayId, name, tenant }, session, connected, ending, why }: LinkChange) => {
    if (connected) gate.connected(relayId, session)
    else gate.disconnected(relayId)
    notices.publish({ kind: 'relay.changed', tenant, relayId, name, connected, ending, why })
  }
  const relay = new RelayTransport({ clock, log, software: `posthorn/${version}`, onLink })
  relays.onShutOut((relayId) => relay.revoke(relayId))
  const named = (tenant: string, name: string) => relays.named(tenant, name)
  const gate = new HubLinks({ store, own: relay, named, member, log })
  return { relay, gate }
}

/** How the pipeline is kept in order. Events of Posthorn's own come in like any other. */
function operatingParts(config: Config, parts: Parts): OperatingParts {
  const { relays, gate, intake, elsewhere } = parts
  return {
    ...parts,
    version,
    settings: {
      everyMs: config.upkeepEveryMs,
      afterMs: config.upkeepAfterMs,
      retention: {
        deliveredMs: config.keepDeliveredMs,
        failedMs: config.keepFailedMs,
        deadLetterMs: config.keepDeadLetterMs,
        eventMs: config.keepEventMs,
      },
      replayMs: config.keepReplayMs,
      backlogMax: config.backlogMax,
      relayAwayMs: config.relayAwayMs,
    },
    listeningMembers: () => elsewhere.listeningMembers,
    lacksRoute: (endpoint) => hubLacksRoute({ relays, gate }, endpoint),
    accept: async ({ data, ...event }) => {
      const content = { kind: 'data', bytes: data } as const
      await intake.accept([{ ...event, content, headers: {}, idempotency: null, request: null }])
    },
  }
}

/** The transport reads the ranges its own way; what it cannot read is told before anything is opened. */
function refuseWrongRanges({ allowPrivate }: Config): void {
  const parsed = parseAllowPrivate(allowPrivate)
  if ('problem' in parsed) throw new PosthornError('config_invalid', `POSTHORN_ALLOW_PRIVATE: ${parsed.problem}`)
}
