import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Config } from '../config.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { IdSource } from '../intake/ids.ts'
import type { Intake } from '../intake/intake.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'
import type { Metrics } from '../upkeep/metrics.ts'
import { accessBy } from './auth.ts'
import { BodyBudget } from './body-reader.ts'
import { openHotPath } from './hot-path.ts'
import { Keys } from './keys.ts'
import { boundedServer, closeWithin, listenAt, type Timeouts } from './listening.ts'
import { type Problem, problemFor, sendProblem } from './problem.ts'
import { openRest } from './rest.ts'
import type { Api } from './route.ts'
import { deliveryRoutes } from './routes/deliveries.ts'
import { endpointRoutes } from './routes/endpoints.ts'
import { eventRoutes } from './routes/events.ts'
import { keyRoutes } from './routes/keys.ts'
import { streamRoute } from './routes/stream.ts'
import { systemRoutes } from './routes/system.ts'
import { Stream } from './stream.ts'

export type { Timeouts } from './listening.ts'

export type ServerParts = Readonly<{
  config: Config
  store: Store
  intake: Intake
  ids: IdSource
  catalogue: Catalogue
  dispatcher: Dispatcher
  refusal: (url: string) => Promise<string | null>
  notices: Notices
  metrics: Metrics
  log: Logger
  now: () => number
  version: string
}>

export type RunningServer = Readonly<{ url: string; stop(): Promise<void> }>

const stopMs = 3_000

/** Listens and serves the API until it is stopped. */
export async function openServer(parts: ServerParts, timeouts: Partial<Timeouts> = {}): Promise<RunningServer> {
  const { config, store, notices } = parts
  let isStopping = false
  const keys = new Keys(store)
  await keys.load()
  const access = accessBy(config.apiKey, (key) => keys.find(key))
  const stream = new Stream({ notices, keys, access })
  const { app } = openApi(parts, { timeouts, keys, access, stream, isStopping: () => isStopping })
  parts.metrics.watch({
    inFlight: () => parts.dispatcher.load().inFlight,
    queued: () => parts.dispatcher.load().queued,
    intakeWaitingBytes: () => parts.intake.waitingBytes,
    storeWritable: () => parts.store.health().writable,
  })
  let stopped: Promise<void> | null = null
  const stop = () => {
    isStopping = true
    stream.stop()
    stopped ??= closeWithin(app.server, stopMs).then(() => app.close())
    return stopped
  }
  try {
    await app.ready()
    const { host, port } = config
    return { url: await listenAt(app.server, { host, port, setting: 'POSTHORN_PORT' }), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

export type ApiSettings = Readonly<{
  timeouts: Partial<Timeouts>
  keys: Keys
  access: ReturnType<typeof accessBy>
  stream: Stream
  isStopping: () => boolean
}>

/** All that the API's port serves. */
export function openApi(parts: ServerParts, settings: ApiSettings): ReturnType<typeof openRest> {
  const { config, intake } = parts
  const { access, keys, stream, isStopping, timeouts } = settings
  const bodies = new BodyBudget(config.requestBytesMax)
  const fail = (request: IncomingMessage, response: ServerResponse, error: unknown) => {
    const { problem, requestId } = reported(parts, request, error)
    sendProblem(response, problem, requestId)
  }
  const hotPath = openHotPath({ intake, access, bodies, eventBytesMax: config.eventBytesMax, fail })
  const addRoutes = (api: Api) => {
    eventRoutes(api, parts)
    endpointRoutes(api, parts)
    deliveryRoutes(api, parts)
    keyRoutes(api, parts, keys)
    streamRoute(api, stream)
    systemRoutes(api, parts, isStopping)
  }
  return openRest(
    {
      ...{ access, bodies },
      reported: (request, error) => reported(parts, request, error),
      mount: (others) =>
        boundedServer({ timeouts, connectionsMax: config.connectionsMax }, (request, response) => {
          // A server that is stopping wants its connections back.
          if (isStopping()) response.setHeader('connection', 'close')
          if (!hotPath(request, response)) others(request, response)
        }),
    },
    addRoutes,
  )
}

/** Our own mistakes get an id that the client can name, and are logged once; the rest is the client's to know. */
function reported(
  parts: ServerParts,
  request: IncomingMessage,
  error: unknown,
): { problem: Problem; requestId?: string } {
  const problem = problemFor(error)
  if (problem.code !== 'internal') return { problem }
  const requestId = parts.ids.next('req', parts.now())
  const { method, url } = request
  parts.log.error({ requestId, method, path: url?.split('?')[0], err: problem.cause }, 'request.failed')
  return { problem, requestId }
}
