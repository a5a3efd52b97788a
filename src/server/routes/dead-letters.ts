import { z } from 'zod'
import { type DeliveryFilter, deadStatuses } from '../../core/delivery.ts'
import { discardMatching } from '../../dispatch/discard.ts'
import { sampleMax } from '../../dispatch/replays.ts'
import { deliveryAnswer, pageOf } from '../answers.ts'
import { deliveryShown } from '../delivery-detail.ts'
import { discardFilter, filterOf, filterQuery, filterShown, filterText } from '../filter-schema.ts'
import { type FieldError, validationProblem } from '../problem.ts'
import { discardedAnswer, groupShown, groupsAnswer, previewAnswer } from '../replay-answers.ts'
import type { Api } from '../route.ts'
import { choice, closedObject, closedQuery, pageQuery, says } from '../schemas.ts'
import type { ServerParts } from '../server.ts'

const listQuery = closedQuery({
  ...pageQuery,
  ...filterQuery,
  status: choice(deadStatuses).exactOptional(),
  event: filterText.exactOptional(),
  group: choice(['error']).exactOptional(),
})

const yesOrNo = z.boolean({ error: says('must be true or false') })
const discardBody = closedObject({
  filter: discardFilter.optional(),
  all: z.literal(true, { error: says('must be true, or left out') }).optional(),
  dryRun: yesOrNo.default(false),
})

export function deadLetterRoutes(api: Api, parts: ServerParts): void {
  listRoute(api, parts)
  discardRoute(api, parts)
}

function listRoute(api: Api, parts: ServerParts): void {
  const { store } = parts
  api.route({
    method: 'GET',
    url: '/v1/dead-letters',
    name: 'listDeadLetters',
    summary: 'Deliveries that failed for good, newest first; with group=error, what went wrong how often',
    tag: 'deliveries',
    role: 'read',
    query: listQuery,
    responses: { 200: z.union([pageOf(deliveryAnswer), groupsAnswer]) },
    handler: async ({ scope, query: { group, limit, cursor, ...asked } }) => {
      const filter = { statuses: deadStatuses, ...filterOf(asked, scope) }
      if (group === undefined) {
        const page = await store.listDeliveries({ ...filter, limit, ...(cursor !== undefined && { cursor }) })
        return { items: page.items.map(deliveryShown(parts)), next: page.next }
      }
      if (cursor !== undefined) throw validationProblem([{ path: 'cursor', message: 'is not for groups' }])
      return { groups: (await store.groupDeadLetters(filter, limit)).map(groupShown) }
    },
  })
}

function discardRoute(api: Api, parts: ServerParts): void {
  const { store, log, clock } = parts
  api.route({
    method: 'POST',
    url: '/v1/dead-letters/discard',
    name: 'discardDeadLetters',
    summary: 'Delete dead letters; for every one of them say {"all": true}',
    tag: 'deliveries',
    role: 'admin',
    body: { kind: 'json', schema: discardBody, example: { filter: { reason: 'cancelled' }, dryRun: true } },
    responses: { 200: z.union([previewAnswer, discardedAnswer]) },
    handler: async ({ scope, caller, body: { filter = {}, all = false, dryRun } }) => {
      const wrong = scopeProblem(filter, all)
      if (wrong !== null) throw validationProblem([wrong])
      const dead: DeliveryFilter = { statuses: deadStatuses, ...filterOf(filter, scope) }
      if (dryRun) {
        const matched = await store.countDeliveries(dead, Number.MAX_SAFE_INTEGER)
        const { items } = await store.listDeliveries({ ...dead, limit: sampleMax })
        return { matched, sample: items.map(deliveryShown(parts)) }
      }
      const audit = (discarded: number) =>
        log.warn({ by: caller.name, filter: filterShown(dead), all, discarded }, 'dead_letters.discarded')
      return { discarded: await discardMatching(store, dead, { now: clock.steady(), audit }) }
    },
  })
}

/** Nobody deletes everything by a slip: no condition at all has to be said in so many words. */
function scopeProblem(filter: object, all: boolean): FieldError | null {
  const isEmpty = Object.keys(filter).length === 0
  if (isEmpty && !all) {
    return { path: 'filter', message: 'must name something; to delete every dead letter say {"all": true}' }
  }
  return all && !isEmpty ? { path: 'all', message: 'means every dead letter; leave it or the filter out' } : null
}
