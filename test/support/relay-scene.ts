import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { HubTiming } from '../../src/hub/hub-settings.ts'
import { type HubProcess, startHub } from './hub-process.ts'
import { type LinkProxy, openLinkProxy } from './link-proxy.ts'
import type { NetworkNamespace } from './network-namespace.ts'
import { openApi, readsOf } from './relay-reads.ts'
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

export type { Shown } from './relay-reads.ts'

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
  const { call, until } = openApi(url, apiKey)
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
    ...readsOf({ call, until }, endpointId),
  }
}
