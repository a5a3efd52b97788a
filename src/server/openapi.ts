import { z } from 'zod'
import { problemShown } from './answers.ts'
import { descriptions } from './descriptions.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import { type ProblemCode, problemStatus } from './problem.ts'
import { type AnswerSpec, type BodySpec, type RouteFacts, tags } from './route.ts'

type Components = Record<string, JsonSchema>

/** The API in the words of OpenAPI 3.1, made from what its routes say of themselves. */
export function openApiDocument(routes: readonly RouteFacts[], version: string): object {
  const components: Components = {}
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    // A WebSocket is nothing that OpenAPI has words for.
    if (Object.keys(route.responses).every((status) => Number(status) < 200)) continue
    const path = route.url.replace(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operationOf(route, components)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Posthorn',
      version,
      description: 'Accepts events, keeps them, and delivers each one: with retries, order and dead letters.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    security: [{ key: [] }],
    paths,
    components: {
      schemas: components,
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'POSTHORN_API_KEY, or a kept key.' } },
    },
  }
}

function operationOf(route: RouteFacts, components: Components): object {
  const { name, summary, tag, role, tenants = 'own', body } = route
  return {
    operationId: name,
    summary,
    description: descriptions[name],
    tags: [tag],
    ...(role === null ? { security: [] } : { 'x-posthorn-role': role, 'x-posthorn-tenants': tenants }),
    parameters: parametersOf(route, components),
    ...(body !== undefined && { requestBody: requestBodyOf(body, components) }),
    responses: responsesOf(route, components),
  }
}

function parametersOf({ params = {}, query, takesKey }: RouteFacts, components: Components): object[] {
  const inPath = Object.entries(params).map(([name, schema]) => ({
    name,
    in: 'path',
    required: true,
    schema: schemaIn(components, schema, 'input'),
  }))
  const inQuery = Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaIn(components, schema as z.ZodType, 'input'),
  }))
  return [...inPath, ...inQuery, ...(takesKey === true ? [idempotencyKey] : [])]
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'The same request again within 24 hours answers with the first event.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

function requestBodyOf(body: BodySpec, components: Components): object {
  const example = body.example === undefined ? {} : { example: body.example }
  if (body.kind === 'json') {
    const schema = schemaIn(components, body.schema, 'input')
    return { required: body.optional !== true, content: { 'application/json': { schema, ...example } } }
  }
  const content = Object.entries(body.content).map(([type, schema], index) => {
    return [type, { ...mediaOf(schema, components, 'input'), ...(index === 0 && example) }]
  })
  return {
    // Any bytes may be none at all.
    required: !('*/*' in body.content),
    description: `At most ${body.bytesMax} bytes.`,
    content: Object.fromEntries(content),
  }
}

/** Any bytes have no schema, as OpenAPI 3.1 wants it. */
function mediaOf(schema: z.ZodType | null, components: Components, io: 'input' | 'output'): object {
  return schema === null ? {} : { schema: schemaIn(components, schema, io) }
}

function responsesOf(route: RouteFacts, components: Components): object {
  const problemSchema = schemaIn(components, problemShown, 'output')
  const problems = Map.groupBy(problemsOf(route), problemStatus)
  const refused = [...problems].map(([status, codes]) => [
    status,
    {
      description: codes.join(', '),
      ...(status === 503 && { headers: { 'Retry-After': { schema: { type: 'string' } } } }),
      content: { 'application/problem+json': { schema: problemSchema } },
    },
  ])
  const answered = Object.entries(route.responses).map(([status, answer]) => {
    return [status, { description: descriptionOf(Number(status)), ...contentOf(answer, components) }]
  })
  return mergedContent(Object.fromEntries(refused), Object.fromEntries(answered))
}

/** A status may be an answer of the route's own and a problem: then it has both contents. */
function mergedContent(problems: Record<string, object>, answers: Record<string, object>): object {
  const merged: Record<string, object> = { ...problems }
  for (const [status, answer] of Object.entries(answers)) {
    const problem = problems[status] as { content: object } | undefined
    const own = answer as { content?: object }
    merged[status] = problem === undefined ? own : { ...problem, content: { ...own.content, ...problem.content } }
  }
  return merged
}

function descriptionOf(status: number): string {
  switch (status) {
    case 201:
      return 'Created'
    case 202:
      return 'Accepted'
    case 204:
      return 'Done'
    default:
      return status < 300 ? 'Here it is' : 'Not now'
  }
}

function contentOf(answer: AnswerSpec, components: Components): object {
  if (answer === null) return {}
  if (answer instanceof z.ZodType) return { content: { 'application/json': mediaOf(answer, components, 'output') } }
  const media = Object.entries(answer.content).map(([type, schema]) => [type, mediaOf(schema, components, 'output')])
  return { content: Object.fromEntries(media) }
}

/** What a route of this form can answer with besides a success. */
function problemsOf({ role, params, query, body, method, problems = [], tenants }: RouteFacts): Set<ProblemCode> {
  const codes: ProblemCode[] = ['malformed_request', 'request_timeout', 'headers_too_large', 'internal', 'overloaded']
  if (role !== null) codes.push('unauthorized', 'forbidden')
  if (params !== undefined || tenants !== undefined || query?.shape.tenant !== undefined) codes.push('not_found')
  // A short id in the path may begin several.
  if (query !== undefined || params !== undefined) codes.push('validation')
  if (method !== 'GET') codes.push('too_large', 'shutting_down', 'store_unavailable', 'store_full')
  if (body !== undefined) codes.push('malformed_json', 'unsupported_media_type', 'validation', 'not_found')
  if (body?.kind === 'bytes') codes.push('idempotency_key_reused', 'intake_full')
  return new Set([...codes, ...problems])
}

const definitions = '#/$defs/'

/** The schema, with what has a name of its own moved to the components. */
function schemaIn(components: Components, schema: z.ZodType, io: 'input' | 'output'): unknown {
  const { $defs = {}, ...whole } = jsonSchemaOf(schema, io)
  for (const [name, definition] of Object.entries($defs as Components)) {
    components[name] = pointed(definition) as JsonSchema
  }
  return pointed(whole)
}

function pointed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pointed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const isReference = name === '$ref' && typeof inner === 'string' && inner.startsWith(definitions)
      if (isReference) return [name, `#/components/schemas/${inner.slice(definitions.length)}`]
      return [name, pointed(inner)]
    }),
  )
}
