import { Buffer } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { type Caller, mayAct, type Role } from '../core/api-key.ts'
import type { Access } from './auth.ts'
import { readObject } from './json.ts'
import { Problem, type ProblemCode } from './problem.ts'
import { read } from './schemas.ts'
import { Scope } from './scope.ts'
import { type IdLookup, withWholeIds } from './short-ids.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks; null on a route that is open to everybody. */
    caller: Caller | null
  }
  interface FastifyContextConfig {
    open?: boolean
  }
}

export const tags = {
  events: 'Send events, and look at what was sent.',
  endpoints: 'Where events go, and how.',
  deliveries: 'What became of an event at each endpoint: waiting deliveries, attempts and dead letters.',
  sources: 'Where webhooks of providers come in.',
  relays: 'Hubs behind NAT that Posthorn delivers to. They connect by WebSocket at `/v1/relay`.',
  replays: 'Jobs that send dead letters again.',
  keys: 'Who may use the API, and for which tenant.',
  system: 'The server itself: health, status, metrics and upkeep.',
} as const
export type Tag = keyof typeof tags

type Shape = Readonly<Record<string, z.ZodType>>

/** A body that is a JSON object. Without `optional` there has to be one. */
export type JsonBody<S extends z.ZodType = z.ZodType> = Readonly<{
  kind: 'json'
  schema: S
  optional?: boolean
  example?: unknown
}>
/** A body that the handler reads itself, by content type; null stands for any bytes. */
export type BytesBody = Readonly<{
  kind: 'bytes'
  content: Readonly<Record<string, z.ZodType | null>>
  bytesMax: number
  example?: unknown
}>
export type BodySpec = JsonBody | BytesBody

/** What is answered: JSON by its schema, nothing at all (null), or other content (null: any bytes). */
export type AnswerSpec = z.ZodType | null | Readonly<{ content: Readonly<Record<string, z.ZodType | null>> }>

/** What is said about a route, whoever serves it. */
export type RouteFacts = Readonly<{
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** As fastify writes it: `/v1/endpoints/:id`. */
  url: string
  /** The operation's name for those who make clients from the OpenAPI document, like `listEndpoints`. */
  name: string
  summary: string
  /** Whether the header `Idempotency-Key` is for it. */
  takesKey?: boolean
  tag: Tag
  /** Who may call it; null: whoever can reach the port. */
  role: Role | null
  /**
   * `own` (the default): a caller with a tenant gets its own part, by `scope`. `all`: it is about the whole server, and
   * for a caller with a tenant it is not there.
   */
  tenants?: 'own' | 'all'
  /** A text of the path that does not fit is a 404. */
  params?: Shape
  query?: z.ZodObject
  body?: BodySpec
  /** The first is what a handler's answer means unless it sets another code. */
  responses: Readonly<Record<number, AnswerSpec>>
  /** Beside those that any route of its form can answer with. */
  problems?: readonly ProblemCode[]
}>

export type Context<P extends Shape, Q extends z.ZodObject, B extends BodySpec> = Readonly<{
  caller: Caller
  scope: Scope
  params: Readonly<{ [Name in keyof P]: z.output<P[Name]> }>
  query: z.output<Q>
  body: B extends JsonBody<infer S> ? z.output<S> : Buffer
  /** The body as it came; empty when there was none. */
  bytes: Buffer
  headers: IncomingHttpHeaders
  request: FastifyRequest
  reply: FastifyReply
}>

export type Route<P extends Shape, Q extends z.ZodObject, B extends BodySpec> = RouteFacts &
  Readonly<{ params?: P; query?: Q; body?: B; handler: (context: Context<P, Q, B>) => unknown }>

/** For open routes: nobody in particular, who may do nothing else. */
const anybody: Caller = { name: 'anybody', role: 'read', tenant: null }

/**
 * The API as a list of routes. Each is registered with what it takes and answers, so that checking a request, letting
 * a caller in and describing the route (OpenAPI) cannot disagree.
 */
export class Api {
  readonly #app: FastifyInstance
  readonly #lookUp: IdLookup
  readonly #routes: RouteFacts[] = []

