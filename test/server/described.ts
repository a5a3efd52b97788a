// The API's own description, to hold answers against and to make requests from.
import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Json, Reply } from './served.ts'

export type Operation = Readonly<{
  method: string
  /** As OpenAPI writes it: `/v1/endpoints/{id}`. */
  path: string
  /** Its description; see OpenAPI 3.1. */
  facts: Json
}>

export type Described = Readonly<{
  document: Json
  operations: readonly Operation[]
  /** Fails unless the answer has a code that is described, with a body that fits. */
  check(operation: Operation, reply: Pick<Reply, 'status' | 'headers' | 'text'>): void
  /** Fails unless the value fits what is at this place of the document. */
  fits(place: readonly string[], value: unknown, what: string): void
}>

export function describedBy(document: Json): Described {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(document, 'api')
  const operations = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, facts]) => ({ method: method.toUpperCase(), path, facts })),
  )
  const fits = (place: readonly string[], value: unknown, what: string) => {
    const pointer = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
    const validate = ajv.compile({ $ref: `api#/${pointer}` })
    assert.ok(
      validate(value),
      `${what} is not as described: ${JSON.stringify(validate.errors)}\n${JSON.stringify(value)}`,
    )
  }
  const check = ({ method, path, facts }: Operation, { status, headers, text }: Parameters<Described['check']>[1]) => {
    const what = `${method} ${path} → ${status}`
    const response = facts.responses[status]
    assert.ok(response !== undefined, `${what} is not described: ${text}`)
    if (response.content === undefined) return assert.equal(text, '', what)
    const given = headers.get('content-type')?.split(';')[0] ?? ''
    const type = given in response.content ? given : '*/*'
    const media = response.content[type]
    assert.ok(media !== undefined, `${what} comes as ${given}, which is not described`)
    if (status === 503 || status === 429) assert.match(headers.get('retry-after') ?? '', /^\d+$/, what)
    if (media.schema === undefined) return
    const place = ['paths', path, method.toLowerCase(), 'responses', String(status), 'content', type, 'schema']
    fits(place, type.endsWith('json') ? JSON.parse(text) : text, what)
  }
  return { document, operations, check, fits }
}
