import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Config } from '../config.ts'
import type { Clock } from '../core/clock.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { PauseOfAll } from '../dispatch/pause-of-all.ts'
import type { ReplayRunner } from '../dispatch/replays.ts'
import type { IdSource } from '../intake/ids.ts'
import type { Intake } from '../intake/intake.ts'
import type { Sources } from '../intake/sources.ts'
import type { Logger } from '../log.ts'
import type { Elsewhere, Notices } from '../notices.ts'
import type { Store } from '../store/store.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import type { Metrics } from '../upkeep/metrics.ts'
import type { Stats } from '../upkeep/stats.ts'
import type { Status } from '../upkeep/status.ts'
import type { Upkeep } from '../upkeep/upkeep.ts'
import { accessBy } from './auth.ts'
import { BodyPace } from './body-pace.ts'
import { BodyBudget } from './body-reader.ts'
import { BodyShares } from './body-shares.ts'
import { openHotPath } from './hot-path.ts'
import { inboundFacts, openInboundPath } from './inbound-path.ts'
import { Keys } from './keys.ts'
import { answerBrokenRequest, boundedServer, closeWithin, listenAt, type Timeouts } from './listening.ts'
import { Problem, problemFor, sendProblem } from './problem.ts'
import { openRelayPath, relayPathRoute } from './relay-path.ts'
import type { Relays } from './relays.ts'
import { openRest } from './rest.ts'
import type { Presets } from './retry-schema.ts'
import type { Api } from './route.ts'
import { breakerRoutes } from './routes/breakers.ts'
import { deadLetterRoutes } from './routes/dead-letters.ts'
import { deliveryRoutes } from './routes/deliveries.ts'
import { endpointRoutes } from './routes/endpoints.ts'
import { eventRoutes } from './routes/events.ts'
import { keyRoutes } from './routes/keys.ts'
import { memberRoutes } from './routes/members.ts'
import { relayRoutes } from './routes/relays.ts'
import { replayRoutes } from './routes/replays.ts'
import { sourceRoutes } from './routes/sources.ts'
import { statusRoutes } from './routes/status.ts'
import { streamRoute } from './routes/stream.ts'
import { systemRoutes } from './routes/system.ts'
import { upkeepRoutes } from './routes/upkeep.ts'
import { idLookup } from './short-ids.ts'
import { Stream } from './stream.ts'

export type { Timeouts } from './listening.ts'

export type ServerParts = Readonly<{
  config: Config
  presets: Presets
  store: Store
  intake: Intake
  ids: IdSource
  catalogue: Catalogue
  sources: Sources
  relays: Relays
  gate: RelayGate
  dispatcher: Dispatcher
  pauseOfAll: PauseOfAll
  replays: ReplayRunner
  refusal: (url: string, who?: Readonly<{ isOperator: boolean }>) => Promise<string | null>
  notices: Notices
  elsewhere: Elsewhere
  metrics: Metrics
  upkeep: Upkeep
  stats: Stats
  status: Status
  log: Logger
  now: () => number
  clock: Clock
  version: string
}>

export type RunningServer = Readonly<{
  url: string
  /** Where only `/in/*` and hubs are served; null when that was not asked for. */
  publicUrl: string | null
  stop(): Promise<void>
}>

const stopMs = 3_000

