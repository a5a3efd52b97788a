import assert from 'node:assert/strict'
import { join } from 'node:path'
import { openApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config.ts'
import { presets } from '../../src/core/retry-policy.ts'
import { Catalogue } from '../../src/dispatch/catalogue.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { PauseOfAll } from '../../src/dispatch/pause-of-all.ts'
import { ReplayRunner } from '../../src/dispatch/replays.ts'
import { TransportSet } from '../../src/dispatch/transport-set.ts'
import { IdSource } from '../../src/intake/ids.ts'
import { Intake } from '../../src/intake/intake.ts'
import { Sources } from '../../src/intake/sources.ts'
import type { Logger } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import { Relays } from '../../src/server/relays.ts'
import { openServer, type ServerParts, type Timeouts } from '../../src/server/server.ts'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import type { Store } from '../../src/store/store.ts'
import { openHttpTransport } from '../../src/transports/http/http-transport.ts'
import type { RelayGate } from '../../src/transports/relay-gate.ts'
import { openMetrics } from '../../src/upkeep/metrics.ts'
import { Stats } from '../../src/upkeep/stats.ts'
import { Status } from '../../src/upkeep/status.ts'
import { Upkeep } from '../../src/upkeep/upkeep.ts'
import { keptForAWeek } from '../support/builders.ts'
import { OtherMembers } from '../support/other-members.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

export type Reply = Readonly<{ status: number; headers: Headers; text: string; json: Json }>
// biome-ignore lint/suspicious/noExplicitAny: an answer is whatever the server sent; each test says what it expects
export type Json = any

export type Served = Readonly<{
  url: string
  /** An object is sent as JSON; text and bytes as they are. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  stop(): Promise<void>
}>

/** The whole of Posthorn on a fresh SQLite file and any free port. Loopback endpoints are allowed. */
export async function openServed(env: Record<string, string> = {}): Promise<Served> {
  const folder = await tempFolder()
  const app = await openApp(configOf(folder.path, env), { onFatal: assert.fail })
  return {
    url: app.url,
    call: caller(app.url),
    async stop() {
      await app.stop()
      await folder.remove()
    },
  }
}

/** A line that was logged: its fields and its words. */
export type Logged = Readonly<{ fields: Json; message: string }>

/** The server over real parts, of which a test may replace some: the store to fail, the timeouts to be short. */
export async function openServedParts(
  change: (parts: ServerParts) => Partial<ServerParts>,
  timeouts: Partial<Timeouts> = {},
  wrap: (store: Store) => Store = (store) => store,
): Promise<Served & { logged: Logged[] }> {
  const folder = await tempFolder()
  const config = configOf(folder.path, {})
  const store = wrap(await openStoreFile(join(folder.path, databaseFile)))
  const logged: Logged[] = []
  const write = (fields: object, message?: string) => logged.push({ fields, message: message ?? '' })
  const log = {
    trace: write,
    debug: write,
    info: write,
    warn: write,
    error: write,
    fatal: write,
    level: 'info',
  } as unknown as Logger
  const clock = { wall: Date.now, steady: Date.now, monotonic: Date.now }
  const ids = new IdSource(0)
  const notices = new Notices((error) => assert.fail(String(error)))
  const catalogue = new Catalogue(store, notices)
  const metrics = openMetrics(notices, 100)
  const transport = openHttpTransport({ userAgent: 'Posthorn/test', allowPrivate: config.allowPrivate })
  const dispatcher = new Dispatcher({
    ...{ store, catalogue, transport: new TransportSet([transport]), clock, log, notices, random: Math.random },
    state: new MemoryState(clock.steady),
    otherHubs: new OtherMembers(),
    machineNow: Date.now,
    onStoreTime: () => {},
    composeTest: () => {
      throw new Error('no test events here')
    },
    attemptsMax: 10,
    memoryBytesMax: config.memoryBytesMax,
    laneStuckMs: config.laneStuckMs,
  })
  await catalogue.load()
  await dispatcher.start()
  const newId = (prefix: 'rpl' | 'dlv') => ids.next(prefix, Date.now())
  const replays = new ReplayRunner({
    store,
    catalogue,
    clock,
    log,
    notices,
    target: dispatcher,
    newId,
    recordKeptMs: 604_800_000,
  })
  await replays.load()
  replays.start()
  const route = (tenant: string, type: string) => catalogue.route(tenant, type)
  const taking = { store, ids, clock, route, fresh: dispatcher.fresh, notices }
  const intake = new Intake({ ...taking, waitingBytesMax: config.intakeBytesMax, hopsMax: config.hopsMax })
  const refusal: ServerParts['refusal'] = (url, who) => transport.refusal(url, who)
  const endpoints = () => catalogue.list()
  const upkeep = new Upkeep({
    store,
    endpoints,
    clock,
    log,
    notices,
    settings: keptForAWeek,
    dispatcher: { leads: true, goOnAt: () => {} },
  })
  const stats = new Stats(store, clock.steady)
  const status = new Status({
    store,
    catalogue,
    dispatcher,
    stats,
    notices,
    clock,
    lacksRoute: () => false,
    agesKnown: () => true,
  })
  const parts = {
    config,
    presets,
    store,
    intake,
    ids,
    catalogue,
    sources: new Sources(store),
    relays: new Relays(store),
    gate: closedGate,
    dispatcher,
    pauseOfAll: new PauseOfAll(store, false, ({ paused }) => {
      dispatcher.paused = paused
    }),
    replays,
    refusal,
    notices,
    elsewhere: { listen() {} },
    metrics,
    upkeep,
    stats,
    status,
    log,
    now: Date.now,
    clock,
    version: '0',
  }
  const server = await openServer({ ...parts, ...change(parts) }, timeouts)
  return {
    logged,
    url: server.url,
    call: caller(server.url),
    async stop() {
      await server.stop()
      await replays.stop()
      await dispatcher.stop(0)
      await transport.close()
      await store.close()
      await folder.remove()
    },
  }
}

/** No hub is connected. */
const closedGate: RelayGate = {
  admit: ({ id }) => assert.fail(`${id} came in`),
  linkOf: () => null,
  poll: async () => {},
}

const databaseFile = 'posthorn.db'

function configOf(folder: string, env: Record<string, string>) {
  return loadConfig({
    flags: {},
    env: {
      POSTHORN_PORT: '0',
      POSTHORN_DATABASE_URL: `sqlite:${join(folder, databaseFile)}`,
      POSTHORN_ALLOW_PRIVATE: '127.0.0.1/32',
      POSTHORN_LOG_LEVEL: 'silent',
      ...env,
    },
  })
}

function caller(url: string): Served['call'] {
  return async (method, path, body, headers = {}) => {
    const isPlain = typeof body === 'string' || body instanceof Uint8Array
    const sent = body === undefined ? {} : { body: isPlain ? (body as string) : JSON.stringify(body) }
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(`${url}${path}`, { method, headers: { ...type, ...headers }, ...sent })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : null }
  }
}
