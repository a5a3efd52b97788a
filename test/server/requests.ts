// Requests made from the description of the API: right ones, wrong ones, and right ones with something wrong in them.
import fc from 'fast-check'
import type { Described, Operation } from './described.ts'
import type { Json } from './served.ts'

export type Asked = Readonly<{
  path: string
  query: Readonly<Record<string, string>>
  headers: Readonly<Record<string, string>>
  body: string | undefined
}>

/** Values that fit a JSON Schema, as far as our own description uses it. */
export function fitting(schema: Json, document: Json, depth = 0): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) {
    const name = String(schema.$ref).split('/').at(-1) ?? ''
    return fitting(document.components.schemas[name], document, depth)
  }
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.anyOf !== undefined || schema.oneOf !== undefined) {
    return fc.oneof(...(schema.anyOf ?? schema.oneOf).map((form: Json) => fitting(form, document, depth)))
  }
  if (Array.isArray(schema.type)) {
    return fc.oneof(...schema.type.map((type: string) => fitting({ ...schema, type }, document, depth)))
  }
  switch (schema.type) {
    case 'string':
      return text(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 1_000, 100_000) })
    case 'number':
      return fc.double({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000, noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(fitting(schema.items ?? {}, document, depth + 1), {
        minLength: schema.minItems ?? 0,
        maxLength: 4,
      })
    case 'object':
      return object(schema, document, depth)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

function text(schema: Json): fc.Arbitrary<string> {
  const examples = schema.examples?.length > 0 ? [fc.constantFrom(...schema.examples)] : []
  // Names of sources look ahead, which no generator can.
  const isPlain = schema.pattern !== undefined && !schema.pattern.includes('(?')
  if (isPlain) return fc.oneof(...examples, fc.stringMatching(new RegExp(schema.pattern)))
  const durations = fc.constantFrom('5s', '250ms', '1h', '2026-01-31T12:00:00Z')
  const any = fc.string({ minLength: schema.minLength ?? 0, maxLength: Math.min(schema.maxLength ?? 40, 400) })
  return fc.oneof(...examples, durations, any)
}

function object(schema: Json, document: Json, depth: number): fc.Arbitrary<unknown> {
  const properties = Object.entries<Json>(schema.properties ?? {})
  const shape = Object.fromEntries(properties.map(([name, inner]) => [name, known(name, inner, document, depth)]))
  const own = fc.record(shape, { requiredKeys: (schema.required ?? []).filter((name: string) => name in shape) })
  if (typeof schema.additionalProperties !== 'object') return own
  const names = schema.propertyNames?.pattern ? fc.stringMatching(new RegExp(schema.propertyNames.pattern)) : headerName
  return fc.dictionary(names, fitting(schema.additionalProperties, document, depth + 1), { maxKeys: 3 })
}

const headerName = fc.stringMatching(/^x-[a-z]{1,8}$/)

/** An address that is made up would be looked up in the DNS. */
function known(name: string, schema: Json, document: Json, depth: number): fc.Arbitrary<unknown> {
  return name === 'url' ? fc.constant('http://127.0.0.1:9/hook') : fitting(schema, document, depth + 1)
}

/** A value with something else at one of its places. */
function spoiled(value: unknown, junk: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return junk
  return { ...value, [name]: junk }
}

/** Requests for one operation. `ids` are names of things that exist. */
export function requestsFor(
  { path, facts }: Operation,
  { document }: Described,
  ids: readonly string[],
): fc.Arbitrary<Asked> {
  const parameters: Json[] = facts.parameters ?? []
  const inPath = parameters.filter((parameter) => parameter.in === 'path')
  const inQuery = parameters.filter((parameter) => parameter.in === 'query')
  const part = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...ids) },
    { weight: 1, arbitrary: fc.constantFrom('%', '%zz', '..', 'x'.repeat(300), 'ep_0', 'a b', '%00', 'order.created') },
    { weight: 1, arbitrary: fc.string({ minLength: 1, maxLength: 30 }).map(encoded) },
  )
  const queryValue = (schema: Json) =>
    fc.oneof(
      { weight: 6, arbitrary: fitting(schema, document).map(inUrl) },
      { weight: 1, arbitrary: fc.constantFrom(...ids) },
      { weight: 1, arbitrary: fc.string({ maxLength: 20 }) },
    )
  const query = fc.record(Object.fromEntries(inQuery.map(({ name, schema }) => [name, queryValue(schema)])), {
    requiredKeys: [],
  })
  return fc
    .record({
      parts: fc.array(part, { minLength: inPath.length, maxLength: inPath.length }),
      query,
      content: contentFor(facts, document),
    })
    .map(({ parts, query, content }) => {
      let index = 0
      return { path: path.replace(/\{\w+\}/g, () => parts[index++] ?? ''), query: query as Asked['query'], ...content }
    })
}

/** Objects as JSON: `String` fails on one that has a `toString` of its own. */
function inUrl(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Without halves of surrogate pairs, which no URL can carry. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

function contentFor(facts: Json, document: Json): fc.Arbitrary<Pick<Asked, 'body' | 'headers'>> {
  const content = Object.entries<Json>(facts.requestBody?.content ?? {})
  if (content.length === 0) return fc.constant({ body: undefined, headers: {} })
  const bodies = content.map(([type, { schema = {} }]) => {
    const value = fitting(schema, document)
    const junk = fc.record({ value, junk: fc.jsonValue({ maxDepth: 2 }), name: fc.string({ maxLength: 12 }) })
    const mixed = fc.oneof(
      { weight: 4, arbitrary: value },
      { weight: 2, arbitrary: junk.map(({ value, junk, name }) => spoiled(value, junk, name)) },
    )
    const named = type === '*/*' ? 'application/octet-stream' : type
    return mixed.map((body) => ({
      body: typeof body === 'string' ? body : (JSON.stringify(body) ?? ''),
      headers: { 'content-type': named },
    }))
  })
  const odd = fc.record({
    body: fc.oneof(fc.constantFrom('', '{', '{"a":1,"a":2}', '[]', 'null', '\u0000'), fc.string({ maxLength: 50 })),
    headers: fc.constantFrom<Record<string, string>>(
      { 'content-type': 'application/json' },
      { 'content-type': 'text/plain' },
      { 'content-type': ';;' },
      { 'content-type': 'application/json', 'idempotency-key': 'k' },
      { 'content-type': 'application/cloudevents+json' },
    ),
  })
  return fc.oneof({ weight: 5, arbitrary: fc.oneof(...bodies) }, { weight: 1, arbitrary: odd })
}