  constructor(app: FastifyInstance, access: Access, lookUp: IdLookup) {
    this.#app = app
    this.#lookUp = lookUp
    // What is served but not described would be unknown to clients, and to the tests that go by the description.
    app.addHook('onRoute', ({ method, url }) => {
      const isDescribed = this.#routes.some((route) => route.url === url && fits(route.method, method))
      if (!isDescribed) throw new Error(`${method} ${url} is not described; add it with Api.route`)
    })
    app.decorateRequest('caller', null)
    app.addHook('onRequest', (request, _, done) => {
      if (request.routeOptions.config.open === true) return done()
      const caller = access(request.headers)
      if (caller instanceof Problem) return done(caller)
      request.caller = caller
      done()
    })
  }

  /** All that was described, in the order in which it was. */
  get routes(): readonly RouteFacts[] {
    return this.#routes
  }

  /** Says what is served elsewhere. */
  describe(facts: RouteFacts): void {
    this.#routes.push(facts)
  }

  route<P extends Shape, Q extends z.ZodObject, B extends BodySpec>(route: Route<P, Q, B>): void {
    this.describe(route)
    const { method, url, role, body } = route
    const successCode = Math.min(...Object.keys(route.responses).map(Number))
    this.#app.route({
      method,
      url,
      config: { open: role === null },
      ...(body?.kind === 'bytes' && { bodyLimit: body.bytesMax }),
      onRequest: (request, _, done) => done(refusal(route, request.caller) ?? undefined),
      handler: async (request, reply) => {
        reply.code(successCode)
        const answer = await route.handler(await withWholeIds(contextOf(route, request, reply), this.#lookUp))
        return reply.sent ? reply : reply.send(answer)
      },
    })
  }
}

/** fastify answers HEAD wherever there is a GET. */
function fits(described: string, registered: string | readonly string[]): boolean {
  return registered === described || (registered === 'HEAD' && described === 'GET')
}

/** Why this caller may not use the route; null when it may. Asked before the body is read. */
export function refusal(
  { role, tenants = 'own', url }: Pick<RouteFacts, 'role' | 'tenants' | 'url'>,
  caller: Caller | null,
): Problem | null {
  if (role === null || caller === null) return null
  if (tenants === 'all' && caller.tenant !== null) return new Problem('not_found', `There is no ${url} here.`)
  if (mayAct(caller.role, role)) return null
  const detail = `This needs a key with the role ${role}${role === 'admin' ? '' : ' or admin'}, and yours has the role ${caller.role}.`
  return new Problem('forbidden', detail)
}

function contextOf<P extends Shape, Q extends z.ZodObject, B extends BodySpec>(
  route: Route<P, Q, B>,
  request: FastifyRequest,
  reply: FastifyReply,
): Context<P, Q, B> {
  const { headers } = request
  const caller = request.caller ?? anybody
  const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  return {
    caller,
    scope: new Scope(caller),
    params: readParams(route.params ?? ({} as P), request.params),
    query: (route.query === undefined ? {} : read(route.query, request.query)) as z.output<Q>,
    body: bodyOf(route.body, bytes, headers) as Context<P, Q, B>['body'],
    bytes,
    headers,
    request,
    reply,
  }
}

function bodyOf(body: BodySpec | undefined, bytes: Buffer, headers: IncomingHttpHeaders): unknown {
  if (body?.kind !== 'json') return bytes
  return read(body.schema, readObject(bytes, headers, body.optional !== true))
}

/** What cannot be in a path is simply not found; the schema says so in a sentence. */
function readParams<P extends Shape>(shape: P, params: unknown): Context<P, z.ZodObject, BodySpec>['params'] {
  const given = typeof params === 'object' && params !== null ? (params as Record<string, unknown>) : {}
  const entries = Object.entries(shape).map(([name, schema]) => {
    const parsed = schema.safeParse(given[name])
    if (!parsed.success) throw new Problem('not_found', parsed.error.issues[0]?.message ?? 'There is no such thing.')
    return [name, parsed.data]
  })
  return Object.fromEntries(entries)
}
