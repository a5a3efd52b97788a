import { Buffer } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { type Endpoint, endpointKinds, endpointStatuses } from '../../core/endpoint.ts'
import { presets as presetsAsBuilt, processingPolicy } from '../../core/retry-policy.ts'
import { attemptAnswer, endpointAnswer, endpointWithSecret, pageOf, secretAnswer } from '../answers.ts'
import {
  changedEndpoint,
  endpointSchemas,
  endpointShown,
  newEndpoint,
  newSecret,
  rotatedEndpoint,
  rotationSchema,
} from '../endpoint-schema.ts'
import { readMembers } from '../json.ts'
import { idPaging, pageById } from '../paging.ts'
import { notFound, validationProblem } from '../problem.ts'
import type { Presets } from '../retry-schema.ts'
import type { Api } from '../route.ts'
import { choice, closedObject, closedQuery, eventType, idParam, tenant } from '../schemas.ts'
import type { Scope } from '../scope.ts'
import type { ServerParts } from '../server.ts'
import { attemptShown, conditionShown } from '../shown.ts'

const listQuery = closedQuery({
  tenant: tenant.exactOptional(),
  kind: choice(endpointKinds).exactOptional(),
  status: choice(endpointStatuses).exactOptional(),
  ...idPaging('ep'),
})
const testSchema = closedObject({ type: eventType.default('posthorn.test'), data: z.unknown().optional() })
const params = { id: idParam('endpoint', 'ep') }
const about = { tag: 'endpoints', role: 'admin', params } as const

export function endpointRoutes(api: Api, parts: ServerParts): void {
  const shown = (endpoint: Endpoint) => {
    return { ...endpointShown(endpoint), condition: conditionShown(parts.dispatcher.conditionOf(endpoint.id)) }
  }
  changeRoutes(api, parts, shown)
  readRoutes(api, parts, shown)
  statusRoutes(api, parts, shown)
  secretRoutes(api, parts, shown)
  testRoute(api, parts)
}

type Shown = (endpoint: Endpoint) => object

function changeRoutes(api: Api, parts: ServerParts, shown: Shown): void {
  const { config, catalogue, ids, now } = parts
  const presets: Presets = { ...presetsAsBuilt, processing: processingPolicy(config) }
  const schemas = endpointSchemas(presets)

  api.route({
    method: 'POST',
    url: '/v1/endpoints',
    name: 'createEndpoint',
    summary: 'Say where events go; the answer has the signing secret',
    tag: 'endpoints',
    role: 'admin',
    body: { kind: 'json', schema: schemas.creation, example: creationExample },
    responses: { 201: endpointWithSecret },
    handler: async ({ scope, body }) => {
      const tenant = scope.owner(body.tenant)
      await refuseAddress(parts, body.url)
      const endpoint = newEndpoint({ ...body, tenant }, ids.next('ep', now()), presets, now())
      await catalogue.put(endpoint)
      return { ...shown(endpoint), secret: secretOf(endpoint) }
    },
  })

  api.route({
    ...about,
    method: 'PATCH',
    url: '/v1/endpoints/:id',
    name: 'changeEndpoint',
    summary: 'Change the fields that are named; the rest stays',
    body: { kind: 'json', schema: schemas.change, example: { concurrency: 2, types: ['order.*'] } },
    responses: { 200: endpointAnswer },
    handler: async ({ scope, params: { id }, body }) => {
      known(parts, scope, id)
      if (body.url !== undefined) await refuseAddress(parts, body.url)
      return shown(await updated(parts, id, (endpoint) => changedEndpoint(endpoint, body, now())))
    },
  })

  api.route({
    ...about,
    method: 'DELETE',
    url: '/v1/endpoints/:id',
    name: 'deleteEndpoint',
    summary: 'Delete it; what waits for it fails with reason endpoint_deleted',
    responses: { 204: null },
    handler: async ({ scope, params: { id } }) => {
      known(parts, scope, id)
      if (!(await catalogue.remove(id))) throw notFound('endpoint', id)
    },
  })
}

const creationExample = { url: 'https://shop.example/hooks', types: ['order.*'], ordering: 'key', retry: 'webhook' }

