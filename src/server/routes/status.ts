import type { Api } from '../route.ts'
import { idParam } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { endpointStatsAnswer, endpointStatsShown, statusAnswer, statusQuery, statusShown } from '../status-shown.ts'

/** Whether all is well, and if not, where to look first. */
export function statusRoutes(api: Api, { catalogue, status }: ServerParts): void {
  api.route({
    method: 'GET',
    url: '/v1/status',
    name: 'getStatus',
    summary: 'Whether all is well, and if not, where to look first',
    tag: 'system',
    role: 'read',
    query: statusQuery,
    responses: { 200: statusAnswer },
    handler: async ({ scope, query: { tenant, limit } }) =>
      statusShown(await status.read({ tenant: scope.filter(tenant).tenant ?? null, limit })),
  })

  api.route({
    method: 'GET',
    url: '/v1/endpoints/:id/stats',
    name: 'getEndpointStats',
    summary: 'What waits at an endpoint, how its attempts go, and what keeps it from being tried',
    tag: 'endpoints',
    role: 'read',
    params: { id: idParam('endpoint', 'ep') },
    responses: { 200: endpointStatsAnswer },
    handler: async ({ scope, params: { id } }) =>
      endpointStatsShown(await status.of(scope.found(catalogue.get(id), 'endpoint', id))),
  })
}
