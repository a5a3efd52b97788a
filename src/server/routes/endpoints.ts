import { Buffer } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { type Endpoint, endpointStatuses } from '../../core/endpoint.ts'
import { presets as presetsAsBuilt, processingPolicy } from '../../core/retry-policy.ts'
import {
  changedEndpoint,
  endpointSchemas,
  endpointShown,
  newEndpoint,
  newSecret,
  rotatedEndpoint,
  rotationSchema,
} from '../endpoint-schema.ts'
import { readMembers, readObject } from '../json.ts'
import { notFound, validationProblem } from '../problem.ts'
import type { Presets } from '../retry-schema.ts'
import { choice, closedObject, closedQuery, eventType, idOf, read, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { attemptShown, instant } from '../shown.ts'

const listQuery = closedQuery({
  tenant: tenant.optional(),
  kind: choice(['http']).optional(),
  status: choice(endpointStatuses).optional(),
})
const testSchema = closedObject({ type: eventType.default('posthorn.test'), data: z.unknown().optional() })

export function endpointRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { config, catalogue, ids, now } = parts
  const presets: Presets = { ...presetsAsBuilt, processing: processingPolicy(config) }
  const schemas = endpointSchemas(presets)
  const shown = (endpoint: Endpoint) => {
    const { breaker, heldUntil } = parts.dispatcher.conditionOf(endpoint.id)
    return { ...endpointShown(endpoint), breakerState: breaker.state, heldUntil: instant(heldUntil) }
  }

  app.post('/v1/endpoints', async (request, reply) => {
    const creation = read(schemas.creation, bodyOf(request))
    await refuseAddress(parts, creation.url)
    const endpoint = newEndpoint(creation, ids.next('ep', now()), presets, now())
    await catalogue.put(endpoint)
    return reply.code(201).send({ ...shown(endpoint), secret: secretOf(endpoint) })
  })

  app.get('/v1/endpoints', async (request) => {
    const query = read(listQuery, request.query)
    const names = ['tenant', 'kind', 'status'] as const
    const items = catalogue.list().filter((endpoint) => {
      return names.every((name) => query[name] === undefined || query[name] === endpoint[name])
    })
    return { items: items.map(shown), next: null }
  })

  app.get('/v1/endpoints/:id', async (request) => shown(known(parts, request)))

  app.patch('/v1/endpoints/:id', async (request) => {
    const { id } = known(parts, request)
    const change = read(schemas.change, bodyOf(request))
    if (change.url !== undefined) await refuseAddress(parts, change.url)
    return shown(await updated(parts, id, (endpoint) => changedEndpoint(endpoint, change, now())))
  })

  app.delete('/v1/endpoints/:id', async (request, reply) => {
    const id = idOf(request.params, 'endpoint')
    if (!(await catalogue.remove(id))) throw notFound('endpoint', id)
    return reply.code(204).send()
  })

  statusRoutes(app, parts, shown)
  secretRoutes(app, parts, shown)

  app.post('/v1/endpoints/:id/test', async (request) => {
    const endpoint = known(parts, request)
    return attemptShown(await parts.dispatcher.tryOut(endpoint, testContent(request)))
  })
}

type Shown = (endpoint: Endpoint) => object

function statusRoutes(app: FastifyInstance, parts: ServerParts, shown: Shown): void {
  const statuses = {
    pause: { status: 'paused', statusReason: 'paused by a person' },
    resume: { status: 'active', statusReason: null },
  } as const
  for (const [verb, status] of Object.entries(statuses)) {
    app.post(`/v1/endpoints/:id/${verb}`, async (request) => {
      const { id } = known(parts, request)
      return shown(await updated(parts, id, (endpoint) => ({ ...endpoint, ...status, updatedAt: parts.now() })))
    })
  }
}

function secretRoutes(app: FastifyInstance, parts: ServerParts, shown: Shown): void {
  app.get('/v1/endpoints/:id/secret', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    return { secret: secretOf(known(parts, request)) }
  })

  app.post('/v1/endpoints/:id/rotate-secret', async (request, reply) => {
    const { id } = known(parts, request)
    const { keepOldFor, secret = newSecret() } = read(rotationSchema, bodyOf(request, false))
    const rotated = await updated(parts, id, (endpoint) => rotatedEndpoint(endpoint, secret, keepOldFor, parts.now()))
    reply.header('cache-control', 'no-store')
    return { ...shown(rotated), secret: secretOf(rotated) }
  })
}

function bodyOf(request: FastifyRequest, needed = true): unknown {
  return readObject(request.body, request.headers['content-type'], needed)
}

/** `data` is cut out as bytes, as it is from an event. */
function testContent(request: FastifyRequest): { type: string; data: Uint8Array } {
  const { type } = read(testSchema, bodyOf(request, false))
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  const members = body.length === 0 ? [] : readMembers(body, request.headers['content-type'])
  const data = members.find((member) => member.key === 'data')
  return { type, data: data === undefined ? Buffer.from('{"test":true}') : body.subarray(data.start, data.end) }
}

function known({ catalogue }: ServerParts, request: FastifyRequest): Endpoint {
  const id = idOf(request.params, 'endpoint')
  const endpoint = catalogue.get(id)
  if (endpoint === null) throw notFound('endpoint', id)
  return endpoint
}

async function updated(parts: ServerParts, id: string, change: (endpoint: Endpoint) => Endpoint): Promise<Endpoint> {
  const endpoint = await parts.catalogue.update(id, change)
  if (endpoint === null) throw notFound('endpoint', id)
  return endpoint
}

async function refuseAddress({ refusal }: ServerParts, url: string): Promise<void> {
  const message = await refusal(url)
  if (message !== null) throw validationProblem([{ path: 'url', message }])
}

function secretOf(endpoint: Endpoint): string | null {
  return endpoint.secrets[0]?.secret ?? null
}