function readRoutes(api: Api, parts: ServerParts, shown: Shown): void {
  api.route({
    method: 'GET',
    url: '/v1/endpoints',
    name: 'listEndpoints',
    summary: 'Endpoints, oldest first',
    tag: 'endpoints',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(endpointAnswer) },
    handler: ({ scope, query: { limit, cursor, ...query } }) => {
      const wanted = Object.entries({ ...query, ...scope.filter(query.tenant) })
      const matching = parts.catalogue
        .list()
        .filter((endpoint) => wanted.every(([name, value]) => endpoint[name as keyof typeof query] === value))
      const page = pageById(matching, { limit, ...(cursor !== undefined && { cursor }) })
      return { items: page.items.map(shown), next: page.next }
    },
  })

  api.route({
    ...about,
    method: 'GET',
    url: '/v1/endpoints/:id',
    name: 'getEndpoint',
    summary: 'An endpoint, without its secrets',
    role: 'read',
    responses: { 200: endpointAnswer },
    handler: ({ scope, params: { id } }) => shown(known(parts, scope, id)),
  })
}

function statusRoutes(api: Api, parts: ServerParts, shown: Shown): void {
  const verbs = [
    ['pause', 'Hold its deliveries back; they wait', { status: 'paused', statusReason: 'paused by a person' }],
    ['resume', 'Deliver again', { status: 'active', statusReason: null }],
  ] as const
  for (const [verb, summary, status] of verbs) {
    api.route({
      ...about,
      method: 'POST',
      url: `/v1/endpoints/:id/${verb}`,
      name: `${verb}Endpoint`,
      summary,
      responses: { 200: endpointAnswer },
      handler: async ({ scope, params: { id } }) => {
        known(parts, scope, id)
        return shown(await updated(parts, id, (endpoint) => ({ ...endpoint, ...status, updatedAt: parts.now() })))
      },
    })
  }
}

function secretRoutes(api: Api, parts: ServerParts, shown: Shown): void {
  api.route({
    ...about,
    method: 'GET',
    url: '/v1/endpoints/:id/secret',
    name: 'getEndpointSecret',
    summary: 'The signing secret',
    responses: { 200: secretAnswer },
    handler: ({ scope, params: { id }, reply }) => {
      reply.header('cache-control', 'no-store')
      return { secret: secretOf(known(parts, scope, id)) }
    },
  })

  api.route({
    ...about,
    method: 'POST',
    url: '/v1/endpoints/:id/rotate-secret',
    name: 'rotateEndpointSecret',
    summary: 'Sign with a new secret, and for a while with the old one too',
    body: { kind: 'json', schema: rotationSchema, optional: true, example: { keepOldFor: '24h' } },
    responses: { 200: endpointWithSecret },
    handler: async ({ scope, params: { id }, body, reply }) => {
      known(parts, scope, id)
      const { keepOldFor, secret = newSecret() } = body
      const rotated = await updated(parts, id, (endpoint) => rotatedEndpoint(endpoint, secret, keepOldFor, parts.now()))
      reply.header('cache-control', 'no-store')
      return { ...shown(rotated), secret: secretOf(rotated) }
    },
  })
}

function testRoute(api: Api, parts: ServerParts): void {
  api.route({
    ...about,
    method: 'POST',
    url: '/v1/endpoints/:id/test',
    name: 'testEndpoint',
    summary: 'Make one try now, without retries; nothing is kept',
    body: { kind: 'json', schema: testSchema, optional: true, example: { type: 'order.created', data: { id: 1 } } },
    responses: { 200: attemptAnswer },
    handler: async ({ scope, params: { id }, body, bytes, headers }) => {
      const endpoint = known(parts, scope, id)
      const content = { type: body.type, data: dataIn(bytes, headers) }
      return attemptShown(await parts.dispatcher.tryOut(endpoint, content))
    },
  })
}

/** `data` is cut out as bytes, as it is from an event. */
function dataIn(bytes: Buffer, headers: IncomingHttpHeaders): Uint8Array {
  const members = bytes.length === 0 ? [] : readMembers(bytes, headers['content-type'])
  const data = members.find((member) => member.key === 'data')
  return data === undefined ? Buffer.from('{"test":true}') : bytes.subarray(data.start, data.end)
}

function known({ catalogue }: ServerParts, scope: Scope, id: string): Endpoint {
  return scope.found(catalogue.get(id), 'endpoint', id)
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