/** Listens and serves the API until it is stopped. */
export async function openServer(parts: ServerParts, timeouts: Partial<Timeouts> = {}): Promise<RunningServer> {
  const { config } = parts
  let isStopping = false
  const keys = new Keys(parts.store, { tenantMax: config.tenantKeysMax })
  parts.dispatcher.membership.listen({ onRegistry: () => keys.refresh() })
  await keys.load()
  const { app, stream, publicServer } = openPorts(parts, keys, { timeouts, isStopping: () => isStopping })
  parts.metrics.watch({
    inFlight: () => parts.dispatcher.load().inFlight,
    queued: () => parts.dispatcher.load().queued,
    intakeWaitingBytes: () => parts.intake.waitingBytes,
    storeWritable: () => parts.store.health().writable,
  })
  const close = async () => {
    isStopping = true
    stream.stop()
    await Promise.all([closeWithin(app.server, stopMs), closeWithin(publicServer, stopMs)])
    await app.close()
  }
  let stopped: Promise<void> | null = null
  const stop = () => {
    stopped ??= close()
    return stopped
  }
  try {
    await app.ready()
    const { host, port, publicHost, publicPort } = config
    const url = await listenAt(app.server, { host, port, setting: 'POSTHORN_PORT' })
    const place = publicPort !== null && { host: publicHost, port: publicPort, setting: 'POSTHORN_PUBLIC_PORT' }
    return { url, publicUrl: place ? await listenAt(publicServer, place) : null, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

export type PortSettings = Readonly<{ timeouts: Partial<Timeouts>; isStopping: () => boolean }>

/** What both ports serve. The public one has `/in/*` and hubs alone: whatever else is asked for does not exist. */
export function openPorts(parts: ServerParts, keys: Keys, { timeouts, isStopping }: PortSettings) {
  const { config, intake } = parts
  const access = accessBy(config.apiKey, (key) => keys.find(key))
  const stream = new Stream({ ...parts, keys, access, tenantMax: config.tenantStreamsMax })
  // Two: who sends to a source need not say who they are, and must not be able to keep out those who have a key.
  const pace = new BodyPace(timeouts.bodyWindow)
  const bodies = new BodyBudget(config.requestBytesMax, pace)
  const inboundBodies = new BodyShares(new BodyBudget(config.requestBytesMax, pace))
  const fail = (request: IncomingMessage, response: ServerResponse, error: unknown) => {
    const { problem, requestId } = reported(parts, request, error)
    sendProblem(response, problem, requestId)
  }
  const hotPath = openHotPath({ intake, access, bodies, eventBytesMax: config.eventBytesMax, fail })
  const inboundPath = openInboundPath({ ...parts, bodies: inboundBodies, fail })
  const { relays, dispatcher } = parts
  const refresh = dispatcher.membership.isShared ? () => relays.refresh() : null
  const upgrades = openRelayPath({ ...parts, find: (key) => relays.find(key), refresh, isStopping })
  const limited = (serve: (request: IncomingMessage, response: ServerResponse) => void) =>
    boundedServer({ timeouts, connectionsMax: config.connectionsMax, upgrades }, (request, response) => {
      if (request.url?.startsWith('/') === false) toOriginForm(request)
      // A server that is stopping wants its connections back.
      if (isStopping()) response.setHeader('connection', 'close')
      serve(request, response)
    })
  const mount = (others: (request: IncomingMessage, response: ServerResponse) => void) =>
    limited((request, response) => {
      if (!hotPath(request, response) && !inboundPath(request, response)) others(request, response)
    })
  const publicServer = limited((request, response) => {
    const detail = 'There is nothing here but the sources, and what hubs connect to.'
    if (!inboundPath(request, response)) fail(request, response, new Problem('not_found', detail))
  }).on('clientError', answerBrokenRequest)
  const resting = { access, lookUp: idLookup(parts, keys), bodies, mount, reported: reported.bind(null, parts) }
  const { app, api } = openRest(resting, (api) => addRoutes(api, parts, { keys, stream, isStopping }))
  return { app, api, stream, publicServer }
}

/**
 * A request target may name the server too (`GET http://host/path`, as sent to a proxy). Its host is then the one that
 * counts, whatever the Host header says (RFC 9112, 3.2.2).
 */
function toOriginForm(request: IncomingMessage): void {
  const [, host, rest = ''] = /^https?:\/\/([^/?#]*)([^#]*)/i.exec(request.url ?? '') ?? []
  if (host === undefined) return
  request.headers.host = host
  request.url = rest.startsWith('/') ? rest : `/${rest}`
}

type RouteSettings = Readonly<{ keys: Keys; stream: Stream; isStopping: () => boolean }>

function addRoutes(api: Api, parts: ServerParts, { keys, stream, isStopping }: RouteSettings): void {
  eventRoutes(api, parts)
  streamRoute(api, stream)
  endpointRoutes(api, parts)
  sourceRoutes(api, parts)
  for (const facts of inboundFacts(parts.config.eventBytesMax)) api.describe(facts)
  relayRoutes(api, parts)
  relayPathRoute(api)
  deliveryRoutes(api, parts)
  deadLetterRoutes(api, parts)
  replayRoutes(api, parts)
  breakerRoutes(api, parts)
  keyRoutes(api, parts, keys)
  upkeepRoutes(api, parts)
  memberRoutes(api, parts)
  statusRoutes(api, parts)
  systemRoutes(api, parts, isStopping)
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
