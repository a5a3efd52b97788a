import { z } from 'zod'
import type { Endpoint } from '../../core/endpoint.ts'
import { conditionAnswer, idShown } from '../answers.ts'
import type { Api } from '../route.ts'
import { choice, closedQuery, idParam, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { conditionShown } from '../shown.ts'

const states = ['closed', 'open', 'half_open'] as const
const listQuery = closedQuery({ tenant: tenant.exactOptional(), state: choice(states).exactOptional() })

const breakerAnswer = z
  .strictObject({ endpointId: idShown('ep'), tenant: z.string(), ...conditionAnswer.shape })
  .meta({ id: 'Breaker', description: 'What keeps an endpoint from being tried now.' })

/** The breakers of the endpoints that have one, and the holds of all. */
export function breakerRoutes(api: Api, { catalogue, dispatcher }: ServerParts): void {
  const shown = ({ id, tenant }: Endpoint) => ({
    endpointId: id,
    tenant,
    ...conditionShown(dispatcher.conditionOf(id)),
  })

  api.route({
    method: 'GET',
    url: '/v1/breakers',
    name: 'listBreakers',
    summary: 'The breaker and the hold of every endpoint',
    tag: 'endpoints',
    role: 'read',
    query: listQuery,
    responses: { 200: z.strictObject({ items: z.array(breakerAnswer), next: z.null() }) },
    handler: ({ scope, query: { tenant, state } }) => {
      const wanted = scope.filter(tenant).tenant
      const items = catalogue.list().filter((endpoint) => wanted === undefined || endpoint.tenant === wanted)
      return { items: items.map(shown).filter((item) => state === undefined || item.state === state), next: null }
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
    handler: ({ scope, params: { endpoint: id } }) => {
      const endpoint = scope.found(catalogue.get(id), 'endpoint', id)
      dispatcher.resetBreaker(id)
      return shown(endpoint)
    },
  })
}
