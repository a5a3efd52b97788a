import { z } from 'zod'
import type { EndpointReport } from '../../upkeep/status.ts'
import { conditionAnswer } from '../answers.ts'
import type { Api } from '../route.ts'
import { choice, closedQuery, idParam, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { conditionShown } from '../shown.ts'
import { troubleFields, troubleShown } from '../status-shown.ts'

const states = ['closed', 'open', 'half_open'] as const
const listQuery = closedQuery({ tenant: tenant.exactOptional(), state: choice(states).exactOptional() })

const breakerAnswer = z
  .strictObject({ ...troubleFields, ...conditionAnswer.shape })
  .meta({ id: 'Breaker', description: 'What keeps an endpoint from being tried now.' })

const breakerPage = z.strictObject({ items: z.array(breakerAnswer), next: z.null() }).meta({ id: 'BreakerPage' })

/** The breakers of the endpoints that have one, and the holds of all. */
export function breakerRoutes(api: Api, { catalogue, dispatcher, status }: ServerParts): void {
  const shown = (report: EndpointReport) => ({ ...troubleShown(report), ...conditionShown(report.condition) })

  api.route({
    method: 'GET',
    url: '/v1/breakers',
    name: 'listBreakers',
    summary: 'The breaker and the hold of every endpoint',
    tag: 'endpoints',
    role: 'read',
    query: listQuery,
    responses: { 200: breakerPage },
    handler: async ({ scope, query: { tenant, state } }) => {
      const wanted = scope.filter(tenant).tenant
      const endpoints = catalogue
        .list()
        .filter((endpoint) => wanted === undefined || endpoint.tenant === wanted)
        .filter(({ id }) => state === undefined || dispatcher.conditionOf(id).breaker.state === state)
      return { items: (await status.ofEach(endpoints)).map(shown), next: null }
    },
  })

  api.route({
    method: 'POST',
    url: '/v1/breakers/:endpoint/reset',
    name: 'resetBreaker',
    summary: 'Close the breaker and end the hold now; what was parked is let go at a ramp',
    tag: 'endpoints',
    role: 'admin',
    params: { endpoint: idParam('endpoint', 'ep') },
    responses: { 200: breakerAnswer },
    handler: async ({ scope, params: { endpoint: id } }) => {
      const endpoint = scope.found(catalogue.get(id), 'endpoint', id)
      dispatcher.resetBreaker(id)
      // As it is now: what is let go may open it again before the rest is known.
      const condition = conditionShown(dispatcher.conditionOf(id))
      return { ...troubleShown(await status.of(endpoint)), ...condition }
    },
  })
}
