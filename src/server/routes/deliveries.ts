import { z } from 'zod'
import { deliveryStatuses } from '../../core/delivery.ts'
import { reasons } from '../../core/outcome.ts'
import { deliveryAnswer, deliveryWithAttempts, pageOf } from '../answers.ts'
import { notFound, Problem } from '../problem.ts'
import type { Api } from '../route.ts'
import { choice, closedQuery, idParam, pageQuery, says } from '../schemas.ts'
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
  error: text.meta({ description: 'A part of lastError.' }).exactOptional(),
})
const params = { id: idParam('delivery', 'dlv') }

export function deliveryRoutes(api: Api, parts: ServerParts): void {
  readRoutes(api, parts)
  retryRoute(api, parts)
}

function readRoutes(api: Api, { store }: ServerParts): void {
  api.route({
    method: 'GET',
    url: '/v1/deliveries',
    name: 'listDeliveries',
    summary: 'Deliveries, newest first',
    tag: 'deliveries',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(deliveryAnswer) },
    handler: async ({ scope, query: { status, endpoint, event, tenant, ...query } }) => {
      const named = {
        ...(status && { statuses: [status] }),
        ...(endpoint && { endpointId: endpoint }),
        ...(event && { eventId: event }),
      }
      const page = await store.listDeliveries({ ...query, ...named, ...scope.filter(tenant) })
      return { items: page.items.map(deliveryShown), next: page.next }
    },
  })

  api.route({
    method: 'GET',
    url: '/v1/deliveries/:id',
    name: 'getDelivery',
    summary: 'A delivery with its attempts',
    tag: 'deliveries',
    role: 'read',
    params,
    responses: { 200: deliveryWithAttempts },
    handler: async ({ scope, params: { id } }) => {
      const record = scope.found(await store.getDelivery(id), 'delivery', id)
      const attempts = await store.listAttempts(id)
      return { ...deliveryShown(record), attemptLog: attempts.map(attemptShown) }
    },
  })
}

function retryRoute(api: Api, { store, dispatcher }: ServerParts): void {
  api.route({
    method: 'POST',
    url: '/v1/deliveries/:id/retry',
    name: 'retryDelivery',
    summary: 'Try it now; a dead letter gets a fresh budget, a delivered one is sent again',
    tag: 'deliveries',
    role: 'admin',
    params,
    responses: { 202: deliveryAnswer },
    problems: ['conflict'],
    handler: async ({ scope, params: { id } }) => {
      scope.found(await store.getDelivery(id), 'delivery', id)
      switch (await dispatcher.retry(id)) {
        case 'not_found':
          throw notFound('delivery', id)
        case 'in_progress':
          throw new Problem('conflict', `The delivery ${id} is being tried right now.`)
        case 'endpoint_gone':
          throw new Problem('conflict', `The endpoint of the delivery ${id} was deleted.`)
        case 'retried':
          return deliveryShown(scope.found(await store.getDelivery(id), 'delivery', id))
      }
    },
  })
}
