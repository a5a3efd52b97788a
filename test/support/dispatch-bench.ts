import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Clock } from '../../src/core/clock.ts'
import type { HandlerEndpoint, HttpEndpoint, RelayEndpoint } from '../../src/core/endpoint.ts'
import type { Notice } from '../../src/core/notice.ts'
import { presets, type RetryPolicy } from '../../src/core/retry-policy.ts'
import { Catalogue } from '../../src/dispatch/catalogue.ts'
import { Dispatcher } from '../../src/dispatch/dispatcher.ts'
import { ReplayRunner } from '../../src/dispatch/replays.ts'
import { TransportSet } from '../../src/dispatch/transport-set.ts'
import { IdSource } from '../../src/intake/ids.ts'
import { type EventInput, Intake } from '../../src/intake/intake.ts'
import type { Logger } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import type { SharedState } from '../../src/shared-state/shared-state.ts'
import type { Joined, MemberLease } from '../../src/store/cluster-store.ts'
import type { DeliveryRecord } from '../../src/store/record-store.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Parcel } from '../../src/transports/transport.ts'
import { AheadWire, type HubMemory } from './ahead-wire.ts'
import { aHandler, anEndpoint, aRelayEndpoint, t0 } from './builders.ts'
import { OtherMembers } from './other-members.ts'
import { answered, type Script, ScriptedWire } from './scripted-wire.ts'
import { tempFolder } from './sqlite.ts'
import { WatchedStore } from './watched-store.ts'

export { answered, type Script, ScriptedWire, type Try, unreachable } from './scripted-wire.ts'

/** A dispatcher with its real parts around it, on a virtual clock; only the other end of the wire is played. */
export type Bench = Readonly<{
  time: VirtualTime
  watched: WatchedStore
  store: Store
  catalogue: Catalogue
  intake: Intake
  dispatcher: Dispatcher
  replays: ReplayRunner
  wire: ScriptedWire
  /** The other end of handlers. */
  code: ScriptedWire
  /** The hub of relay endpoints, and the link to it. */
  hub: AheadWire
  /** Where the hub may be instead. */
  others: OtherMembers
  notices: Notices
  logged: readonly string[]
  /** Every notice so far. */
  heard: readonly Notice[]
  folder: string
  add(given?: Partial<HttpEndpoint>): Promise<HttpEndpoint>
  addHandler(given?: Partial<HandlerEndpoint>): Promise<HandlerEndpoint>
  addRelay(given?: Partial<RelayEndpoint>): Promise<RelayEndpoint>
  /** Accepts one event; its id. */
  send(given?: Partial<EventInput> & { n?: number }): Promise<string>
  /** Resolves when nothing more happens without time going on or the wire answering. */
  quiet(): Promise<void>
  /** Lets time pass, in steps, with all that happens in it. */
  pass(ms: number, stepMs?: number): Promise<void>
  /** Every delivery, oldest first. */
  deliveries(endpointId?: string): Promise<readonly DeliveryRecord[]>
  /** How many deliveries there are by status. */
  tally(endpointId?: string): Promise<Record<string, number>>
  /** Stops, and checks that nothing is held any more. Every test ends with it. */
  stop(graceMs?: number): Promise<void>
  /** Closes the store under the dispatcher, whatever it still holds. */
  abandon(): Promise<void>
  /** Stops and opens the same file anew. */
  restart(settings?: BenchSettings): Promise<Bench>
}>

export type BenchSettings = Readonly<{
  attemptsMax?: number
  state?: SharedState
  laneStuckMs?: number
  memoryBytesMax?: number
  waitingBytesMax?: number
  paused?: boolean
  /** As a store with several members would give it. */
  lease?: MemberLease
  script?: Script
  /** What handlers do. */
  code?: Script
  /** What the target behind the hub does, and what the hub remembers from before. */
  target?: Script
  hubMemory?: HubMemory
  /** Where the database is; a folder of its own if not said. */
  folder?: string
}>

