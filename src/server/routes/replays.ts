import { z } from 'zod'
import { type Replay, type ReplayVerb, replayStatuses } from '../../core/replay.ts'
import { recoverOnly, type Selection } from '../../core/selection.ts'
import { pageOf } from '../answers.ts'
import { deliveryShown } from '../delivery-detail.ts'
import { filterOf, replayFilter } from '../filter-schema.ts'
import { notFound, Problem } from '../problem.ts'
import { replayAnswer, replayPreviewAnswer, replayShown } from '../replay-answers.ts'
import { replayFields } from '../replay-schema.ts'
import type { Api } from '../route.ts'
import { choice, closedObject, closedQuery, cursorQuery, idParam, instant, says, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'

const jobFields = {
  ...replayFields,
  dryRun: z.boolean({ error: says('must be true or false') }).default(false),
}
const creation = closedObject({ filter: replayFilter, ...jobFields })
const recovery = closedObject({
  since: instant,
  until: instant.optional(),
  only: choice(recoverOnly).default('failed'),
  ...jobFields,
})
const listQuery = closedQuery({
  ...cursorQuery,
  tenant: tenant.exactOptional(),
  status: choice(replayStatuses).exactOptional(),
})
const params = { id: idParam('replay', 'rpl') }
const verbs: readonly (readonly [verb: ReplayVerb, name: string, summary: string])[] = [
  ['pause', 'pauseReplay', 'Stop for now; what was requeued stays'],
  ['resume', 'resumeReplay', 'Go on where it was paused'],
  ['cancel', 'cancelReplay', 'Stop for good; what was requeued stays'],
]

type JobRequest = Readonly<{ selection: Selection; tenant: string | null; rate: number | null; note: string }>

export function replayRoutes(api: Api, parts: ServerParts): void {
  createRoutes(api, parts)
  readRoutes(api, parts)
  for (const verb of verbs) verbRoute(api, parts, ...verb)
}

function createRoutes(api: Api, parts: ServerParts): void {
  const answers = { 202: replayAnswer, 200: replayPreviewAnswer }
  api.route({
    method: 'POST',
    url: '/v1/replays',
    name: 'createReplay',
    summary: 'Requeue dead letters: each with a fresh budget, in their order',
    tag: 'replays',
    role: 'admin',
    body: { kind: 'json', schema: creation, example: { filter: { reason: 'exhausted' }, rate: 100, dryRun: true } },
    responses: answers,
    problems: ['conflict'],
    handler: async ({ scope, caller, reply, body: { filter: asked, dryRun, rate, note } }) => {
      const filter = filterOf(asked, scope)
      const job = { selection: { kind: 'deliveries', filter } as const, tenant: filter.tenant ?? null, rate, note }
      if (dryRun) return preview(parts, job)
      reply.code(202)
      return replayShown(await parts.replays.create({ ...job, by: caller.name }, scope.tenant))
    },
  })
  api.route({
    method: 'POST',
    url: '/v1/endpoints/:id/recover',
    name: 'recoverEndpoint',
    summary: 'Requeue what an endpoint should have had since an instant: failed, missing, or all of it again',
    tag: 'endpoints',
    role: 'admin',
    params: { id: idParam('endpoint', 'ep') },
    body: { kind: 'json', schema: recovery, example: { since: '2026-01-31T12:00:00Z', only: 'failed', dryRun: true } },
    responses: answers,
    problems: ['conflict'],
    handler: async ({ scope, caller, reply, params: { id }, body: { since, until, only, dryRun, rate, note } }) => {
      const endpoint = scope.found(parts.catalogue.get(id), 'endpoint', id)
      const selection = { kind: 'recover', endpointId: id, since, only, ...(until !== undefined && { until }) } as const
      const job = { selection, tenant: endpoint.tenant, rate, note }
      if (dryRun) return preview(parts, job)
      reply.code(202)
      return replayShown(await parts.replays.create({ ...job, by: caller.name }, scope.tenant))
    },
  })
}

async function preview(parts: ServerParts, { selection, tenant }: JobRequest): Promise<object> {
  const { matched, sample, ...others } = await parts.replays.preview({ selection, tenant })
  return { matched, sample: sample.map(deliveryShown(parts)), ...others }
}

function readRoutes(api: Api, { store }: ServerParts): void {
  api.route({
    method: 'GET',
    url: '/v1/replays',
    name: 'listReplays',
    summary: 'Replays, newest first',
    tag: 'replays',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(replayAnswer) },
    handler: async ({ scope, query: { tenant, ...query } }) => {
      const page = await store.listReplays({ ...query, ...scope.filter(tenant) })
      return { items: page.items.map(replayShown), next: page.next }
    },
  })
  api.route({
    method: 'GET',
    url: '/v1/replays/:id',
    name: 'getReplay',
    summary: 'A replay and how far it has come',
    tag: 'replays',
    role: 'read',
    params,
    responses: { 200: replayAnswer },
    handler: async ({ scope, params: { id } }) =>
      replayShown(scope.found<Replay>(await store.getReplay(id), 'replay', id)),
  })
}

function verbRoute(api: Api, { store, replays }: ServerParts, verb: ReplayVerb, name: string, summary: string): void {
  api.route({
    method: 'POST',
    url: `/v1/replays/:id/${verb}`,
    name,
    summary,
    tag: 'replays',
    role: 'admin',
    params,
    responses: { 200: replayAnswer },
    problems: ['conflict'],
    handler: async ({ scope, params: { id } }) => {
      scope.found<Replay>(await store.getReplay(id), 'replay', id)
      const change = await replays.change(id, verb, scope.tenant)
      switch (change.kind) {
        case 'not_found':
          throw notFound('replay', id)
        case 'refused':
          throw new Problem('conflict', `The replay ${id} is ${change.replay.status}: it cannot ${verb} now.`)
        case 'changed':
          return replayShown(change.replay)
      }
    },
  })
}
