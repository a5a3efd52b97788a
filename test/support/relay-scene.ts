import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { HubTiming } from '../../src/hub/hub-settings.ts'
import { type HubProcess, startHub } from './hub-process.ts'
import { type LinkProxy, openLinkProxy } from './link-proxy.ts'
import type { NetworkNamespace } from './network-namespace.ts'
import { freePort, type ServerProcess, startServer } from './server-process.ts'
import { tempFolder } from './sqlite.ts'

export type RelaySceneOptions = Readonly<{
  /** Where the hub's only route leads. */
  target: string
  /** What is asked of the endpoint besides its way. */
  endpoint?: Readonly<Record<string, unknown>>
  env?: Record<string, string>
  timing?: Partial<HubTiming>
  /** The edge lives in there, and the link is the one that leads there; without, it is the proxy. */
  namespace?: NetworkNamespace
}>

export type Shown = Readonly<{
  id: string
  eventId: string
  status: string
  reason: string | null
  attempts: number
  lastError: string | null
  retryAfter: string | null
  lastAttemptAt: string | null
}>

/** Waits of a hub that shall not make a test wait. */
export const shortWaits: Partial<HubTiming> = {
  beatMs: 100,
  silenceMsMax: 1_000,
  connectMsMax: 1_000,
  backoffMsMin: 20,
  backoffMsMax: 200,
  goodLinkMs: 0,
}

export type RelayScene = Awaited<ReturnType<typeof openRelayScene>>

/** A real edge, a bad link, and real hubs with the edge's key; what was started is ended with the test. */
export async function openRelayScene(t: TestContext, options: RelaySceneOptions) {
  const folder = await tempFolder()
  const { namespace } = options
  const port = await freePort()
  const apiKey = namespace === undefined ? '' : 'key-of-the-test-0123456789abcdef'
  const env = { ...options.env, ...(namespace && { POSTHORN_HOST: '0.0.0.0', POSTHORN_API_KEY: apiKey }) }
  const database = join(folder.path, 'edge.db')
  const start = () => startServer({ database, port, env, enter: namespace?.enter ?? [] })
  let edge: ServerProcess = await start()
  const proxy: LinkProxy = await openLinkProxy(() => port)
  const hubs = new Set<HubProcess>()
  t.after(async () => {
    await Promise.all([...hubs].map((hub) => hub.kill()))
    await edge.kill()
    await proxy.close()
    await folder.remove()
  })

  const url = `http://${namespace?.control ?? '127.0.0.1'}:${port}`
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const headers = {
      ...(apiKey !== '' && { authorization: `Bearer ${apiKey}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return (text === '' ? null : JSON.parse(text)) as T
  }
  /** Asks until the answer is the one that is waited for. */
  const until = async <T>(path: string, holds: (answer: T) => boolean): Promise<T> => {
    for (;;) {
      const answer = await call<T>('GET', path)
      if (holds(answer)) return answer
      await pause(25)
    }
  }
  const { key } = await call<{ key: string }>('POST', '/v1/relays', { name: 'home' })
  const way = { kind: 'relay', relay: 'home', route: 'home', types: ['*'] }
  const { id: endpointId } = await call<{ id: string }>('POST', '/v1/endpoints', { ...way, ...options.endpoint })

  return {
    url,
    proxy,
    key,
    apiKey,
    endpointId,
    call,
    until,
    edge: () => edge,
    startHub(given: Readonly<{ memory?: string; timing?: Partial<HubTiming> | undefined }> = {}): HubProcess {
      const timing = 'timing' in given ? given.timing : options.timing
      const hub = startHub({
        edge: namespace === undefined ? `ws://127.0.0.1:${proxy.port}` : `ws://${namespace.link.inside}:${port}`,
        key,
        routes: { home: options.target },
        memoryFile: join(folder.path, given.memory ?? 'hub.db'),
        ...(timing !== undefined && { timing }),
      })
      hubs.add(hub)
      return hub
    },
    async restartEdge(how: 'kill' | 'stop'): Promise<void> {
      await edge[how]()
      edge = await start()
    },
    /** Ends it without starting it again: `startEdge` does. */
    killEdge: () => edge.kill(),
    async startEdge(): Promise<void> {
      edge = await start()
    },
    connected: (wanted = true) =>
      until<{ connected: boolean }>('/v1/relays/home', ({ connected }) => connected === wanted),
    send: (data: unknown) => call<{ id: string }>('POST', '/v1/events', { type: 'test.sent', data }),
    /** The delivery of an event to the relay, when it is as wanted. */
    async delivery(eventId: string, holds: (delivery: Shown) => boolean): Promise<Shown> {
      const path = `/v1/deliveries?event=${eventId}&endpoint=${endpointId}`
      const { items } = await until<{ items: Shown[] }>(path, ({ items: [one] }) => one !== undefined && holds(one))
      const [one] = items
      if (one === undefined) throw new Error('it was there a moment ago')
      return one
    },
    /** When nothing waits any more and nothing is under way. */
    async settled(): Promise<void> {
      // The lane ends in its order, so that its last one is over when all are. Waiting and under way are seen one after
      // the other, and a delivery may be the one now and the other then.
      const newest = `/v1/deliveries?limit=1&endpoint=${endpointId}`
      const isOver = ({ status }: Shown) => status !== 'pending' && status !== 'processing'
      await until<{ items: Shown[] }>(newest, ({ items }) => items.every(isOver))
      for (const status of ['pending', 'processing', 'pending']) {
        const path = `/v1/deliveries?limit=1&status=${status}`
        await until<{ items: Shown[] }>(path, ({ items }) => items.length === 0)
      }
    },
    /** Deliveries in a status, as the ledger wants them. */
    async listed(status: string): Promise<readonly Readonly<{ eventId: string; endpoint: string }>[]> {
      const found: { eventId: string; endpoint: string }[] = []
      let cursor = ''
      do {
        type Page = { items: Shown[]; next: string | null }
        const page = await call<Page>('GET', `/v1/deliveries?limit=500&status=${status}${cursor}`)
        for (const { eventId } of page.items) found.push({ eventId, endpoint: 'home' })
        cursor = page.next === null ? '' : `&cursor=${encodeURIComponent(page.next)}`
      } while (cursor !== '')
      return found
    },
  }
}
