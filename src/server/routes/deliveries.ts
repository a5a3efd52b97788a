import { z } from 'zod'
import { mayAct } from '../../core/api-key.ts'
import { deliveryStatuses } from '../../core/delivery.ts'
import { cancellable } from '../../core/selection.ts'
import { deliveryAnswer, deliveryWithAttempts, pageOf } from '../answers.ts'
import { all, dryRun, filterOrAll, previewOf, requireScope } from '../bulk.ts'
import { deliveryDetail, deliveryShown } from '../delivery-detail.ts'
import { cancelFilter, filterOf, filterQuery, filterShown } from '../filter-schema.ts'
import { notFound, Problem } from '../problem.ts'
import { cancelledAnswer, previewAnswer } from '../replay-answers.ts'
import type { Api } from '../route.ts'
import { closedObject, closedQuery, idParam, pageQuery, says, wholeNumber } from '../schemas.ts'
import type { ServerParts } from '../server.ts'

const listQuery = closedQuery({
  ...pageQuery,
  ...filterQuery(deliveryStatuses),
})
const params = { id: idParam('delivery', 'dlv') }

export function deliveryRoutes(api: Api, parts: ServerParts): void {
  readRoutes(api, parts)
  retryRoute(api, parts)
  cancelRoute(api, parts)
  cancelManyRoute(api, parts)
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
    handler: async ({ scope, caller, params: { id } }) => {
      const record = scope.found(await store.getDelivery(id), 'delivery', id)
      return deliveryDetail(parts, record, { showHeaders: mayAct(caller.role, 'admin') })
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
          return deliveryShown(parts, { hurried: true })(scope.found(await store.getDelivery(id), 'delivery', id))
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

const cancelBody = closedObject({
  filter: cancelFilter.optional(),
  all,
  dryRun,
  limit: wholeNumber(1, 1_000_000)
    .optional()
    .meta({ description: 'At most this many, newest first. Default: all that match.' }),
  cursor: z
    .string()
    .regex(/^dlv_[0-9a-z]{1,64}$/, { error: says('must be the `next` of the answer before') })
    .optional(),
}).meta(filterOrAll)

function cancelManyRoute(api: Api, parts: ServerParts): void {
  const { dispatcher, log } = parts
  api.route({
    method: 'POST',
    url: '/v1/deliveries/cancel',
    name: 'cancelDeliveries',
    summary: 'End deliveries that wait, as failed with reason cancelled; for every one of them say {"all": true}',
    tag: 'deliveries',
    role: 'admin',
    body: { kind: 'json', schema: cancelBody, example: { filter: { type: 'order.*' }, dryRun: true } },
    responses: { 200: z.union([previewAnswer, cancelledAnswer]) },
    handler: async ({ scope, caller, body }) => {
      const { filter = {}, all = false, dryRun, limit = Number.MAX_SAFE_INTEGER, cursor = null } = body
      requireScope(filter, all, 'delivery that waits')
      const waiting = cancellable(filterOf(filter, scope))
      if (dryRun) return previewOf(parts, waiting)
      const audit = (cancelled: number) =>
        log.warn({ by: caller.name, filter: filterShown(waiting), all, cancelled }, 'deliveries.cancelled')
      return dispatcher.cancelMatching(waiting, { before: cursor, limit, audit })
    },
  })
}
