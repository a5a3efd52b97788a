import type { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { valueAt } from '../intake/json-scan.ts'
import { readMembers } from './json.ts'
import { type FieldError, validationProblem } from './problem.ts'
import { headersMax, keyBytesMax, sentType } from './schemas.ts'

/** The context of a CloudEvent 1.0: what Posthorn needs, and all of it as headers (`ce-…`) that travel along. */
export type CloudEvent = Readonly<{
  type: string
  /** Source and id: together they name an event, as CloudEvents has it. */
  idempotencyKey: string
  partitionKey: string | null
  headers: Readonly<Record<string, string>>
}>

const structuredType = /^application\/cloudevents\+json *(?:;|$)/i
const required = ['specversion', 'id', 'source', 'type'] as const
const attributeName = /^[a-z0-9]{1,20}$/
const valueLengthMax = 4_096

const attributeFacts = { type: ['string', 'number', 'boolean', 'null'], maxLength: valueLengthMax }
const attribute = z.unknown().meta(attributeFacts)

/** A CloudEvent in structured mode, for the description of the API. */
export const structuredEvent = z
  .object({
    specversion: z.literal('1.0'),
    id: z.string().min(1).max(valueLengthMax),
    source: z.string().min(1).max(valueLengthMax),
    type: sentType,
    data: z.unknown().optional(),
    data_base64: z.unknown().optional(),
    datacontenttype: attribute.optional(),
    dataschema: attribute.optional(),
  })
  .meta({
    id: 'CloudEvent',
    description: 'CloudEvents 1.0. Every other attribute has a name of 1 to 20 letters and digits.',
    // All but those that begin with a d, and the four above that do.
    patternProperties: { '^[a-ce-z0-9][a-z0-9]{0,19}$': attributeFacts },
    maxProperties: headersMax,
    additionalProperties: false,
  })

/** The CloudEvent that this request is; null when it is none. Throws a problem when it is a broken one. */
export function cloudEventOf(headers: IncomingHttpHeaders, body: Buffer): CloudEvent | null {
  const contentType = headers['content-type'] ?? ''
  if (contentType !== 'application/json' && structuredType.test(contentType)) return structured(headers, body)
  return headers['ce-specversion'] === undefined && headers['ce-id'] === undefined ? null : binary(headers)
}

function binary(headers: IncomingHttpHeaders): CloudEvent {
  const attributes = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith('ce-')) attributes.set(name.slice(3), String(value))
  }
  return checked(attributes, 'ce-', (value) => value)
}

function structured(headers: IncomingHttpHeaders, body: Buffer): CloudEvent {
  const attributes = new Map<string, string>()
  for (const member of readMembers(body, headers)) {
    if (member.key === 'data' || member.key === 'data_base64') continue
    const value = valueAt(body, member)
    if (isRequired(member.key) && typeof value !== 'string') {
      throw validationProblem([{ path: member.key, message: 'must be a text' }])
    }
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      attributes.set(member.key, String(value))
    } else if (value !== null) {
      throw validationProblem([{ path: member.key, message: 'must be a text, a number or a boolean' }])
    }
  }
  return checked(attributes, '', percentEncoded)
}

function isRequired(name: string): boolean {
  return required.some((word) => word === name)
}

function checked(attributes: Map<string, string>, prefix: string, encode: (value: string) => string): CloudEvent {
  const errors: FieldError[] = []
  for (const name of required) {
    if (!attributes.get(name)) errors.push({ path: `${prefix}${name}`, message: 'is required in a CloudEvent' })
  }
  const version = attributes.get('specversion')
  if (version && version !== '1.0') errors.push({ path: `${prefix}specversion`, message: 'must be 1.0' })
  if (attributes.size > headersMax) errors.push({ path: '', message: `has more than ${headersMax} attributes` })
  const encoded = [...attributes].map(([name, value]) => [`ce-${name}`, encode(value), name] as const)
  for (const [, value, name] of encoded) {
    if (!attributeName.test(name)) errors.push({ path: `${prefix}${name}`, message: 'is not the name of an attribute' })
    else if (value.length > valueLengthMax) errors.push({ path: `${prefix}${name}`, message: 'is too long' })
  }
  if (errors.length > 0) throw validationProblem(errors)
  return {
    type: attributes.get('type') ?? '',
    idempotencyKey: keyOf(attributes.get('source') ?? '', attributes.get('id') ?? ''),
    partitionKey: attributes.get('partitionkey') ?? null,
    headers: Object.fromEntries(encoded.map(([name, value]) => [name, value])),
  }
}

function keyOf(source: string, id: string): string {
  const key = `ce:${JSON.stringify([source, id])}`
  return key.length * 3 <= keyBytesMax ? key : `ce:${hash('sha256', key, 'hex')}`
}

/** As CloudEvents' HTTP binding wants it: everything but visible ASCII, and the quote and percent sign. */
function percentEncoded(value: string): string {
  return value.replace(/[^\x21-\x7e]|["%]/gu, (char) => {
    const bytes = new TextEncoder().encode(char)
    return [...bytes].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
  })
}
