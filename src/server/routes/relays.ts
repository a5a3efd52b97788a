import { z } from 'zod'
import { isRelayEndpoint, type RelayEndpoint } from '../../core/endpoint.ts'
import { fullRelayName, lacksRoute, type PlacedLink, type Relay, relayKeyPattern } from '../../core/relay.ts'
import type { StoreStats } from '../../store/upkeep-store.ts'
import { idShown, instantShown, pageOf } from '../answers.ts'
import { idPaging, pageById } from '../paging.ts'
import { notFound, Problem } from '../problem.ts'
import type { Api } from '../route.ts'
import { closedObject, closedQuery, relayName, tenant } from '../schemas.ts'
import type { Scope } from '../scope.ts'
import type { ServerParts } from '../server.ts'
import { instant } from '../shown.ts'

const name = relayName.meta({ description: 'Unique within its tenant: endpoints name it.' })
const creation = closedObject({ name, tenant: tenant.optional() })
const listQuery = closedQuery({ tenant: tenant.exactOptional(), ...idPaging('rly') })
const params = { id: z.string().meta({ description: 'The id of the relay, or its name.' }) }
const about = { tag: 'relays', role: 'admin', params, problems: ['conflict'] } as const

const facts = { id: idShown('rly'), name: z.string(), tenant: z.string(), createdAt: instantShown }
const relayAnswer = z
  .strictObject({
    ...facts,
    connected: z.boolean(),
    member: z.string().nullable().meta({
      description: 'The process that the hub is connected to; what follows may be as old as 10 s when you ask another.',
    }),
    since: instantShown.nullable().meta({ description: 'When the hub connected; null, like the rest: it is away.' }),
    version: z.string().nullable().meta({ description: 'The software of the hub.' }),
    protocol: z.int().nullable(),
    routes: z.array(z.string()).nullable().meta({ description: 'What the hub can reach.' }),
    missingRoutes: z
      .array(z.string())
      .nullable()
      .meta({ description: 'What active endpoints name and the hub does not have: deliveries for these wait.' }),
    roundTripMs: z.number().min(0).nullable().meta({ description: 'null as well until it is measured.' }),
    lastAckAt: instantShown.nullable().meta({ description: 'The last answer of the hub on this link.' }),
    queued: z
      .int()
      .min(0)
      .meta({ description: 'Deliveries that wait at its endpoints; where there are very many, as of up to 10 s ago.' }),
    oldestAt: instantShown.nullable().meta({ description: 'When the oldest of these was received.' }),
    endpoints: z.array(idShown('ep')),
  })
  .meta({ id: 'Relay' })
const relayWithKey = z
  .strictObject({ ...facts, key: z.string().regex(relayKeyPattern) })
  .meta({ id: 'RelayWithKey', description: 'The key is shown here and never again.' })

type RelayParts = Pick<ServerParts, 'relays' | 'gate' | 'catalogue' | 'stats' | 'ids' | 'now'>

/** The hubs that may connect: who they are, how they are doing, and how they are shut out. */
export function relayRoutes(api: Api, parts: RelayParts): void {
  changeRoutes(api, parts)
  readRoutes(api, parts)
}

function changeRoutes(api: Api, { relays, ids, now }: RelayParts): void {
  api.route({
    method: 'POST',
    url: '/v1/relays',
    name: 'createRelay',
    summary: 'Let a hub connect; its key is shown in this answer alone',
    tag: 'relays',
    role: 'admin',
    body: { kind: 'json', schema: creation, example: { name: 'home' } },
    responses: { 201: relayWithKey },
    problems: ['conflict'],
    handler: async ({ scope, body, reply }) => {
      const tenant = scope.owner(body.tenant)
      const at = now()
      const { relay, text } = await relays.create(
        { id: ids.next('rly', at), name: body.name, tenant, createdAt: at },
        scope.tenant,
      )
      reply.header('cache-control', 'no-store')
      return { ...factsShown(relay), key: text }
    },
  })

  api.route({
    ...about,
    method: 'POST',
    url: '/v1/relays/:id/rotate-key',
    name: 'rotateRelayKey',
    summary: 'Make a new key; the hub with the old one is cut off at once',
    responses: { 200: relayWithKey },
    handler: async ({ scope, params: { id }, reply }) => {
      const { relay, text } = await relays.rotateKey(known(relays, scope, id))
      reply.header('cache-control', 'no-store')
      return { ...factsShown(relay), key: text }
    },
  })

  api.route({
    ...about,
    method: 'DELETE',
    url: '/v1/relays/:id',
    name: 'revokeRelay',
    summary: 'Revoke it: its hub is cut off at once; its endpoints stay, and their deliveries wait',
    responses: { 204: null },
    handler: async ({ scope, params: { id } }) => {
      await relays.remove(known(relays, scope, id))
    },
  })
}

