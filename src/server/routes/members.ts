import { z } from 'zod'
import type { Member } from '../../store/cluster-store.ts'
import { instantShown } from '../answers.ts'
import type { Api } from '../route.ts'
import type { ServerParts } from '../server.ts'
import { instant } from '../shown.ts'

const member = z
  .strictObject({
    id: z.string(),
    host: z.string(),
    pid: z.int(),
    version: z.string().meta({ description: 'Of Posthorn.' }),
    since: instantShown.meta({ description: 'When it joined.' }),
    leader: z.boolean().meta({ description: 'Whether it does what only one does: upkeep, replays, notifications.' }),
    beatMs: z
      .number()
      .min(0)
      .nullable()
      .meta({ description: 'How long ago it renewed its lease; null: it is alone and needs none.' }),
    serves: z
      .strictObject({
        handlers: z.array(z.string()).meta({ description: 'The ids of the endpoints whose handlers run there.' }),
        hubs: z.array(z.string()).meta({ description: 'The ids of the relays whose hubs are connected there.' }),
      })
      .meta({ description: 'What it serves besides http endpoints, which every member serves.' }),
  })
  .meta({ id: 'Member', description: 'A process that shares the database.' })
const page = z.strictObject({ items: z.array(member), next: z.null() }).meta({ id: 'MemberPage' })

export function memberRoutes(api: Api, { store, dispatcher }: Pick<ServerParts, 'store' | 'dispatcher'>): void {
  api.route({
    method: 'GET',
    url: '/v1/members',
    name: 'listMembers',
    summary: 'The processes that share the database',
    tag: 'system',
    role: 'read',
    tenants: 'all',
    responses: { 200: page },
    handler: async () => {
      const [members, links] = await Promise.all([store.listMembers(), store.listLinks()])
      const hubsOf = (id: string) => links.filter(({ member }) => member === id).map(({ relayId }) => relayId)
      // This one knows better than its last beat.
      const handlersOf = ({ id, handlers }: Member) =>
        id === dispatcher.membership.id ? dispatcher.handlers : handlers
      const items = members.map((each) => shown(each, { handlers: [...handlersOf(each)], hubs: hubsOf(each.id) }))
      return { items, next: null }
    },
  })
}

type Serves = z.infer<typeof member>['serves']

function shown({ id, host, pid, version, since, isLeader, beatMs }: Member, serves: Serves) {
  return { id, host, pid, version, since: instant(since), leader: isLeader, beatMs, serves }
}
