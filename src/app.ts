import { readFileSync } from 'node:fs'
import type { Config } from './config.ts'
import type { Clock } from './core/clock.ts'
import type { Endpoint } from './core/endpoint.ts'
import { PosthornError } from './core/errors.ts'
import type { Event } from './core/event.ts'
import { Catalogue } from './dispatch/catalogue.ts'
import { Dispatcher } from './dispatch/dispatcher.ts'
import { envelope } from './intake/envelope.ts'
import { IdSource } from './intake/ids.ts'
import { Intake } from './intake/intake.ts'
import { openLog } from './log.ts'
import { openServer } from './server/server.ts'
import { type MigrationReport, migrateFile } from './store/sqlite/migrate-file.ts'
import { openSqliteStore } from './store/sqlite/sqlite-store.ts'
import { parseAllowPrivate } from './transports/http/address-guard.ts'
import { openHttpTransport } from './transports/http/http-transport.ts'
import { KeyPruning } from './upkeep/key-pruning.ts'
import { openMetrics } from './upkeep/metrics.ts'

/** A running Posthorn. */
export type App = Readonly<{
  url: string
  /** Stops taking, finishes or hands back what is in flight within the grace time, closes. May be called twice. */
  stop(): Promise<void>
}>

export const version: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version

export type AppOptions = Readonly<{
  /** The store has ended by a defect: nothing can be kept any more, the process should end and be started anew. */
  onFatal: (error: Error) => void
}>

/** Puts the parts together, in the order in which an event travels through them. */
export async function openApp(config: Config, { onFatal }: AppOptions): Promise<App> {
  refuseWrongRanges(config)
  const log = openLog({ level: config.logLevel, format: config.logFormat })
  const clock = openClock()
  const file = config.database.path
  const { store, lastNumber } = await openSqliteStore({
    file,
    key: config.encryptionKey,
    onFatal: (err) => {
      log.fatal({ err }, 'store.ended')
      onFatal(err)
    },
  })
  const metrics = openMetrics()
  const ids = new IdSource(lastNumber)
  const catalogue = new Catalogue(store)
  const transport = openTransport(config)
  const composeTest = testEvents(ids, clock)
  const { concurrency: triesMax, memoryBytesMax } = config
  const count = metrics.attemptSettled
  const dispatching = { store, catalogue, transports: [transport], clock, random: Math.random, log, count, composeTest }
  const dispatcher = new Dispatcher({ ...dispatching, triesMax, memoryBytesMax })
  const route = (tenant: string, type: string) => catalogue.route(tenant, type)
  const intake = new Intake({ store, ids, clock, route, fresh: dispatcher, waitingBytesMax: config.intakeBytesMax })
  const pruning = new KeyPruning({ store, log, now: clock.wall })
  const stopParts = async (): Promise<void> => {
    await pruning.stop()
    await dispatcher.stop(config.graceMs)
    await transport.close()
    await store.close()
  }
  try {
    await catalogue.load()
    await dispatcher.start()
    pruning.start()
    const refusal = (url: string) => transport.refusal(url)
    const serving = { config, store, intake, ids, catalogue, dispatcher, refusal, metrics, log, now: clock.wall }
    const server = await openServer({ ...serving, version })
    log.info({ url: server.url, pid: process.pid, version, database: file }, 'posthorn.started')
    let stopped: Promise<void> | null = null
    const stop = async (): Promise<void> => {
      intake.stop()
      await server.stop()
      await stopParts()
      log.info({}, 'posthorn.stopped')
    }
    return {
      url: server.url,
      stop() {
        stopped ??= stop()
        return stopped
      },
    }
  } catch (error) {
    await stopParts()
    throw error
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
