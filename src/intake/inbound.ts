import { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import type { InboundRequestFacts } from '../core/event.ts'
import type { Source } from '../core/source.ts'
import { keyFrom, typeFrom } from '../core/type-template.ts'
import { type InboundHead, type InboundRequest, inboundRequest } from './inbound-request.ts'
import type { EventInput } from './intake.ts'
import { answerToGet } from './providers/handshake.ts'
import { providerRules } from './providers/providers.ts'
import type { Handshake, Refusal } from './providers/verification.ts'
import type { SourceEntry } from './sources.ts'

export type Inbound = Readonly<{ kind: 'event'; input: EventInput }> | Handshake | Refusal

const dayMs = 24 * 60 * 60 * 1000
/** How long a source knows a provider's event id: longer than any of them tries again. */
export const eventIdKeptMs = 7 * dayMs
const keyBytesMax = 255

/** What the request is, now that its body is there. */
export type BodyReader = (body: Buffer) => Inbound

/**
 * What a request to a source is: an event, a question that is answered at once, or nothing that is to be trusted. What its
 * head tells is told before the body is read.
 */
export function readInbound(
  entry: SourceEntry,
  head: InboundHead,
  now: number,
  headers: EventInput['headers'],
): Handshake | Refusal | BodyReader {
  const { source } = entry
  if (head.method === 'GET') return answerToGet(head.query)
  const check = providerRules[source.provider].check(source, head, now)
  if (typeof check !== 'function') return check
  return (body) => {
    const request = inboundRequest(head, body)
    const verified = check(request)
    if (verified.kind !== 'event') return verified
    return { kind: 'event', input: eventOf(entry, request, verified.eventId, headers) }
  }
}

function eventOf(
  { source, scope, type, key }: SourceEntry,
  request: InboundRequest,
  eventId: string | null,
  headers: EventInput['headers'],
): EventInput {
  const orderingKey = key === null ? null : keyFrom(key, request)
  return {
    type: typeFrom(type, request, source.name),
    tenant: source.tenant,
    key: orderingKey === null ? null : fitting(orderingKey),
    headers,
    content: { kind: 'raw', bytes: request.body, type: request.headers['content-type'] ?? 'application/octet-stream' },
    idempotency: eventId === null || eventId === '' ? null : repeatOf(scope, eventId),
    request: factsOf(source, request),
  }
}

/** The fingerprint is the same for all: a known id is a repeat, whatever its body, for providers change it between tries. */
function repeatOf(scope: string, eventId: string): EventInput['idempotency'] {
  return { scope, key: fitting(eventId), fingerprint: '', keptMs: eventIdKeptMs }
}

/** What is too long to be a key is told apart by its hash. */
function fitting(key: string): string {
  return Buffer.byteLength(key) <= keyBytesMax ? key : `sha256:${hash('sha256', key, 'hex')}`
}

/** Headers that speak to this hop alone, frame the request, or give a right to whoever has them. */
const leftOut: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  'host',
  'cookie',
  'authorization',
  'set-cookie',
])

/** Bounded by what the server takes as the head of a request. */
function factsOf({ name: source, hmac }: Source, { method, query, headers }: InboundRequest): InboundRequestFacts {
  const named = namedByConnection(headers.connection)
  const kept: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined && !leftOut.has(name) && !named.includes(name)) kept[name] = value
  }
  const facts = { source, method, query, headers: kept }
  return hmac === null ? facts : { ...facts, signatureHeader: hmac.header }
}

/** Other headers that speak to this hop alone; most connections name none. */
function namedByConnection(connection: string | undefined): readonly string[] {
  return connection === undefined || connection === 'keep-alive' ? [] : connection.toLowerCase().split(/[ ,]+/)
}
