import { Buffer } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { type Caller, mayAct } from '../../core/api-key.ts'
import { type Endpoint, endpointKinds, endpointStatuses } from '../../core/endpoint.ts'
import { kindFacts } from '../../core/endpoint-kinds.ts'
import {
  attemptAnswer,
  endpointAnswer,
  endpointChanged,
  endpointCreated,
  endpointWithSecret,
  pageOf,
  secretAnswer,
} from '../answers.ts'
import { changedEndpoint, changeProblems, endpointSchemas, newEndpoint, rotationSchema } from '../endpoint-schema.ts'
import { endpointShown } from '../endpoint-shown.ts'
import { absence, deletionProblem, endpointWarnings, targetProblems } from '../endpoint-target.ts'
import { readMembers } from '../json.ts'
import { idPaging, pageById } from '../paging.ts'
import { notFound, Problem, validationProblem } from '../problem.ts'
import type { Api } from '../route.ts'
import { choice, closedObject, closedQuery, eventType, idParam, tenant } from '../schemas.ts'
import type { Scope } from '../scope.ts'
import { newSecret, rotated, secretOf } from '../secrets.ts'
import type { ServerParts } from '../server.ts'
import { attemptShown, conditionShown } from '../shown.ts'
import { TryOuts } from '../try-outs.ts'

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
  const shown: Shown = (endpoint, { role }) => ({
    ...endpointShown(endpoint, { showHeaders: mayAct(role, 'admin') }),
    condition: conditionShown(parts.dispatcher.conditionOf(endpoint.id)),
  })
  changeRoutes(api, parts, shown)
  readRoutes(api, parts, shown)
  statusRoutes(api, parts, shown)
  secretRoutes(api, parts, shown)
  testRoute(api, parts)
}

type Shown = (endpoint: Endpoint, caller: Caller) => object

function changeRoutes(api: Api, parts: ServerParts, shown: Shown): void {
  const { presets, catalogue, ids, now } = parts
  const schemas = endpointSchemas(presets)

  api.route({
    method: 'POST',
    url: '/v1/endpoints',
    name: 'createEndpoint',
    summary: 'Say where events go; the answer has the signing secret',
    tag: 'endpoints',
    role: 'admin',
    body: { kind: 'json', schema: schemas.creation, example: creationExample },
    responses: { 201: endpointCreated },
    problems: ['conflict'],
    handler: async ({ scope, caller, body, reply }) => {
      const tenant = scope.owner(body.tenant)
      await refuseTarget(parts, scope, tenant, body)
      const endpoint = newEndpoint({ ...body, tenant }, ids.next('ep', now()), presets, now())
      await catalogue.add(endpoint)
      reply.header('cache-control', 'no-store')
      const warnings = endpointWarnings(endpoint, catalogue.list())
      return { ...shown(endpoint, caller), secret: secretOf(endpoint), warnings }
    },
  })

  api.route({
    ...about,
    method: 'PATCH',
    url: '/v1/endpoints/:id',
    name: 'changeEndpoint',
    summary: 'Change the fields that are named; the rest stays',
    body: { kind: 'json', schema: schemas.change, example: { concurrency: 2, types: ['order.*'] } },
    responses: { 200: endpointChanged },
    handler: async ({ scope, caller, params: { id }, body }) => {
      const before = known(parts, scope, id)
      const problems = changeProblems(before, body)
      if (problems.length > 0) throw validationProblem(problems)
      await refuseTarget(parts, scope, before.tenant, body)
      const after = await updated(parts, id, (endpoint) => changedEndpoint(endpoint, body, now()))
      return { ...shown(after, caller), warnings: endpointWarnings(after, catalogue.list()) }
    },
  })

  api.route({
    ...about,
    method: 'DELETE',
    url: '/v1/endpoints/:id',
    name: 'deleteEndpoint',
    summary: 'Delete it; what waits for it fails with reason endpoint_deleted',
    responses: { 204: null },
    problems: ['conflict'],
    handler: async ({ scope, params: { id } }) => {
      const problem = deletionProblem(known(parts, scope, id), parts.dispatcher)
      if (problem !== null) throw new Problem('conflict', problem)
      if (!(await catalogue.remove(id))) throw notFound('endpoint', id)
    },
  })
}