/** The webhook preset's shape with exact waits: 1, 2, 4, 8 s. */
export const exactWebhook: RetryPolicy = { ...presets.webhook, preset: null, jitter: { kind: 'ratio', ratio: 0 } }

/** Steady time moves only by `pass`; the wall clock can be set apart from it. A boot may find any `nowMs`. */
export type VirtualTime = Clock & { nowMs: number; skewMs: number; tick(ms: number): void }

const times = new WeakMap<TestContext, VirtualTime>()

function virtualTime(t: TestContext): VirtualTime {
  const known = times.get(t)
  if (known !== undefined) return known
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const time: VirtualTime = {
    nowMs: t0,
    skewMs: 0,
    steady: () => time.nowMs,
    monotonic: () => time.nowMs,
    wall: () => time.nowMs + time.skewMs,
    tick(ms) {
      time.nowMs += ms
      t.mock.timers.tick(ms)
    },
  }
  times.set(t, time)
  return time
}

const calmTurns = 8

export async function openBench(t: TestContext, settings: BenchSettings = {}): Promise<Bench> {
  const time = virtualTime(t)
  const folder = settings.folder ?? (await ownFolder(t))
  const opened = await openSqliteStore({
    file: join(folder, 'posthorn.db'),
    key: null,
    onFatal: (error) => {
      throw error
    },
  })
  const watched = new WatchedStore(opened.store)
  const { store } = watched
  const { lease } = settings
  if (lease !== undefined) {
    watched.onAnswer = (name, answer) => (name === 'join' ? { ...(answer as Joined), lease } : answer)
  }
  const ids = new IdSource(opened.lastNumber)
  const notices = new Notices((error) => assert.fail(String(error)))
  const heard: Notice[] = []
  notices.subscribe((notice) => heard.push(notice))
  const catalogue = new Catalogue(store, notices)
  await catalogue.load()
  const wire = new ScriptedWire(settings.script ?? (() => answered(200)), time.steady)
  const code = new ScriptedWire(settings.code ?? (() => ({ kind: 'handled' })), time.steady, 'handler')
  const hub = new AheadWire(settings.target ?? (() => answered(200)), settings.hubMemory)
  const others = new OtherMembers()
  const logged: string[] = []
  const log = logInto(logged)
  const dispatcher = new Dispatcher({
    ...{ store, catalogue, log, notices, state: settings.state ?? new MemoryState(time.steady) },
    transport: new TransportSet([wire, code, hub]),
    otherHubs: others,
    clock: time,
    random: () => 0.5,
    machineNow: time.wall,
    onStoreTime: () => {},
    composeTest: () => {
      throw new Error('no try-outs here')
    },
    laneStuckMs: settings.laneStuckMs ?? 15 * 60_000,
    attemptsMax: settings.attemptsMax ?? 1_000,
    memoryBytesMax: settings.memoryBytesMax ?? 64 * 1024 * 1024,
  })
  if (settings.paused) dispatcher.paused = true
  const newId = (prefix: 'rpl' | 'dlv') => ids.next(prefix, time.wall())
  const replays = new ReplayRunner({
    store,
    catalogue,
    clock: time,
    log,
    notices,
    target: dispatcher,
    newId,
    recordKeptMs: 604_800_000,
  })
  const route = (tenant: string, type: string) => catalogue.route(tenant, type)
  const waitingBytesMax = settings.waitingBytesMax ?? 64 * 1024 * 1024
  const intake = new Intake({
    store,
    ids,
    clock: time,
    route,
    fresh: dispatcher.fresh,
    notices,
    waitingBytesMax,
    hopsMax: 10,
  })
  await replays.load()
  await dispatcher.start()
  replays.start()
  let stopped = false
  const bench: Bench = {
    ...{
      time,
      watched,
      store,
      catalogue,
      intake,
      dispatcher,
      replays,
      wire,
      code,
      hub,
      others,
      notices,
      logged,
      heard,
      folder,
    },
    async add(given) {
      const endpoint = anEndpoint({ id: ids.next('ep', time.wall()), retry: exactWebhook, ...given })
      await catalogue.put(endpoint)
      return endpoint
    },
    async addHandler(given) {
      const endpoint = aHandler({ id: ids.next('ep', time.wall()), retry: exactWebhook, ...given })
      await catalogue.put(endpoint)
      return endpoint
    },
    async addRelay(given) {
      const endpoint = aRelayEndpoint({ id: ids.next('ep', time.wall()), retry: exactWebhook, ...given })
      await catalogue.put(endpoint)
      return endpoint
    },
    async send(given) {
      const answer = await intake.accept([anInput(given)])
      if (answer.kind !== 'accepted') throw new Error(answer.kind)
      return answer.items[0]!.id
    },
    quiet: () => quiet(watched),
    async pass(ms, stepMs = ms) {
      for (let left = ms; left > 0; left -= stepMs) {
        time.tick(Math.min(stepMs, left))
        await quiet(watched)
      }
    },
    deliveries: (endpointId) => allDeliveries(store, endpointId),
    async tally(endpointId) {
      const records = await allDeliveries(store, endpointId)
      const counts: Record<string, number> = {}
      for (const { delivery } of records) counts[delivery.status] = (counts[delivery.status] ?? 0) + 1
      return counts
    },
    async stop(graceMs = 0) {
      if (stopped) return
      stopped = true
      intake.stop()
      await replays.stop()
      await stopInTime(bench, graceMs).finally(() => opened.store.close())
    },
    async abandon() {
      stopped = true
      await opened.store.close()
    },
    async restart(changed = {}) {
      await bench.stop()
      return openBench(t, { ...settings, folder, ...changed })
    },
  }
  benches.get(folder)?.push(bench)
  return bench
}

