import type { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hopsHeader } from '../core/hops.ts'
import type { Source } from '../core/source.ts'
import { type BodyReader, type Inbound, readInbound } from '../intake/inbound.ts'
import { inboundHead, mediaTypeOf } from '../intake/inbound-request.ts'
import type { Acceptance, EventInput, Intake } from '../intake/intake.ts'
import type { Handshake, Refusal } from '../intake/providers/verification.ts'
import type { SourceEntry, Sources } from '../intake/sources.ts'
import type { Logger } from '../log.ts'
import { inboundAccepted } from './answers.ts'
import { announcedProblem, BodyReading } from './body-reader.ts'
import { type BodyShares, networkOf } from './body-shares.ts'
import { contentHeaders, requestFacts, withOrigin } from './event-reader.ts'
import { notFound, Problem } from './problem.ts'
import { RefusalLog } from './refusal-log.ts'
import type { RouteFacts } from './route.ts'
import { sourceName } from './source-schema.ts'

export type InboundPathParts = Readonly<{
  sources: Sources
  intake: Intake
  bodies: BodyShares
  log: Logger
  now: () => number
  /** Answers with the problem that the error is. */
  fail: (request: IncomingMessage, response: ServerResponse, error: unknown) => void
}>

const inboundPrefix = '/in/'
const methods = ['GET', 'POST']
/** The one problem of a body for which the rules of the source have to change. */
const tooLarge = 'too_large'

/** What is served here, for the description of the API. */
export function inboundFacts(bytesMax: number): readonly RouteFacts[] {
  const here = { url: `${inboundPrefix}:source`, tag: 'sources', role: null, params: { source: sourceName } } as const
  return [
    {
      ...here,
      method: 'POST',
      name: 'receiveWebhook',
      summary: 'What a provider calls; its signature is what lets it in',
      body: { kind: 'bytes', content: { '*/*': null }, bytesMax },
      responses: { 202: inboundAccepted, 200: { content: { 'text/plain': null } } },
      problems: ['signature_missing', 'signature_wrong', 'timestamp_stale', 'loop_detected'],
    },
    {
      ...here,
      method: 'GET',
      name: 'answerChallenge',
      summary: 'Says that somebody is there, and gives a challenge back',
      responses: { 200: { content: { 'text/plain': null } } },
    },
  ]
}

/**
 * `/in/:source`, on node's own request and response like the hot path. Answers whether the request was one of its
 * own. It asks for no API key: who may send is what the source's provider signs.
 */
export function openInboundPath(
  parts: InboundPathParts,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  const refusals = new RefusalLog(parts.log, parts.now)
  return (request, response) => {
    const { url = '' } = request
    if (!url.startsWith(inboundPrefix)) return false
    const name = url.slice(inboundPrefix.length).split('?', 1)[0] ?? ''
    const entry = parts.sources.find(name)
    const refused = entry === null ? notFound('source', name) : headProblem(request, entry.source)
    // What is left of the body is read and thrown away by node, so that the client gets to see the answer.
    if (entry !== null && refused?.code === tooLarge) refusals.note(entry.source, tooLarge)
    if (entry === null || refused !== null) parts.fail(request, response, refused)
    else new Visit(parts, refusals, entry, request, response).begin()
    return true
  }
}

/** What can be told before the body is there. */
function headProblem(request: IncomingMessage, { bodyBytesMax, contentTypes }: Source): Problem | null {
  const { method = '', headers } = request
  if (!methods.includes(method)) {
    const allow = methods.join(', ')
    return new Problem('method_not_allowed', `${method} is not offered here, only ${allow}.`, { headers: { allow } })
  }
  const announced = announcedProblem(request, bodyBytesMax)
  if (announced !== null) return announced
  if (method === 'GET' || contentTypes === null) return null
  const given = mediaTypeOf(headers['content-type'])
  if (contentTypes.includes(given)) return null
  const detail = `The content type is ${JSON.stringify(given.slice(0, 100))}; this source takes ${contentTypes.join(', ')}.`
  return new Problem('unsupported_media_type', detail)
}

