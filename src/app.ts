import { readFileSync } from 'node:fs'
import type { Config } from './config.ts'
import type { Clock } from './core/clock.ts'
import type { Endpoint } from './core/endpoint.ts'
import { PosthornError } from './core/errors.ts'
import type { Event } from './core/event.ts'
import { type PresetName, presets, processingPolicy, type RetryPolicy } from './core/retry-policy.ts'
import { Catalogue } from './dispatch/catalogue.ts'
import { Dispatcher } from './dispatch/dispatcher.ts'
import { AsyncEngine } from './engines/async-engine.ts'
import type { Engine } from './engines/engine.ts'
import { Watchdog } from './engines/watchdog.ts'
import { envelope } from './intake/envelope.ts'
import { IdSource } from './intake/ids.ts'
import { Intake } from './intake/intake.ts'
import { type Logger, openLog } from './log.ts'
import { Notices } from './notices.ts'
import { type MigrationReport, migrateFile } from './store/sqlite/migrate-file.ts'
import { openSqliteStore } from './store/sqlite/sqlite-store.ts'
import type { Store } from './store/store.ts'
import { HandlerTransport } from './transports/handler/handler-transport.ts'
import { parseAllowPrivate } from './transports/http/address-guard.ts'
import { openHttpTransport } from './transports/http/http-transport.ts'
import { KeyPruning } from './upkeep/key-pruning.ts'
import { type Metrics, openMetrics } from './upkeep/metrics.ts'

/** Everything that takes events in, keeps and delivers them; without a server. */
export type Pipeline = Readonly<{
  config: Config
  log: Logger
  clock: Clock
  store: Store
  ids: IdSource
  catalogue: Catalogue
  dispatcher: Dispatcher
  intake: Intake
  metrics: Metrics
  notices: Notices
  /** Where handlers register themselves, and how they run. */
  handlers: HandlerTransport
  engine: Engine
  presets: Readonly<Record<PresetName, RetryPolicy>>
  /** Why an endpoint may not have this URL; null: it may. */
  refusal: (url: string) => Promise<string | null>
  /** Stops taking, finishes or hands back what is in flight within the grace time, closes. May be called twice. */
  stop(): Promise<void>
}>

/** A running Posthorn with its server. */
export type App = Readonly<{
  url: string
  pipeline: Pipeline
  /** May be called twice. */
  stop(): Promise<void>
}>

export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

export type AppOptions = Readonly<{
  /** The store has ended by a defect: nothing can be kept any more, the process should end and be started anew. */
  onFatal: (error: Error) => void
  /** Runs before the first request is taken: what registers itself here misses nothing. */
  prepare?: (pipeline: Pipeline) => Promise<void>
}>

/** Puts the parts together, in the order in which an event travels through them. */
export async function openPipeline(config: Config, { onFatal }: AppOptions): Promise<Pipeline> {
  refuseWrongRanges(config)
  const log = openLog({ level: config.logLevel, format: config.logFormat })
  const clock = openClock()
  const { store, lastNumber } = await openSqliteStore({
    file: config.database.path,
    key: config.encryptionKey,
    onFatal: (err) => {
      log.fatal({ err }, 'store.ended')
      onFatal(err)
    },
  })
  const notices = new Notices((err) => log.error({ err }, 'notice.listener_failed'))
  const metrics = openMetrics(notices)
  const ids = new IdSource(lastNumber)
  const catalogue = new Catalogue(store, notices)
  const http = openTransport(config)
  const handlers = new HandlerTransport()
  const engine = new AsyncEngine({ watchdog: new Watchdog({ log }) })
  const transports = [http, handlers]
  const composeTest = testEvents(ids, clock)
  const { concurrency: triesMax, memoryBytesMax, laneStuckMs } = config
  const dispatching = { store, catalogue, transports, clock, random: Math.random, log, notices, composeTest }
  const dispatcher = new Dispatcher({ ...dispatching, triesMax, memoryBytesMax, laneStuckMs })
  const route = (tenant: string, type: string) => catalogue.route(tenant, type)
  const taking = { store, ids, clock, route, fresh: dispatcher, notices }
  const intake = new Intake({ ...taking, waitingBytesMax: config.intakeBytesMax })
  const pruning = new KeyPruning({ store, log, now: clock.wall })
  const stop = once(async () => {
    intake.stop()
    await pruning.stop()
    await dispatcher.stop(config.graceMs)
    await Promise.all([http.close(), handlers.close(), engine.stop()])
    await store.close()
  })
  try {
    await catalogue.load()
    await dispatcher.start()
    pruning.start()
  } catch (error) {
    await stop()
    throw error
  }
  const settings = { config, log, clock, presets: { ...presets, processing: processingPolicy(config) } }
  const refusal = (url: string) => http.refusal(url)
  const parts = { store, ids, catalogue, dispatcher, intake, metrics, notices, handlers, engine }
  return { ...settings, ...parts, refusal, stop }
}

export async function openApp(config: Config, options: AppOptions): Promise<App> {
  const pipeline = await openPipeline(config, options)
  const { log } = pipeline
  try {
    await options.prepare?.(pipeline)
    const server = await serve(pipeline)
    log.info({ url: server.url, pid: process.pid, version, database: config.database.path }, 'posthorn.started')
    const stop = once(async () => {
      pipeline.intake.stop()
      await server.stop()
      await pipeline.stop()
      log.info({}, 'posthorn.stopped')
    })
    return { url: server.url, pipeline, stop }
  } catch (error) {
    await pipeline.stop()
    throw error
  }
}

/** Loaded when it is wanted: the library does without. */
export async function serve(pipeline: Pipeline): Promise<{ url: string; stop(): Promise<void> }> {
  const { openServer } = await import('./server/server.ts')
  return openServer({ ...pipeline, now: pipeline.clock.wall, version })
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null
  return () => {
    done ??= work()
    return done
  }
}

/** As many connections as there can be tries: nobody waits for one while its deadline runs. */
function openTransport({ allowPrivate, concurrency }: Config) {
  return openHttpTransport({ userAgent: `Posthorn/${version}`, allowPrivate, connectionsPerOriginMax: concurrency })
}

/** The transport reads the ranges its own way; what it cannot read is told before anything is opened. */
function refuseWrongRanges({ allowPrivate }: Config): void {
  const parsed = parseAllowPrivate(allowPrivate)
  if ('problem' in parsed) throw new PosthornError('config_invalid', `POSTHORN_ALLOW_PRIVATE: ${parsed.problem}`)
}

/** Brings the database's schema up to date, or says what that would take. */
export function migrateDatabase(config: Config, options: { dryRun: boolean }): Promise<MigrationReport> {
  return migrateFile(config.database.path, options)
}

function openClock(): Clock {
  const startedAt = Date.now() - performance.now()
  return { wall: Date.now, steady: () => Math.floor(startedAt + performance.now()) }
}

/** Makes the events of try-outs: like any other, never kept. */
function testEvents(ids: IdSource, clock: Clock) {
  return (endpoint: Endpoint, content: { type: string; data: Uint8Array }): Event => {
    const receivedAt = clock.wall()
    return {
      id: ids.next('evt', receivedAt),
      tenant: endpoint.tenant,
      type: content.type,
      key: null,
      receivedAt,
      contentType: 'application/json',
      headers: {},
      request: null,
      ...envelope(content.type, receivedAt, content.data),
    }
  }
}
