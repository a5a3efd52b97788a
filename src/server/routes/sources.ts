import type { FastifyInstance, FastifyRequest } from 'fastify'
import { PosthornError } from '../../core/errors.ts'
import { providers, type Source } from '../../core/source.ts'
import { newSecret } from '../endpoint-schema.ts'
import { readObject } from '../json.ts'
import { notFound, validationProblem } from '../problem.ts'
import { choice, closedQuery, read, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import {
  changedSource,
  changeProblems,
  newSource,
  rotatedSource,
  rotationProblem,
  sourceRotationSchema,
  sourceSchemas,
  sourceShown,
} from '../source-schema.ts'

const listQuery = closedQuery({ tenant: tenant.optional(), provider: choice(providers).optional() })

export function sourceRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { config, sources, ids, now } = parts
  const schemas = sourceSchemas(config.eventBytesMax)

  app.post('/v1/sources', async (request, reply) => {
    const creation = read(schemas.creation, bodyOf(request))
    const source = newSource(creation, ids.next('src', now()), config.eventBytesMax, now())
    await sources.add(source)
    return reply
      .code(201)
      .header('cache-control', 'no-store')
      .send({ ...sourceShown(source), secret: secretOf(source) })
  })

  app.get('/v1/sources', async (request) => {
    const query = read(listQuery, request.query)
    const names = ['tenant', 'provider'] as const
    const items = sources.list().filter((source) => {
      return names.every((name) => query[name] === undefined || query[name] === source[name])
    })
    return { items: items.map(sourceShown), next: null }
  })

  app.get('/v1/sources/:id', async (request) => sourceShown(known(parts, request)))

  app.patch('/v1/sources/:id', async (request) => {
    const source = known(parts, request)
    const change = read(schemas.change, bodyOf(request))
    const problems = changeProblems(source, change)
    if (problems.length > 0) throw validationProblem(problems)
    return sourceShown(await updated(parts, source.id, (before) => changedSource(before, change, now())))
  })

  app.delete('/v1/sources/:id', async (request, reply) => {
    const { id } = known(parts, request)
    if (!(await sources.remove(id))) throw notFound('source', id)
    return reply.code(204).send()
  })

  secretRoutes(app, parts)
}

function secretRoutes(app: FastifyInstance, parts: ServerParts): void {
  app.get('/v1/sources/:id/secret', async (request, reply) => {
    reply.header('cache-control', 'no-store')
    return { secret: secretOf(known(parts, request)) }
  })

  app.post('/v1/sources/:id/rotate-secret', async (request, reply) => {
    const source = known(parts, request)
    const { keepOldFor, secret } = read(sourceRotationSchema, bodyOf(request, false))
    if (source.provider === 'none') {
      throw new PosthornError('conflict', 'A source of the provider none has no secret that could be rotated.')
    }
    const message = rotationProblem(source, secret)
    if (message !== null) throw validationProblem([{ path: 'secret', message }])
    const rotated = await updated(parts, source.id, (before) => {
      return rotatedSource(before, secret ?? newSecret(), keepOldFor, parts.now())
    })
    reply.header('cache-control', 'no-store')
    return { ...sourceShown(rotated), secret: secretOf(rotated) }
  })
}

function bodyOf(request: FastifyRequest, needed = true): unknown {
  return readObject(request.body, request.headers['content-type'], needed)
}

/** By its id or its name. */
function known({ sources }: ServerParts, request: FastifyRequest): Source {
  const { id } = request.params as { id: string }
  const source = sources.get(id)
  if (source === null) throw notFound('source', id)
  return source
}

async function updated(parts: ServerParts, id: string, change: (source: Source) => Source): Promise<Source> {
  const source = await parts.sources.update(id, change)
  if (source === null) throw notFound('source', id)
  return source
}

function secretOf({ secrets }: Source): string | null {
  return secrets[0]?.secret ?? null
}
