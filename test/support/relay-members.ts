import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Crowd } from './crowd.ts'
import { eventually } from './eventually.ts'
import { type HubProcess, startHub } from './hub-process.ts'
import { openLedgerSink, type SinkScript } from './ledger-sink.ts'
import { type LinkProxy, openLinkProxy } from './link-proxy.ts'
import { openMembers } from './members.ts'
import { type RelayRun, relayLedger } from './relay-ledger.ts'
import { type EdgeApi, openApi, readsOf } from './relay-reads.ts'
import { shortWaits } from './relay-scene.ts'
import type { ServerProcess } from './server-process.ts'
import { tempFolder } from './sqlite.ts'

/** A wait that no test outlives: what is tried again in spite of it was not made to wait. */
const retry = { strategy: 'exponential', baseDelay: '1h', multiplier: 1, maxDelay: '1h', jitter: 0 }
/** So much waits at most for the target. */
const backlogMax = 60

/** One of the processes, and the way that hubs take to it. */
export type Edge = EdgeApi & Readonly<{ server: ServerProcess; way: LinkProxy }>

export type RelayShown = Readonly<{ connected: boolean; member: string | null }> & Readonly<Record<string, unknown>>

type MemberShown = Readonly<{ id: string; pid: number; leader: boolean }>

/** One of the processes, as another sees it. */
export async function memberOf({ server }: Edge, asker: Edge): Promise<MemberShown | null> {
  const { items } = await asker.call<{ items: MemberShown[] }>('GET', '/v1/members')
  return items.find(({ pid }) => pid === server.child.pid) ?? null
}

/**
 * Processes that share one database, and one address for hubs, which leads to the process that `lead` has named. What was
 * started is ended with the test.
 */
export async function openRelayMembers(t: TestContext, script: SinkScript = () => 200, env = {}) {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const folder = await tempFolder()
  stack.defer(() => folder.remove())
  const sink = await openLedgerSink({ home: 'endpoint' }, script)
  stack.defer(() => sink.close())
  const members = stack.use(await openMembers())
  const started: Edge[] = []

  const start = async (): Promise<Edge> => {
    const server = await members.start(env)
    const way = await openLinkProxy(() => Number(new URL(server.url).port))
    stack.defer(() => way.close())
    const api = openApi(server.url)
    const edge = { ...api, server, way }
    started.push(edge)
    return edge
  }
  /** Until each of these has heard of all of these, so that it says at once what happens. */
  const meet = async (...edges: readonly Edge[]): Promise<void> => {
    for (const edge of edges) {
      await edge.until<{ items: unknown[] }>('/v1/members', ({ items }) => items.length === edges.length)
    }
  }
  let led = 0
  const door = await openLinkProxy(() => led)
  stack.defer(() => door.close())
  const [a, b] = [await start(), await start()]
  await meet(a, b)
  const { key } = await a.call<{ key: string }>('POST', '/v1/relays', { name: 'home' })
  const route = { kind: 'relay', relay: 'home', route: 'home', types: ['crash.*'], retry }
  const { id: endpointId } = await a.call<{ id: string }>('POST', '/v1/endpoints', route)
  await eventually('b knows both', () =>
    b
      .call<object>('GET', `/v1/endpoints/${endpointId}`)
      .then(() => b.call<object>('GET', '/v1/relays/home'))
      .catch(() => null),
  )

  return {
    ...{ a, b, sink, door, key, endpointId, start, meet },
    /** New connections of hubs go there. */
    lead(edge: Edge): void {
      led = edge.way.port
    },
    startHub(given: Readonly<{ memory?: string; at?: Edge; real?: boolean }> = {}): HubProcess {
      const port = given.at?.way.port ?? door.port
      const hub = startHub({
        edge: `ws://127.0.0.1:${port}`,
        key,
        routes: { home: `${sink.url}/home` },
        memoryFile: join(folder.path, given.memory ?? 'hub.db'),
        ...(given.real !== true && { timing: shortWaits }),
      })
      stack.defer(() => hub.kill())
      return hub
    },
    /** Until all of these say that the hub is connected to this one. */
    async at(edge: Edge, ...askers: readonly Edge[]): Promise<void> {
      for (const asker of askers) {
        await eventually('it says where the hub is', async () => {
          const { member } = await asker.call<RelayShown>('GET', '/v1/relays/home')
          return member !== null && member === (await memberOf(edge, asker))?.id ? true : null
        })
      }
    },
    /** Senders to this process; their numbers begin after `first`. */
    crowd({ server }: Edge, senders = 3, first = 0): Crowd {
      const before = sink.arrived.length
      const hold = () => sink.until(() => crowd.sent.length - (sink.arrived.length - before) < backlogMax)
      const crowd: Crowd = new Crowd(server.url, senders, { first, paceMs: 10, hold })
      stack.defer(() => crowd.abandon())
      return crowd
    },
    /** That so many more have arrived. */
    async more(count: number): Promise<void> {
      const wanted = sink.arrived.length + count
      await sink.until(() => sink.arrived.length >= wanted)
    },
    /** What was promised was kept, as this process has it. */
    async assertKept(edge: Edge, run: Omit<RelayRun, 'sink'>): Promise<void> {
      const { problems, ...figures } = await relayLedger(readsOf(edge, endpointId), { sink, ...run })
      t.diagnostic(JSON.stringify(figures))
      assert.deepEqual(problems, [])
    },
  }
}