/** One request on its way: head → body → verification → intake → answer. */
class Visit {
  readonly #parts: InboundPathParts
  readonly #refusals: RefusalLog
  readonly #entry: SourceEntry
  readonly #request: IncomingMessage
  readonly #response: ServerResponse

  constructor(
    parts: InboundPathParts,
    refusals: RefusalLog,
    entry: SourceEntry,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    this.#parts = parts
    this.#refusals = refusals
    this.#entry = entry
    this.#request = request
    this.#response = response
  }

  begin(): void {
    const { method = '', url = '', headers } = this.#request
    // Of all headers only set-cookie is a list, and it is no header of a request.
    const head = inboundHead({ method, url, headers: headers as Readonly<Record<string, string>> })
    try {
      const found = readInbound(this.#entry, head, this.#parts.now(), this.#ownHeaders())
      if (typeof found === 'function') this.#read(found)
      else this.#tell(found)
    } catch (error) {
      this.#fail(error)
    }
  }

  #read(readBody: BodyReader): void {
    const { bodyBytesMax, id } = this.#entry.source
    const room = this.#parts.bodies.open(id, networkOf(this.#request.socket.remoteAddress ?? ''))
    const exchange = { request: this.#request, response: this.#response }
    const reading = new BodyReading(exchange, bodyBytesMax, room, (body) => {
      this.#take(body, readBody)
      // The intake has its own copy, and counts it.
      reading.release()
    })
  }

  #take(body: Buffer | Problem, readBody: BodyReader): void {
    if (body instanceof Problem) {
      if (body.code === tooLarge) this.#refusals.note(this.#entry.source, tooLarge)
      this.#fail(body)
      return
    }
    try {
      this.#tell(readBody(body))
    } catch (error) {
      this.#fail(error)
    }
  }

  #tell(inbound: Inbound): void {
    switch (inbound.kind) {
      case 'event':
        this.#accept(inbound.input)
        return
      case 'handshake':
        this.#shake(inbound)
        return
      case 'refused':
        this.#refuse(inbound)
    }
  }

  #ownHeaders(): EventInput['headers'] {
    const { traceparent, [hopsHeader]: hops } = this.#request.headers
    return withOrigin(contentHeaders(this.#request.headers), requestFacts({ traceparent, [hopsHeader]: hops }))
  }

  #accept(input: EventInput): void {
    this.#parts.intake.accept([input]).then(
      (acceptance) => this.#answer(acceptance),
      (error) => this.#fail(error),
    )
  }

  #answer(acceptance: Acceptance): void {
    const item = acceptance.kind === 'accepted' ? acceptance.items[0] : undefined
    if (item === undefined) {
      this.#fail(new Error('a source gives all of its events the same fingerprint'))
      return
    }
    // The id is ours and needs no escaping. To how many it goes is not the provider's to know.
    const body = `{"id":"${item.id}","duplicate":${item.duplicate}}`
    this.#response.writeHead(202, { 'content-type': 'application/json', 'content-length': body.length })
    this.#response.end(body)
  }

  #shake({ status, contentType, body }: Handshake): void {
    const headers = { 'content-type': contentType, 'content-length': body.length, 'cache-control': 'no-store' }
    // A challenge is somebody's text: no browser may take it for a page.
    this.#response.writeHead(status, { ...headers, 'x-content-type-options': 'nosniff' })
    this.#response.end(body)
  }

  #refuse({ code, message }: Refusal): void {
    this.#refusals.note(this.#entry.source, code)
    if (this.#request.method === 'GET') {
      this.#fail(new Problem('malformed_request', message))
      return
    }
    const headers = { 'www-authenticate': 'Signature realm="posthorn"' }
    this.#fail(new Problem(code === 'malformed' ? 'signature_wrong' : code, message, { headers }))
  }

  #fail(error: unknown): void {
    this.#parts.fail(this.#request, this.#response, error)
  }
}
