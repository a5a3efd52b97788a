import { Buffer } from 'node:buffer'
import { z } from 'zod'
import { mayAct } from '../../core/api-key.ts'
import { acceptedShown, eventAnswer, eventSummary, pageOf } from '../answers.ts'
import { batchEventsMax, readBatch } from '../batch.ts'
import { cloudEventOf } from '../cloudevents.ts'
import { deliveryShown } from '../delivery-detail.ts'
import { contentHeaders, eventSchema, keyReused, requestFacts } from '../event-reader.ts'
import { hotPathFacts } from '../hot-path.ts'
import { encodingProblem } from '../json.ts'
import { rawInput } from '../raw-event.ts'
import type { Api } from '../route.ts'
import { closedQuery, idParam, key, pageLimitMax, pageQuery, sentType, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { eventShown, summaryShown } from '../shown.ts'

const listQuery = closedQuery(pageQuery)
const rawQuery = closedQuery({ key: key.exactOptional(), tenant: tenant.exactOptional() })
const params = { id: idParam('event', 'evt') }

export function eventRoutes(api: Api, parts: ServerParts): void {
  api.describe(hotPathFacts(parts.config.eventBytesMax))
  batchRoute(api, parts)
  rawRoute(api, parts)
  readRoutes(api, parts)
}

function batchRoute(api: Api, { config, intake }: ServerParts): void {
  const content = {
    'application/json': z.array(eventSchema).max(batchEventsMax),
    'application/x-ndjson': z.string(),
  }
  api.route({
    method: 'POST',
    url: '/v1/events/batch',
    name: 'sendEvents',
    summary: 'Send many events at once, all or nothing',
    tag: 'events',
    role: 'send',
    body: { kind: 'bytes', content, bytesMax: config.batchBytesMax, example: [{ type: 'order.created', data: 1 }] },
    responses: { 202: z.strictObject({ items: z.array(acceptedShown) }) },
    problems: ['loop_detected'],
    handler: async ({ scope, bytes, headers }) => {
      const encoded = encodingProblem(headers)
      if (encoded !== null) throw encoded
      const reading = { body: bytes, contentType: headers['content-type'], facts: requestFacts(headers), scope }
      const inputs = await readBatch({ ...reading, eventBytesMax: config.eventBytesMax })
      const acceptance = inputs.length === 0 ? { kind: 'accepted' as const, items: [] } : await intake.accept(inputs)
      if (acceptance.kind === 'key_reused') {
        const message = 'was used for another event'
        throw keyReused(acceptance.indexes.map((index) => ({ path: `[${index}].idempotencyKey`, message })))
      }
      return { items: acceptance.items }
    },
  })
}

function rawRoute(api: Api, { config, intake }: ServerParts): void {
  api.route({
    method: 'POST',
    // One path has one name for its part, or OpenAPI could not tell the two apart.
    url: '/v1/events/:id',
    name: 'sendRawEvent',
    summary: 'Send bytes of any content type, or a CloudEvent',
    tag: 'events',
    role: 'send',
    takesKey: true,
    params: {
      id: z
        .string()
        .meta({ ...z.toJSONSchema(sentType), description: 'The type of the event; a CloudEvent brings its own.' }),
    },
    query: rawQuery,
    body: { kind: 'bytes', content: { '*/*': null }, bytesMax: config.eventBytesMax },
    responses: { 202: acceptedShown },
    problems: ['loop_detected'],
    handler: async ({ scope, params: { id: type }, query, bytes: body, headers }) => {
      const cloudEvent = cloudEventOf(headers, body)
      const tenant = scope.owner(query.tenant)
      const input = rawInput({ headers, body, type, key: query.key ?? null, tenant, cloudEvent })
      const acceptance = await intake.accept([input])
      if (acceptance.kind === 'key_reused') throw keyReused([])
      return acceptance.items[0]
    },
  })
}

function readRoutes(api: Api, parts: ServerParts): void {
  const { store, sources } = parts
  api.route({
    method: 'GET',
    url: '/v1/events',
    name: 'listEvents',
    summary: 'Events, newest first',
    tag: 'events',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(eventSummary) },
    handler: async ({ scope, query: { tenant, ...query } }) => {
      const page = await store.listEvents({ ...query, ...scope.filter(tenant) })
      return { items: page.items.map(summaryShown), next: page.next }
    },
  })

  api.route({
    method: 'GET',
    url: '/v1/events/:id',
    name: 'getEvent',
    summary: 'An event with its newest deliveries',
    tag: 'events',
    role: 'read',
    params,
    responses: { 200: eventAnswer },
    handler: async ({ caller, scope, params: { id } }) => {
      const event = scope.found(await store.getEvent(id), 'event', id)
      const deliveries = await store.listDeliveries({ eventId: id, limit: pageLimitMax })
      const masked = mayAct(caller.role, 'admin') ? new Set<string>() : sources.signatureHeaders(event)
      const shown = deliveries.items.map(deliveryShown(parts))
      return { ...eventShown(event, shown, masked), deliveriesNext: deliveries.next }
    },
  })

  api.route({
    method: 'GET',
    url: '/v1/events/:id/body',
    name: 'getEventBody',
    summary: 'The exact bytes that endpoints receive',
    tag: 'events',
    role: 'read',
    params,
    responses: { 200: { content: { '*/*': null } } },
    handler: async ({ scope, params: { id }, reply }) => {
      const { body, contentType, headers } = scope.found(await store.getEvent(id), 'event', id)
      // The bytes are somebody else's: a browser shall keep them, not show them.
      reply.headers({
        'content-type': contentType,
        ...contentHeaders(headers),
        'content-disposition': `attachment; filename="${id}"`,
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; sandbox",
      })
      return Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    },
  })
}
