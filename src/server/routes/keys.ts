import { z } from 'zod'
import { type ApiKey, roles } from '../../core/api-key.ts'
import { idShown, instantShown, pageOf } from '../answers.ts'
import type { Keys } from '../keys.ts'
import { idPaging, pageById } from '../paging.ts'
import type { Api } from '../route.ts'
import { checkedText, choice, closedObject, closedQuery, idParam, tenant } from '../schemas.ts'
import type { ServerParts } from '../server.ts'
import { instant } from '../shown.ts'

const nameLengthMax = 100
const name = checkedText((text) =>
  text.length <= nameLengthMax ? null : `must have at most ${nameLengthMax} characters`,
)
const creation = closedObject({
  role: choice(roles),
  tenant: tenant.nullable().optional(),
  name: name.meta({ maxLength: nameLengthMax }).optional(),
})
const listQuery = closedQuery({ tenant: tenant.exactOptional(), ...idPaging('key') })

const fields = {
  id: idShown('key'),
  name: z.string(),
  role: z.enum(roles),
  tenant: z.string().nullable().meta({ description: 'null: all tenants.' }),
  createdAt: instantShown,
}
const keyAnswer = z.strictObject(fields).meta({ id: 'Key' })
const newKeyAnswer = z
  .strictObject({ ...fields, key: z.string().regex(/^phk_[\w-]{43}$/) })
  .meta({ id: 'NewKey', description: 'The key is shown here and never again.' })

/** Who may call: an administrator of all tenants manages all keys, one of a tenant those of the tenant. */
export function keyRoutes(api: Api, { ids, now }: Pick<ServerParts, 'ids' | 'now'>, keys: Keys): void {
  api.route({
    method: 'POST',
    url: '/v1/keys',
    name: 'createKey',
    summary: 'Make a key; it is shown in this answer alone',
    tag: 'keys',
    role: 'admin',
    body: { kind: 'json', schema: creation, example: { role: 'send', tenant: 'acme', name: 'shop' } },
    responses: { 201: newKeyAnswer },
    problems: ['conflict'],
    handler: async ({ scope, body, reply }) => {
      const tenant = body.tenant == null ? scope.tenant : scope.owner(body.tenant)
      const at = now()
      const given = { id: ids.next('key', at), name: body.name ?? '', role: body.role, tenant, createdAt: at }
      const { key, text } = await keys.create(given, scope.tenant)
      reply.header('cache-control', 'no-store')
      return { ...keyShown(key), key: text }
    },
  })

  api.route({
    method: 'GET',
    url: '/v1/keys',
    name: 'listKeys',
    summary: 'Keys, oldest first: whose they are, never what they are',
    tag: 'keys',
    role: 'admin',
    query: listQuery,
    responses: { 200: pageOf(keyAnswer) },
    handler: ({ scope, query }) => {
      const { tenant } = scope.filter(query.tenant)
      const page = pageById(
        keys.list().filter((key) => tenant === undefined || key.tenant === tenant),
        query,
      )
      return { items: page.items.map(keyShown), next: page.next }
    },
  })

  api.route({
    method: 'DELETE',
    url: '/v1/keys/:id',
    name: 'deleteKey',
    summary: 'Revoke a key, at once',
    tag: 'keys',
    role: 'admin',
    params: { id: idParam('key', 'key') },
    responses: { 204: null },
    handler: async ({ scope, params: { id } }) => {
      const key = keys.list().find((candidate) => candidate.id === id)
      await keys.remove(scope.found(key, 'key', id))
    },
  })
}

function keyShown({ id, name, role, tenant, createdAt }: ApiKey): object {
  return { id, name, role, tenant, createdAt: instant(createdAt) }
}
