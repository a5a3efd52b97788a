import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { deliveryStatuses } from '../../core/delivery.ts'
import { reasons } from '../../core/outcome.ts'
import { notFound, Problem } from '../problem.ts'
import { choice, closedQuery, idOf, pageQuery, read, says } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { attemptShown, deliveryShown } from '../shown.ts'

const textError = says('must be a text of 1 to 300 characters')
const text = z.string({ error: textError }).min(1, { error: textError }).max(300, { error: textError })

const listQuery = closedQuery({
  ...pageQuery,
  status: choice(deliveryStatuses).exactOptional(),
  endpoint: text.exactOptional(),
  event: text.exactOptional(),
  reason: choice(reasons).exactOptional(),
  error: text.exactOptional(),
})

export function deliveryRoutes(app: FastifyInstance, { store, dispatcher }: ServerParts): void {
  app.get('/v1/deliveries', async (request) => {
    const { status, endpoint, event, ...query } = read(listQuery, request.query)
    const named = {
      ...(status && { statuses: [status] }),
      ...(endpoint && { endpointId: endpoint }),
      ...(event && { eventId: event }),
    }
    const page = await store.listDeliveries({ ...query, ...named })
    return { items: page.items.map(deliveryShown), next: page.next }
  })

  app.get('/v1/deliveries/:id', async (request) => {
    const id = idOf(request.params, 'delivery')
    const [record, attempts] = await Promise.all([store.getDelivery(id), store.listAttempts(id)])
    if (record === null) throw notFound('delivery', id)
    return { ...deliveryShown(record), attemptLog: attempts.map(attemptShown) }
  })

  app.post('/v1/deliveries/:id/retry', async (request, reply) => {
    const id = idOf(request.params, 'delivery')
    switch (await dispatcher.retry(id)) {
      case 'not_found':
        throw notFound('delivery', id)
      case 'in_progress':
        throw new Problem('conflict', `The delivery ${id} is being tried right now.`)
      case 'endpoint_gone':
        throw new Problem('conflict', `The endpoint of the delivery ${id} was deleted.`)
      case 'retried': {
        const record = await store.getDelivery(id)
        if (record === null) throw notFound('delivery', id)
        return reply.code(202).send(deliveryShown(record))
      }
    }
  })
}
