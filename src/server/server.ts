import { Buffer } from 'node:buffer'
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'
import { PosthornError } from '../core/errors.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { IdSource } from '../intake/ids.ts'
import type { Intake } from '../intake/intake.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'
import type { Metrics } from '../upkeep/metrics.ts'
import { accessBy } from './auth.ts'
import { hotPathUrl, openHotPath } from './hot-path.ts'
import { headersOf, Problem, problemFor, sendProblem } from './problem.ts'
import { Api, type RouteFacts } from './route.ts'
import { deliveryRoutes } from './routes/deliveries.ts'
import { endpointRoutes } from './routes/endpoints.ts'
import { eventRoutes } from './routes/events.ts'
import { systemRoutes } from './routes/system.ts'

export type ServerParts = Readonly<{
  config: Config
  store: Store
  intake: Intake
  ids: IdSource
  catalogue: Catalogue
  dispatcher: Dispatcher
  refusal: (url: string) => Promise<string | null>
  metrics: Metrics
  log: Logger
  now: () => number
  version: string
}>

export type RunningServer = Readonly<{ url: string; stop(): Promise<void> }>

const secondMs = 1_000
/** A client that takes longer than this to say what it wants is cut off. */
const limits = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10 * secondMs,
  requestTimeout: 30 * secondMs,
  connectionsCheckingInterval: 2 * secondMs,
  keepAliveTimeout: 65 * secondMs,
}
export type Timeouts = Pick<typeof limits, 'headersTimeout' | 'requestTimeout' | 'connectionsCheckingInterval'>
const bodyBytesMax = 256 * 1024
const pathLengthMax = 16 * 1024
const stopMs = 3 * secondMs

/** Listens and serves the API until it is stopped. */
export async function openServer(parts: ServerParts, timeouts: Partial<Timeouts> = {}): Promise<RunningServer> {
  const { config } = parts
  let isStopping = false
  const app = openApp(parts, { ...limits, ...timeouts }, () => isStopping)
  parts.metrics.watch({
    inFlight: () => parts.dispatcher.load().inFlight,
    queued: () => parts.dispatcher.load().queued,
    intakeWaitingBytes: () => parts.intake.waitingBytes,
    storeWritable: () => parts.store.health().writable,
  })
  await listen(app, config)
  let stopped: Promise<void> | null = null
  return {
    url: urlOf(app.server),
    stop() {
      isStopping = true
      stopped ??= closeWithin(app, stopMs)
      return stopped
    },
  }
}

function openApp(parts: ServerParts, options: ServerOptions, isStopping: () => boolean): FastifyInstance {
  const { config, intake } = parts
  const access = accessBy(config.apiKey, () => null)
  const fail = (request: IncomingMessage, response: ServerResponse, error: unknown) => {
    const { problem, requestId } = reported(parts, request, error)
    sendProblem(response, problem, requestId)
  }
  const answerError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { problem, requestId } = reported(parts, request.raw, error)
    // As bytes, because fastify would add a charset to text, and JSON has none.
    return reply
      .code(problem.status)
      .headers(headersOf(problem))
      .send(Buffer.from(problem.body(requestId)))
  }
  const hotPath = openHotPath({ intake, access, eventBytesMax: config.eventBytesMax, fail })
  const app = fastify({
    logger: false,
    bodyLimit: bodyBytesMax,
    routerOptions: { maxParamLength: pathLengthMax },
    genReqId: () => '',
    frameworkErrors: answerError,
    clientErrorHandler: answerBrokenRequest,
    serverFactory: (others) =>
      createServer(options, (request, response) => {
        // A server that is stopping wants its connections back.
        if (isStopping()) response.setHeader('connection', 'close')
        if (request.method === 'POST' && isHot(request.url)) hotPath(request, response)
        else others(request, response)
      }),
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  app.setErrorHandler(answerError)
  const api = new Api(app, access)
  eventRoutes(api, parts)
  endpointRoutes(api, parts)
  deliveryRoutes(api, parts)
  systemRoutes(api, parts, isStopping)
  refuseOthers(app, api.routes)
  return app
}

function isHot(url: string | undefined): boolean {
  return url === hotPathUrl || url?.startsWith(`${hotPathUrl}?`) === true
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

/** What matches no route: the path is unknown, or it is known with other methods. */
function refuseOthers(app: FastifyInstance, routes: readonly RouteFacts[]): void {
  const known = routes.map(({ method, url }) => {
    const pattern = new RegExp(`^${url.replace(/:\w+/g, '[^/]+')}$`)
    return { methods: method === 'GET' ? ['GET', 'HEAD'] : [method], pattern }
  })
  app.setNotFoundHandler((request) => {
    const path = request.url.split('?')[0] ?? ''
    const methods = new Set(known.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))
    if (methods.size === 0) throw new Problem('not_found', `There is no ${path.slice(0, 200)} here.`)
    const allow = [...methods].sort().join(', ')
    throw new Problem('method_not_allowed', `${request.method} is not offered here, only ${allow}.`, {
      headers: { allow },
    })
  })
}

/** What is no HTTP, or too slow, or too large in its headers, never becomes a request. */
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const problem = brokenRequestProblem(error)
  const body = problem.body()
  const headers = { ...headersOf(problem), 'content-length': Buffer.byteLength(body), connection: 'close' }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${problem.status} ${problem.code}\r\n${head.join('')}\r\n${body}`)
  // Not only our half: a client that keeps its own open would keep the connection.
  socket.destroySoon()
}

function brokenRequestProblem(error: NodeJS.ErrnoException): Problem {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 'The request did not arrive in time.')
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('headers_too_large', `The headers are larger than ${limits.maxHeaderSize} bytes.`)
    default:
      return new Problem('malformed_request', 'This is not an HTTP request.')
  }
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<void> {
  try {
    await app.listen({ host, port })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    await app.close()
    if (code === 'EADDRINUSE') {
      const detail = `Port ${port} on ${host} is in use; stop what listens there or set POSTHORN_PORT to another.`
      throw new PosthornError('conflict', detail, { cause })
    }
    throw new PosthornError('config_invalid', `Cannot listen on ${host} port ${port}: ${message}.`, { cause })
  }
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}

/** Lets open requests finish, but not for ever. */
async function closeWithin(app: FastifyInstance, ms: number): Promise<void> {
  const closing = app.close()
  const patience = new AbortController()
  const cut = wait(ms, undefined, { signal: patience.signal, ref: false }).then(
    () => app.server.closeAllConnections(),
    () => {},
  )
  await closing
  patience.abort()
  await cut
}
