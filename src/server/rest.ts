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
