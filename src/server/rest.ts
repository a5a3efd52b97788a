import { Buffer } from 'node:buffer'
import type { RequestListener, Server, ServerResponse } from 'node:http'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Access } from './auth.ts'
import { announcedProblem, type BodyBudget, BodyReading } from './body-reader.ts'
import { answerBrokenRequest } from './listening.ts'
import { headersOf, Problem } from './problem.ts'
import { Api, type RouteFacts } from './route.ts'
import type { IdLookup } from './short-ids.ts'

const bodyBytesMax = 256 * 1024
const pathLengthMax = 16 * 1024

declare module 'fastify' {
  interface FastifyRequest {
    /** Where the answer goes; null until the body is about to be read. */
    response: ServerResponse | null
  }
}

export type RestParts = Readonly<{
  access: Access
  lookUp: IdLookup
  bodies: BodyBudget
  /** What a thrown error is for the client; logs what is our own mistake. */
  reported: (request: FastifyRequest['raw'], error: unknown) => Readonly<{ problem: Problem; requestId?: string }>
  /** The server that what fastify serves is mounted in. */
  mount: (serve: RequestListener) => Server
}>

/** The API but for its hottest paths: fastify, with our own way to read bodies and to tell problems. */
export function openRest(
  { access, lookUp, bodies, reported, mount }: RestParts,
  addRoutes: (api: Api) => void,
): Readonly<{ app: FastifyInstance; api: Api }> {
  const answerError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { problem, requestId } = reported(request.raw, error)
    // As bytes, because fastify would add a charset to text, and JSON has none.
    return reply
      .code(problem.status)
      .headers(headersOf(problem))
      .send(Buffer.from(problem.body(requestId)))
  }
  const app = fastify({
    logger: false,
    bodyLimit: bodyBytesMax,
    routerOptions: { maxParamLength: pathLengthMax },
    genReqId: () => '',
    frameworkErrors: answerError,
    clientErrorHandler: answerBrokenRequest,
    serverFactory: mount,
  })
  readBodies(app, bodies)
  app.setErrorHandler(answerError)
  const api = new Api(app, access, lookUp)
  addRoutes(api)
  refuseOthers(app, api.routes)
  return { app, api }
}

/** Every body is bytes for its route to read, and counted against what all of them may hold. */
function readBodies(app: FastifyInstance, bodies: BodyBudget): void {
  app.decorateRequest('response', null)
  app.addHook('preParsing', (request, reply, _, done) => {
    request.response = reply.raw
    done()
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (request, _, done) => {
    const { raw, response, routeOptions } = request
    const bytesMax = routeOptions.bodyLimit ?? bodyBytesMax
    const refused = announcedProblem(raw, bytesMax)
    if (refused !== null || response === null) return done(refused)
    new BodyReading({ request: raw, response }, bytesMax, bodies, (body) => {
      if (body instanceof Problem) done(body)
      else done(null, body)
    })
  })
}

/**
 * What is not offered: the path is unknown, or it is known with other methods. Told before a body is read. A path that
 * is written out wins over one with parameters: `/v1/events/batch` is no event.
 */
function refuseOthers(app: FastifyInstance, routes: readonly RouteFacts[]): void {
  const methodsOf = ({ method }: RouteFacts) => (method === 'GET' ? ['GET', 'HEAD'] : [method])
  const written = Map.groupBy(
    routes.filter(({ url }) => !url.includes(':')),
    ({ url }) => url,
  )
  const patterns = routes.map((route) => ({ route, pattern: new RegExp(`^${route.url.replace(/:\w+/g, '[^/]+')}$`) }))
  app.addHook('onRequest', (request, _, done) => {
    const path = request.url.split('?', 1)[0] ?? ''
    const exact = written.get(path)
    if (!request.is404 && exact === undefined) return done()
    const found = exact ?? patterns.filter(({ pattern }) => pattern.test(path)).map(({ route }) => route)
    const methods = new Set(found.flatMap(methodsOf))
    if (methods.has(request.method)) return done()
    if (methods.size === 0) return done(new Problem('not_found', `There is no ${path.slice(0, 200)} here.`))
    const allow = [...methods].sort().join(', ')
    const detail = `${request.method} is not offered here, only ${allow}.`
    done(new Problem('method_not_allowed', detail, { headers: { allow } }))
  })
}
