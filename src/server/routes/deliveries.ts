import { deliveryStatuses } from '../../core/delivery.ts'
import { deliveryAnswer, deliveryWithAttempts, pageOf } from '../answers.ts'
import { deliveryDetail, deliveryShown } from '../delivery-detail.ts'
import { filterOf, filterQuery, filterText } from '../filter-schema.ts'
import { notFound, Problem } from '../problem.ts'
import type { Api } from '../route.ts'
import { choice, closedQuery, idParam, pageQuery } from '../schemas.ts'
import type { ServerParts } from '../server.ts'

const listQuery = closedQuery({
  ...pageQuery,
  ...filterQuery,
  status: choice(deliveryStatuses).exactOptional(),
  event: filterText.exactOptional(),
})
const params = { id: idParam('delivery', 'dlv') }

export function deliveryRoutes(api: Api, parts: ServerParts): void {
  readRoutes(api, parts)
  retryRoute(api, parts)
  cancelRoute(api, parts)
}

function readRoutes(api: Api, parts: ServerParts): void {
  const { store } = parts
  api.route({
    method: 'GET',
    url: '/v1/deliveries',
    name: 'listDeliveries',
    summary: 'Deliveries, newest first',
    tag: 'deliveries',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(deliveryAnswer) },
    handler: async ({ scope, query: { limit, cursor, ...asked } }) => {
      const filter = filterOf(asked, scope)
      const page = await store.listDeliveries({ ...filter, limit, ...(cursor !== undefined && { cursor }) })
      return { items: page.items.map(deliveryShown(parts)), next: page.next }
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
      return deliveryDetail(parts, record, attempts)
    },
  })
}

function retryRoute(api: Api, parts: ServerParts): void {
  const { store, dispatcher } = parts
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
          return deliveryShown(parts)(scope.found(await store.getDelivery(id), 'delivery', id))
      }
    },
  })
}

function cancelRoute(api: Api, parts: ServerParts): void {
  const { store, dispatcher } = parts
  api.route({
    method: 'POST',
    url: '/v1/deliveries/:id/cancel',
    name: 'cancelDelivery',
    summary: 'End a delivery that waits, as failed; the next in its lane is due at once',
    tag: 'deliveries',
    role: 'admin',
    params,
    responses: { 202: deliveryAnswer },
    problems: ['conflict'],
    handler: async ({ scope, params: { id } }) => {
      const { delivery } = scope.found(await store.getDelivery(id), 'delivery', id)
      switch (await dispatcher.cancel(id)) {
        case 'not_found':
          throw notFound('delivery', id)
        case 'in_progress':
          throw new Problem('conflict', `The delivery ${id} is being tried right now.`)
        case 'settled':
          throw new Problem('conflict', `The delivery ${id} has ended (${delivery.status}).`)
        case 'cancelled':
          return deliveryShown(parts)(scope.found(await store.getDelivery(id), 'delivery', id))
      }
    },
  })
}
