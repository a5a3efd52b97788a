import type { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Acceptance, EventInput, Intake } from '../intake/intake.ts'
import { acceptedShown } from './answers.ts'
import type { Access } from './auth.ts'
import { announcedProblem, type BodyBudget, BodyReading } from './body-reader.ts'
import { cloudEventOf, structuredEvent } from './cloudevents.ts'
import { agreedKey, eventSchema, inputOf, keyReused, readEvent, requestFacts } from './event-reader.ts'
import { readMembers } from './json.ts'
import { Problem, validationProblem } from './problem.ts'
import { rawInput } from './raw-event.ts'
import { type RouteFacts, refusal } from './route.ts'
import { Scope } from './scope.ts'

export type HotPathParts = Readonly<{
  intake: Intake
  bodies: BodyBudget
  access: Access
  eventBytesMax: number
  /** Answers with the problem that the error is. */
  fail: (request: IncomingMessage, response: ServerResponse, error: unknown) => void
}>

export const hotPathUrl = '/v1/events'
const sending = { url: hotPathUrl, role: 'send' } as const

/** What is served here, for the description of the API. */
export function hotPathFacts(bytesMax: number): RouteFacts {
  const content = { 'application/json': eventSchema, 'application/cloudevents+json': structuredEvent }
  const example = { type: 'order.created', data: { id: 42 }, key: 'order-42' }
  return {
    ...sending,
    method: 'POST',
    name: 'sendEvent',
    summary: 'Send an event; a 202 means that it is on disk',
    takesKey: true,
    tag: 'events',
    body: { kind: 'bytes', content, bytesMax, example },
    responses: { 202: acceptedShown },
    problems: ['loop_detected'],
  }
}

/**
 * `POST /v1/events`, on node's own request and response: it is most of the traffic, and a framework around it costs
 * a third of what taking an event in costs. Everything else, and every other method, is fastify's. Answers whether
 * the request was for here.
 */
export function openHotPath(parts: HotPathParts): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    if (request.method !== 'POST' || !isHot(request.url)) return false
    const caller = parts.access(request.headers)
    const refused =
      caller instanceof Problem ? caller : (refusal(sending, caller) ?? announcedProblem(request, parts.eventBytesMax))
    // What is left of the body is read and thrown away by node, so that the client gets to see the answer.
    if (caller instanceof Problem || refused !== null) parts.fail(request, response, refused)
    else new Arrival(parts, new Scope(caller), request, response)
    return true
  }
}

function isHot(url: string | undefined): boolean {
  return url === hotPathUrl || url?.startsWith(`${hotPathUrl}?`) === true
}

/** One request on its way: body → event → intake → answer. */
class Arrival {
  readonly #parts: HotPathParts
  readonly #scope: Scope
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #reading: BodyReading

  constructor(parts: HotPathParts, scope: Scope, request: IncomingMessage, response: ServerResponse) {
    this.#parts = parts
    this.#scope = scope
    this.#request = request
    this.#response = response
    const { eventBytesMax, bodies } = parts
    this.#reading = new BodyReading({ request, response }, eventBytesMax, bodies, (body) => this.#accept(body))
  }

  #accept(body: Buffer | Problem): void {
    try {
      if (body instanceof Problem) throw body
      const input = readInput(this.#request, body, this.#scope)
      this.#parts.intake.accept([input]).then(
        (acceptance) => this.#answer(acceptance),
        (error) => this.#fail(error),
      )
      // The intake has its own copy, and counts it.
      this.#reading.release()
    } catch (error) {
      this.#fail(error)
    }
  }

  #answer(acceptance: Acceptance): void {
    const item = acceptance.kind === 'accepted' ? acceptance.items[0] : undefined
    if (item === undefined) {
      this.#fail(keyReused([]))
      return
    }
    // The id is ours and needs no escaping.
    const body = `{"id":"${item.id}","deliveries":${item.deliveries},"duplicate":${item.duplicate}}`
    this.#response.writeHead(202, { 'content-type': 'application/json', 'content-length': body.length })
    this.#response.end(body)
  }

  #fail(error: unknown): void {
    this.#parts.fail(this.#request, this.#response, error)
  }
}

function readInput({ headers, url = '' }: IncomingMessage, body: Buffer, scope: Scope): EventInput {
  if (url !== hotPathUrl) throw new Problem('malformed_request', 'POST /v1/events takes no query parameters.')
  const cloudEvent = cloudEventOf(headers, body)
  if (cloudEvent !== null) return rawInput({ headers, body, type: null, key: null, tenant: scope.owner(), cloudEvent })
  const event = readEvent(body, readMembers(body, headers))
  if (!('type' in event)) throw validationProblem(event)
  const facts = requestFacts(headers)
  const idempotencyKey = agreedKey(facts.idempotencyKey, event.idempotencyKey)
  return inputOf(
    {
      type: event.type,
      tenant: scope.owner(event.tenant),
      key: event.key,
      headers: event.headers,
      content: { kind: 'data', bytes: body.subarray(event.data.start, event.data.end) },
    },
    idempotencyKey === facts.idempotencyKey ? facts : { ...facts, idempotencyKey },
  )
}
