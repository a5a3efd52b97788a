import { z } from 'zod'
import { deadStatuses, groupings } from '../../core/delivery.ts'
import { deadOnly } from '../../core/selection.ts'
import { discardMatching } from '../../dispatch/discard.ts'
import { deliveryAnswer, pageOf } from '../answers.ts'
import { all, dryRun, filterOrAll, previewOf, requireScope } from '../bulk.ts'
import { groupShown, groupsAnswer } from '../dead-letter-groups.ts'
import { deliveryShown } from '../delivery-detail.ts'
import { discardFilter, filterOf, filterQuery, filterShown } from '../filter-schema.ts'
import { validationProblem } from '../problem.ts'
import { discardedAnswer, previewAnswer } from '../replay-answers.ts'
import type { Api } from '../route.ts'
import { choice, closedObject, closedQuery, pageQuery } from '../schemas.ts'
import type { ServerParts } from '../server.ts'

const listQuery = closedQuery({
  ...pageQuery,
  ...filterQuery(deadStatuses),
  group: choice(groupings).exactOptional(),
})

const discardBody = closedObject({ filter: discardFilter.optional(), all, dryRun }).meta(filterOrAll)

export function deadLetterRoutes(api: Api, parts: ServerParts): void {
  listRoute(api, parts)
  discardRoute(api, parts)
}

function listRoute(api: Api, parts: ServerParts): void {
  const { store, catalogue } = parts
  api.route({
    method: 'GET',
    url: '/v1/dead-letters',
    name: 'listDeadLetters',
    summary:
      'Deliveries that failed for good, newest first; with group, how many there are by error, endpoint, type or reason',
    tag: 'deliveries',
    role: 'read',
    query: listQuery,
    responses: { 200: z.union([pageOf(deliveryAnswer), groupsAnswer]) },
    handler: async ({ scope, query: { group, limit, cursor, ...asked } }) => {
      const filter = deadOnly(filterOf(asked, scope))
      if (group === undefined) {
        const page = await store.listDeliveries({ ...filter, limit, ...(cursor !== undefined && { cursor }) })
        return { items: page.items.map(deliveryShown(parts)), next: page.next }
      }
      if (cursor !== undefined) throw validationProblem([{ path: 'cursor', message: 'is not for groups' }])
      const groups = await store.groupDeadLetters(filter, group, limit)
      return { groups: groups.map((one) => groupShown(one, group, catalogue)) }
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
      requireScope(filter, all, 'dead letter')
      const dead = deadOnly(filterOf(filter, scope))
      if (dryRun) return previewOf(parts, dead)
      const audit = (discarded: number) =>
        log.warn({ by: caller.name, filter: filterShown(dead), all, discarded }, 'dead_letters.discarded')
      return { discarded: await discardMatching(store, dead, { now: clock.steady(), audit }) }
    },
  })
}
