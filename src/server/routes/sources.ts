import { z } from 'zod'
import { providers, type Source } from '../../core/source.ts'
import { pageOf, sourceAnswer, sourceSecretAnswer, sourceWithSecret } from '../answers.ts'
import { idPaging, pageById } from '../paging.ts'
import { notFound, Problem, validationProblem } from '../problem.ts'
import type { Api } from '../route.ts'
import { choice, closedQuery, tenant } from '../schemas.ts'
import type { Scope } from '../scope.ts'
import { newSecret, rotated, secretOf } from '../secrets.ts'
import type { ServerParts } from '../server.ts'
import {
  changedSource,
  changeProblems,
  newSource,
  rotationProblem,
  sourceRotationSchema,
  sourceSchemas,
  sourceShown,
} from '../source-schema.ts'

const listQuery = closedQuery({
  tenant: tenant.exactOptional(),
  provider: choice(providers).exactOptional(),
  ...idPaging('src'),
})
const params = { id: z.string().meta({ description: 'The id of the source, or its name.' }) }
const about = { tag: 'sources', role: 'admin', params } as const

export function sourceRoutes(api: Api, parts: ServerParts): void {
  changeRoutes(api, parts)
  readRoutes(api, parts)
  secretRoutes(api, parts)
}

function changeRoutes(api: Api, parts: ServerParts): void {
  const { config, sources, ids, now } = parts
  const schemas = sourceSchemas(config.eventBytesMax)

  api.route({
    method: 'POST',
    url: '/v1/sources',
    name: 'createSource',
    summary: 'Say where events come from; the answer has the path for the provider',
    tag: 'sources',
    role: 'admin',
    body: { kind: 'json', schema: schemas.creation, example: creationExample },
    responses: { 201: sourceWithSecret },
    problems: ['conflict'],
    handler: async ({ scope, body, reply }) => {
      const tenant = scope.owner(body.tenant)
      const source = newSource({ ...body, tenant }, ids.next('src', now()), config.eventBytesMax, now())
      await sources.add(source)
      reply.header('cache-control', 'no-store')
      return { ...sourceShown(source), secret: secretOf(source) }
    },
  })

  api.route({
    ...about,
    method: 'PATCH',
    url: '/v1/sources/:id',
    name: 'changeSource',
    summary: 'Change the fields that are named; the rest stays',
    body: { kind: 'json', schema: schemas.change, example: { type: 'github.{x-github-event}.{$.action?}' } },
    responses: { 200: sourceAnswer },
    handler: async ({ scope, params: { id }, body }) => {
      const source = known(parts, scope, id)
      const problems = changeProblems(source, body)
      if (problems.length > 0) throw validationProblem(problems)
      return sourceShown(await updated(parts, source.id, (before) => changedSource(before, body, now())))
    },
  })

  api.route({
    ...about,
    method: 'DELETE',
    url: '/v1/sources/:id',
    name: 'deleteSource',
    summary: 'Delete it; its address is a 404 from now on, its events stay',
    responses: { 204: null },
    handler: async ({ scope, params: { id } }) => {
      if (!(await sources.remove(known(parts, scope, id).id))) throw notFound('source', id)
    },
  })
}

const creationExample = { name: 'github-main', provider: 'github', secret: 'the secret of the webhook at GitHub' }

function readRoutes(api: Api, parts: ServerParts): void {
  api.route({
    method: 'GET',
    url: '/v1/sources',
    name: 'listSources',
    summary: 'Sources, oldest first',
    tag: 'sources',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(sourceAnswer) },
    handler: ({ scope, query: { limit, cursor, ...query } }) => {
      const wanted = Object.entries({ ...query, ...scope.filter(query.tenant) })
      const matching = parts.sources
        .list()
        .filter((source) => wanted.every(([name, value]) => source[name as keyof typeof query] === value))
      const page = pageById(matching, { limit, ...(cursor !== undefined && { cursor }) })
      return { items: page.items.map(sourceShown), next: page.next }
    },
  })

  api.route({
    ...about,
    method: 'GET',
    url: '/v1/sources/:id',
    name: 'getSource',
    summary: 'A source, without its secrets',
    role: 'read',
    responses: { 200: sourceAnswer },
    handler: ({ scope, params: { id } }) => sourceShown(known(parts, scope, id)),
  })
}

function secretRoutes(api: Api, parts: ServerParts): void {
  api.route({
    ...about,
    method: 'GET',
    url: '/v1/sources/:id/secret',
    name: 'getSourceSecret',
    summary: 'The secret that its provider signs with',
    responses: { 200: sourceSecretAnswer },
    handler: ({ scope, params: { id }, reply }) => {
      reply.header('cache-control', 'no-store')
      return { secret: secretOf(known(parts, scope, id)) }
    },
  })

  api.route({
    ...about,
    method: 'POST',
    url: '/v1/sources/:id/rotate-secret',
    name: 'rotateSourceSecret',
    summary: 'Take a new secret, and for a while the old one too',
    body: { kind: 'json', schema: sourceRotationSchema, optional: true, example: { keepOldFor: '24h' } },
    responses: { 200: sourceWithSecret },
    problems: ['conflict'],
    handler: async ({ scope, params: { id }, body, reply }) => {
      const source = known(parts, scope, id)
      if (source.provider === 'none') throw new Problem('conflict', 'A source of the provider none has no secret.')
      const { keepOldFor, secret } = body
      const message = rotationProblem(source, secret)
      if (message !== null) throw validationProblem([{ path: 'secret', message }])
      const after = await updated(parts, source.id, (before) => {
        return rotated(before, secret ?? newSecret(), keepOldFor, parts.now())
      })
      reply.header('cache-control', 'no-store')
      return { ...sourceShown(after), secret: secretOf(after) }
    },
  })
}

/** By its id or its name. */
function known({ sources }: ServerParts, scope: Scope, id: string): Source {
  return scope.found(sources.get(id), 'source', id)
}

async function updated(parts: ServerParts, id: string, change: (source: Source) => Source): Promise<Source> {
  const source = await parts.sources.update(id, change)
  if (source === null) throw notFound('source', id)
  return source
}