function readRoutes(api: Api, parts: RelayParts): void {
  const { relays, stats, gate } = parts
  api.route({
    method: 'GET',
    url: '/v1/relays',
    name: 'listRelays',
    summary: 'Relays, oldest first: whether their hubs are connected, and what waits for them',
    tag: 'relays',
    role: 'read',
    query: listQuery,
    responses: { 200: pageOf(relayAnswer) },
    handler: async ({ scope, query }) => {
      const { tenant } = scope.filter(query.tenant)
      const matching = relays.list().filter((relay) => tenant === undefined || relay.tenant === tenant)
      const page = pageById(matching, query)
      await gate.poll()
      return { items: shown(parts, page.items, await stats.readFresh()), next: page.next }
    },
  })

  api.route({
    ...about,
    method: 'GET',
    url: '/v1/relays/:id',
    name: 'getRelay',
    summary: 'A relay: whether its hub is connected, and what waits for it',
    role: 'read',
    responses: { 200: relayAnswer },
    handler: async ({ scope, params: { id } }) => {
      const relay = known(relays, scope, id)
      await gate.poll()
      return shown(parts, [relay], await stats.readFresh())[0]
    },
  })
}

/** By its id or its name. */
function known(relays: ServerParts['relays'], scope: Scope, id: string): Relay {
  const byId = relays.byId(id)
  if (byId !== null && scope.sees(byId.tenant)) return byId
  const named =
    scope.tenant === null ? relays.list().filter(({ name }) => name === id) : [relays.named(scope.tenant, id)]
  const [found, ...others] = named
  if (found === undefined || found === null) throw notFound('relay', id)
  if (others.length === 0) return found
  throw new Problem('conflict', `${named.length} tenants have a relay that is named ${id}: name it by its id.`)
}

function factsShown({ id, name, tenant, createdAt }: Relay) {
  return { id, name, tenant, createdAt: instant(createdAt) }
}

function shown({ gate, catalogue }: RelayParts, relays: readonly Relay[], { backlog }: StoreStats): readonly object[] {
  const waiting = new Map(backlog.map((entry) => [entry.endpointId, entry]))
  const leading = Map.groupBy(catalogue.list().filter(isRelayEndpoint), ({ tenant, relay }) =>
    fullRelayName(tenant, relay),
  )
  return relays.map((relay) => {
    const led = leading.get(fullRelayName(relay.tenant, relay.name)) ?? []
    const endpoints = led.map(({ id }) => id)
    const backlogs = endpoints.flatMap((id) => waiting.get(id) ?? [])
    return { ...factsShown(relay), ...linkShown(gate.linkOf(relay.id), led), ...backlogShown(backlogs), endpoints }
  })
}

function linkShown(link: PlacedLink | null, endpoints: readonly RelayEndpoint[]) {
  const missing = endpoints.flatMap(({ status, route }) =>
    status === 'active' && lacksRoute(link, route) ? [route] : [],
  )
  return {
    connected: link !== null,
    member: link?.member ?? null,
    since: instant(link?.connectedAt ?? null),
    version: link?.software ?? null,
    protocol: link?.protocol ?? null,
    routes: link?.routes ?? null,
    missingRoutes: link === null ? null : [...new Set(missing)],
    roundTripMs: link?.roundTripMs ?? null,
    lastAckAt: instant(link?.lastAckAt ?? null),
  }
}

function backlogShown(backlogs: StoreStats['backlog']) {
  const oldestAt = Math.min(...backlogs.map((each) => each.oldestAt))
  return {
    queued: backlogs.reduce((sum, { pending }) => sum + pending, 0),
    oldestAt: backlogs.length === 0 ? null : instant(oldestAt),
  }
}