const creationExample = {
  kind: 'http',
  url: 'https://shop.example/hooks',
  types: ['order.*'],
  ordering: 'key',
  retry: 'webhook',
}

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
    handler: ({ scope, caller, query: { limit, cursor, ...query } }) => {
      const wanted = Object.entries({ ...query, ...scope.filter(query.tenant) })
      const matching = parts.catalogue
        .list()
        .filter((endpoint) => wanted.every(([name, value]) => endpoint[name as keyof typeof query] === value))
      const page = pageById(matching, { limit, ...(cursor !== undefined && { cursor }) })
      return { items: page.items.map((endpoint) => shown(endpoint, caller)), next: page.next }
    },
  })

  api.route({
    ...about,
    method: 'GET',
    url: '/v1/endpoints/:id',
    name: 'getEndpoint',
    summary: 'An endpoint, without its secrets; the values of its headers are for admins alone',
    role: 'read',
    responses: { 200: endpointAnswer },
    handler: ({ scope, caller, params: { id } }) => shown(known(parts, scope, id), caller),
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
      handler: async ({ scope, caller, params: { id } }) => {
        known(parts, scope, id)
        const changed = await updated(parts, id, (endpoint) => ({ ...endpoint, ...status, updatedAt: parts.now() }))
        return shown(changed, caller)
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
    problems: ['conflict'],
    handler: ({ scope, params: { id }, reply }) => {
      reply.header('cache-control', 'no-store')
      return { secret: secretOf(signing(parts, scope, id)) }
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
    problems: ['conflict'],
    handler: async ({ scope, caller, params: { id }, body, reply }) => {
      signing(parts, scope, id)
      const { keepOldFor, secret = newSecret() } = body
      const after = await updated(parts, id, (endpoint) => rotated(endpoint, secret, keepOldFor, parts.now()))
      reply.header('cache-control', 'no-store')
      return { ...shown(after, caller), secret: secretOf(after) }
    },
  })
}

function testRoute(api: Api, parts: ServerParts): void {
  const tryOuts = new TryOuts(parts)
  api.route({
    ...about,
    method: 'POST',
    url: '/v1/endpoints/:id/test',
    name: 'testEndpoint',
    summary: 'Make one try now, without retries; nothing is kept',
    body: { kind: 'json', schema: testSchema, optional: true, example: { type: 'order.created', data: { id: 1 } } },
    responses: { 200: attemptAnswer },
    problems: ['conflict', 'limit_reached'],
    handler: async ({ scope, params: { id }, body, bytes, headers }) => {
      const endpoint = known(parts, scope, id)
      const absent = absence(parts, endpoint)
      if (absent !== null) throw new Problem('conflict', absent)
      const content = { type: body.type, data: dataIn(bytes, headers) }
      return attemptShown(await tryOuts.run(endpoint, scope.tenant, content))
    },
  })
}

/** `data` is cut out as bytes, as it is from an event. */
function dataIn(bytes: Buffer, headers: IncomingHttpHeaders): Uint8Array {
  const members = bytes.length === 0 ? [] : readMembers(bytes, headers)
  const data = members.find((member) => member.key === 'data')
  return data === undefined ? Buffer.from('{"test":true}') : bytes.subarray(data.start, data.end)
}

function known({ catalogue }: ServerParts, scope: Scope, id: string): Endpoint {
  return scope.found(catalogue.get(id), 'endpoint', id)
}

function signing(parts: ServerParts, scope: Scope, id: string): Endpoint {
  const endpoint = known(parts, scope, id)
  if (kindFacts[endpoint.kind].signs) return endpoint
  throw new Problem('conflict', `The endpoint ${id} is a handler, and has no secret: nothing leaves this process.`)
}

async function updated(parts: ServerParts, id: string, change: (endpoint: Endpoint) => Endpoint): Promise<Endpoint> {
  const endpoint = await parts.catalogue.update(id, change)
  if (endpoint === null) throw notFound('endpoint', id)
  return endpoint
}

async function refuseTarget(
  parts: ServerParts,
  scope: Scope,
  tenant: string,
  target: Parameters<typeof targetProblems>[2],
): Promise<void> {
  const problems = await targetProblems(parts, tenant, target, { isOperator: scope.tenant === null })
  if (problems.length > 0) throw validationProblem(problems)
}