/** Benches by the folder that they share, one after another. */
const benches = new Map<string, Bench[]>()

async function ownFolder(t: TestContext): Promise<string> {
  const { path, remove } = await tempFolder()
  const opened: Bench[] = []
  benches.set(path, opened)
  t.after(async () => {
    const ends = await Promise.allSettled(opened.map((bench) => bench.stop()))
    await remove()
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  })
  return path
}

export function anInput({ n = 0, ...given }: Partial<EventInput> & { n?: number } = {}): EventInput {
  return {
    type: 'order.created',
    tenant: 'default',
    key: null,
    headers: {},
    content: { kind: 'raw', bytes: Buffer.from(JSON.stringify({ n })), type: 'application/json' },
    idempotency: null,
    request: null,
    ...given,
  }
}

/** The `n` that the event was sent with. */
export function numberIn(parcel: Parcel): number {
  return JSON.parse(Buffer.from(parcel.event.body).toString()).n
}

async function quiet(watched: WatchedStore): Promise<void> {
  for (let calm = 0; calm < calmTurns; calm += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    if (watched.pending > 0) calm = -1
  }
}

async function stopInTime(bench: Bench, graceMs: number): Promise<void> {
  let isOver = false
  const stopping = bench.dispatcher.stop(graceMs).then(() => {
    isOver = true
  })
  const turnMs = Math.max(1, graceMs / 10)
  for (let turns = 0; turns < 10_000; turns += 1) {
    await bench.quiet()
    if (isOver) break
    bench.time.tick(turnMs)
  }
  assert.ok(isOver, 'the dispatcher does not stop')
  await stopping
  assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 }, 'something is still held')
}

async function allDeliveries(store: Store, endpointId: string | undefined): Promise<readonly DeliveryRecord[]> {
  const found: DeliveryRecord[] = []
  let cursor: string | null | undefined
  while (cursor !== null) {
    const which = endpointId === undefined ? {} : { endpointId }
    const page = await store.listDeliveries({ ...which, limit: 500, ...(cursor === undefined ? {} : { cursor }) })
    found.push(...page.items)
    cursor = page.next
  }
  return found.reverse()
}

function logInto(lines: string[]): Logger {
  const write = (_facts: unknown, words?: string): void => {
    if (words !== undefined && words !== 'attempt.settled') lines.push(words)
  }
  const log = { trace: write, debug: write, info: write, warn: write, error: write, fatal: write, level: 'trace' }
  return log as unknown as Logger
}
