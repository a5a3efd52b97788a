import { Buffer } from 'node:buffer'
import type { FastifyInstance } from 'fastify'
import { readBatch } from '../batch.ts'
import { cloudEventOf } from '../cloudevents.ts'
import { keyReused, requestFacts } from '../event-reader.ts'
import { notFound } from '../problem.ts'
import { rawInput } from '../raw-event.ts'
import { closedQuery, idOf, key, pageLimitMax, pageQuery, read, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { eventShown, summaryShown } from '../shown.ts'

const listQuery = closedQuery(pageQuery)
const rawQuery = closedQuery({ key: key.optional(), tenant: tenant.optional() })

export function eventRoutes(app: FastifyInstance, { config, store, intake }: ServerParts): void {
  app.post('/v1/events/batch', { bodyLimit: config.batchBytesMax }, async (request, reply) => {
    const body = bytesOf(request.body)
    const inputs = readBatch(body, request.headers['content-type'], requestFacts(request.headers), config.eventBytesMax)
    const acceptance = inputs.length === 0 ? { kind: 'accepted' as const, items: [] } : await intake.accept(inputs)
    if (acceptance.kind === 'key_reused') {
      const message = 'was used for another event'
      throw keyReused(acceptance.indexes.map((index) => ({ path: `[${index}].idempotencyKey`, message })))
    }
    return reply.code(202).send({ items: acceptance.items })
  })

  app.post('/v1/events/:type', { bodyLimit: config.eventBytesMax }, async (request, reply) => {
    const { headers } = request
    const query = read(rawQuery, request.query)
    const body = bytesOf(request.body)
    const { type } = request.params as { type: string }
    const cloudEvent = cloudEventOf(headers, body)
    const raw = { headers, body, type, key: query.key ?? null, tenant: query.tenant ?? null, cloudEvent }
    const acceptance = await intake.accept([rawInput(raw)])
    if (acceptance.kind === 'key_reused') throw keyReused([])
    return reply.code(202).send(acceptance.items[0])
  })

  app.get('/v1/events', async (request) => {
    const page = await store.listEvents(read(listQuery, request.query))
    return { items: page.items.map(summaryShown), next: page.next }
  })

  app.get('/v1/events/:id', async (request) => {
    const id = idOf(request.params, 'event')
    const event = await store.getEvent(id)
    if (event === null) throw notFound('event', id)
    const deliveries = await store.listDeliveries({ eventId: id, limit: pageLimitMax })
    return eventShown(event, deliveries.items)
  })

  app.get('/v1/events/:id/body', async (request, reply) => {
    const id = idOf(request.params, 'event')
    const event = await store.getEvent(id)
    if (event === null) throw notFound('event', id)
    // The bytes are somebody else's: a browser shall keep them, not show them.
    reply.headers({
      'content-type': event.contentType,
      'content-disposition': `attachment; filename="${id}"`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    })
    return reply.send(Buffer.from(event.body.buffer, event.body.byteOffset, event.body.byteLength))
  })
}

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}
