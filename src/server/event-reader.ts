import type { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import { headerProblem } from '../core/headers.ts'
import { hopsHeader, hopsIn } from '../core/hops.ts'
import { sentTypeProblem } from '../core/routing.ts'
import { type EventInput, idempotencyKeptMs, tenantScope } from '../intake/intake.ts'
import { type Member, type Range, stringAt, valueAt } from '../intake/json-scan.ts'
import { contentEncodingOf, plainValue } from './json.ts'
import { type FieldError, Problem, validationProblem } from './problem.ts'
import {
  closedObject,
  fieldErrors,
  headers,
  key,
  keyProblem,
  readHeaders,
  says,
  sentType,
  tenant,
  tenantProblem,
} from './schemas.ts'

/** What `POST /v1/events` takes. `data` is any JSON and travels as bytes, so that the schema only asks for its presence. */
export const eventSchema = closedObject({
  type: sentType,
  data: z.unknown().refine((data) => data !== undefined, { error: says('is required') }),
  key: key.nullish(),
  tenant: tenant.optional(),
  headers,
  idempotencyKey: key.nullish(),
})

export type ReadEvent = Readonly<{
  type: string
  /** null: the sender named none. */
  tenant: string | null
  key: string | null
  headers: Readonly<Record<string, string>>
  data: Range
  idempotencyKey: string | null
}>

/** The event that these members are, or every wrong field: what is wrong is told by the schema itself. */
export function readEvent(bytes: Buffer, members: readonly Member[]): ReadEvent | readonly FieldError[] {
  return eventIn(bytes, members) ?? errorsOf(bytes, members)
}

/**
 * The event that these members are; null when something is wrong. This is the way of every event, so it does by hand
 * what `eventSchema` says. A property test keeps the two of one mind.
 */
export function eventIn(bytes: Buffer, members: readonly Member[]): ReadEvent | null {
  let type: string | null = null
  let data: Member | null = null
  let eventKey: string | null = null
  let eventTenant: string | null = null
  let eventHeaders: Readonly<Record<string, string>> = noHeaders
  let idempotencyKey: string | null = null
  let isGood = true
  for (const member of members) {
    const text = member.key === 'data' ? null : stringAt(bytes, member)
    switch (member.key) {
      case 'type':
        type = text
        isGood &&= text !== null && isEventType(text)
        break
      case 'data':
        data = member
        break
      case 'key':
        eventKey = text
        isGood &&= text === null ? isNull(bytes, member) : keyProblem(text) === null
        break
      case 'idempotencyKey':
        idempotencyKey = text
        isGood &&= text === null ? isNull(bytes, member) : keyProblem(text) === null
        break
      case 'tenant':
        eventTenant = text ?? ''
        isGood &&= tenantProblem(eventTenant) === null
        break
      case 'headers': {
        const found = readHeaders(plainValue(bytes, member))
        eventHeaders = found.headers
        isGood &&= found.errors.length === 0
        break
      }
      default:
        return null
    }
  }
  if (!isGood || type === null || data === null) return null
  return { type, tenant: eventTenant, key: eventKey, headers: eventHeaders, data, idempotencyKey }
}

/** What the schema says to the same members. */
export function errorsOf(bytes: Buffer, members: readonly Member[]): readonly FieldError[] {
  const fields = Object.fromEntries(
    members.map((member) => [member.key, member.key === 'data' ? true : valueAt(bytes, member)]),
  )
  const parsed = eventSchema.safeParse(fields)
  return parsed.success ? [] : fieldErrors(parsed.error.issues)
}

/** Senders have few types and many events: a type that was good once is good. */
const goodTypes = new Set<string>()
const goodTypesMax = 1_000

export function isEventType(type: string): boolean {
  if (goodTypes.has(type)) return true
  if (sentTypeProblem(type) !== null) return false
  if (goodTypes.size >= goodTypesMax) goodTypes.clear()
  goodTypes.add(type)
  return true
}

const noHeaders: Readonly<Record<string, string>> = Object.freeze({})

function isNull(bytes: Buffer, { start }: Range): boolean {
  return bytes[start] === 0x6e
}

/** The part of a request that is the same for every event in it. */
export type RequestFacts = Readonly<{
  idempotencyKey: string | null
  traceparent: string | null
  /** How many Posthorns it has passed; 0: it comes from elsewhere. */
  hops: number
}>

export function requestFacts(headers: IncomingHttpHeaders): RequestFacts {
  const idempotencyKey = headers['idempotency-key']
  const traceparent = headers.traceparent
  const hops = headers[hopsHeader]
  if (idempotencyKey === undefined && traceparent === undefined && hops === undefined) return noFacts
  return {
    idempotencyKey: idempotencyKeyOf(idempotencyKey),
    traceparent: traceparentOf(traceparent),
    hops: hopsIn(hops),
  }
}

const noFacts: RequestFacts = { idempotencyKey: null, traceparent: null, hops: 0 }

function idempotencyKeyOf(value: string | string[] | undefined): string | null {
  if (value === undefined) return null
  const text = String(value)
  const problem = keyProblem(text)
  if (problem !== null) throw validationProblem([{ path: 'Idempotency-Key', message: problem }])
  return text
}

/** W3C Trace Context; what is not valid is left out, as the recommendation says. */
function traceparentOf(value: string | string[] | undefined): string | null {
  const text = String(value ?? '')
  const isValid = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(text)
  return isValid ? text : null
}

/** What says how to read bytes that are sent on as they came, beside their content type. */
export function contentHeaders(headers: IncomingHttpHeaders): Readonly<Record<string, string>> {
  const encoding = contentEncodingOf(headers)
  if (encoding === null) return noHeaders
  const problem = headerProblem('content-encoding', encoding)
  if (problem !== null) throw validationProblem([{ path: 'Content-Encoding', message: problem }])
  return { 'content-encoding': encoding }
}

type SentEvent = Omit<EventInput, 'idempotency' | 'request'>

/** An event's own headers, and what the request says of the way that it came. */
export function withOrigin(
  headers: EventInput['headers'],
  { traceparent, hops }: Pick<RequestFacts, 'traceparent' | 'hops'>,
): EventInput['headers'] {
  const isTraced = traceparent !== null && headers.traceparent === undefined
  if (!isTraced && hops === 0) return headers
  return { ...headers, ...(isTraced && { traceparent }), ...(hops > 0 && { [hopsHeader]: String(hops) }) }
}

/** The event as the intake takes it. Its way here is no part of its fingerprint: a repeat has one of its own. */
export function inputOf(event: SentEvent, facts: RequestFacts): EventInput {
  const { idempotencyKey } = facts
  const idempotency =
    idempotencyKey === null
      ? null
      : {
          scope: tenantScope(event.tenant),
          key: idempotencyKey,
          fingerprint: fingerprintOf(event),
          keptMs: idempotencyKeptMs,
        }
  return { ...event, headers: withOrigin(event.headers, facts), idempotency, request: null }
}

/** The key in the header and the one in the event must not contradict each other. */
export function agreedKey(inHeader: string | null, inEvent: string | null): string | null {
  if (inHeader !== null && inEvent !== null && inHeader !== inEvent) {
    const message = 'is not the same as the Idempotency-Key header'
    throw validationProblem([{ path: 'idempotencyKey', message }])
  }
  return inHeader ?? inEvent
}

/** By W3C Trace Context, and as CloudEvents carries it. */
const ofTrace: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'ce-traceparent', 'ce-tracestate'])

function fingerprintOf({ type, tenant, key, headers, content }: SentEvent): string {
  const sorted = Object.entries(headers)
    .filter(([name]) => !ofTrace.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const raw = content.kind === 'raw' ? content.type : null
  const head = JSON.stringify([type, tenant, key, sorted, raw, hash('sha256', content.bytes, 'hex')])
  return hash('sha256', head, 'hex')
}

export function keyReused(errors: readonly FieldError[]): Problem {
  const detail = 'The idempotency key was used in the last 24 hours for another event; nothing was kept.'
  return new Problem('idempotency_key_reused', detail, { errors })
}
