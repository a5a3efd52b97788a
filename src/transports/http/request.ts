import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { HttpEndpoint } from '../../core/endpoint.ts'
import type { Event } from '../../core/event.ts'
import { headerProblem, isHeaderText } from '../../core/headers.ts'
import { hopsHeader, hopsOf } from '../../core/hops.ts'
import { parseSecret, signatureHeader } from '../../core/signature.ts'
import { standardHmac } from '../../hmac.ts'
import type { Parcel } from '../transport.ts'
import { Pieces, pieceBytes } from './pieces.ts'

/** What all requests to an endpoint share, worked out once. */
export type Route =
  | Readonly<{ problem: string }>
  | Readonly<{
      problem: null
      origin: string
      /** Whether the connection encrypts, and so copies what it is handed. */
      isSecure: boolean
      path: string
      /** Names in lower case and values, in turns, as undici takes them: the endpoint's own and our fixed ones. */
      headers: readonly string[]
      ownNames: ReadonlySet<string>
      /** Whether what a source kept of its request, the query and the headers, is sent on. */
      forwards: boolean
      keys: readonly Key[]
    }>

type Key = Readonly<{ bytes: Uint8Array; expiresAt: number | null }>
type UsableRoute = Extract<Route, { problem: null }>

export type Request = Readonly<
  Pick<Dispatcher.DispatchOptions, 'path' | 'method' | 'body'> & { origin: string; headers: string[] }
>

export function routeOf(endpoint: HttpEndpoint, userAgent: string): Route {
  const url = httpUrl(endpoint.url)
  if (typeof url === 'string') return { problem: url }
  const fixed = { 'user-agent': userAgent, 'accept-encoding': 'identity' }
  const own = sendable(endpoint.headers)
  const headers = { ...fixed, ...own }
  return {
    problem: null,
    origin: url.origin,
    isSecure: url.protocol === 'https:',
    path: url.pathname + url.search,
    headers: Object.entries(headers).flat(),
    ownNames: new Set(Object.keys(headers)),
    forwards: endpoint.forwardHeaders,
    keys: endpoint.secrets.flatMap(({ secret, expiresAt }) => {
      const bytes = parseSecret(secret)
      return bytes === null ? [] : [{ bytes, expiresAt }]
    }),
  }
}

/** The URL, or what is wrong with it. */
export function httpUrl(text: string): URL | string {
  const url = URL.parse(text)
  if (url === null) return 'the URL is not valid'
  return url.protocol === 'https:' || url.protocol === 'http:' ? url : 'only http and https URLs can be reached'
}

/** The request of one try. The body is the event's own bytes, never a copy. */
export function requestOf(route: UsableRoute, parcel: Parcel): Request {
  const { event } = parcel
  const headers = headersBefore(route, event)
  const timestampS = Math.floor(parcel.sentAt / 1_000)
  headers.push('webhook-id', event.id, 'webhook-timestamp', String(timestampS))
  const keys = keysAt(route.keys, parcel.sentAt)
  if (keys.length > 0) {
    headers.push(
      'webhook-signature',
      signatureHeader(standardHmac, keys, { id: event.id, timestampS, body: event.body }),
    )
  }
  headers.push('posthorn-delivery', parcel.deliveryId, 'posthorn-attempt', String(parcel.attempt))
  headers.push(hopsHeader, String(hopsOf(event.headers) + 1))
  headers.push('posthorn-event-type', isHeaderText(event.type) ? event.type : encodeURIComponent(event.type))
  const body = route.isSecure && event.body.length > pieceBytes ? inPieces(event.body, headers) : event.body
  return { origin: route.origin, path: pathOf(route, event), method: 'POST', headers, body }
}

/** With its length told, so that it goes out as it is and not in chunks. undici takes what its types leave out. */
function inPieces(body: Uint8Array, headers: string[]): Readable {
  headers.push('content-length', String(body.length))
  return new Pieces(body) as unknown as Readable
}

function pathOf(route: UsableRoute, event: Event): string {
  if (!route.forwards || event.request === null || event.request.query === '') return route.path
  // As it came, but for what a request line cannot carry.
  const query = event.request.query.toWellFormed().replace(/[^\x21\x22\x24-\x7e]/gu, encodeURIComponent)
  return `${route.path}${route.path.includes('?') ? '&' : '?'}${query}`
}

function keysAt(keys: readonly Key[], at: number): readonly Uint8Array[] {
  const valid: Uint8Array[] = []
  for (const key of keys) if (key.expiresAt === null || key.expiresAt > at) valid.push(key.bytes)
  return valid
}

/** Everything but the headers that are ours alone. Of two with the same name, the more specific wins: event, endpoint, default, source. */
function headersBefore(route: UsableRoute, event: Event): string[] {
  const contentType = isHeaderText(event.contentType) ? event.contentType : 'application/octet-stream'
  const own = hasNames(event.headers) ? sendable(event.headers) : none
  const headers: string[] = []
  if (own['content-type'] === undefined && !route.ownNames.has('content-type')) {
    headers.push('content-type', contentType)
  }
  for (let i = 0; i < route.headers.length; i += 2) {
    const name = route.headers[i] ?? ''
    if (own === none || own[name] === undefined) headers.push(name, route.headers[i + 1] ?? '')
  }
  if (own !== none) headers.push(...Object.entries(own).flat())
  if (route.forwards && event.request !== null) {
    for (const [name, value] of Object.entries(sendable(event.request.headers))) {
      const isTaken = name === 'content-type' || route.ownNames.has(name) || own[name] !== undefined
      if (!isTaken) headers.push(name, value)
    }
  }
  return headers
}

const none: Readonly<Record<string, string>> = Object.freeze(Object.create(null))

/** Stored headers were checked when they came in; they are checked again, since a rule may be younger than the row. */
function sendable(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const kept: Record<string, string> = Object.create(null)
  for (const [name, value] of Object.entries(headers)) {
    if (headerProblem(name, value) === null) kept[name.toLowerCase()] = value
  }
  return kept
}

function hasNames(record: Readonly<Record<string, string>>): boolean {
  for (const _ in record) return true
  return false
}
