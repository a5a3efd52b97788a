import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { Catalogue } from '../../src/dispatch/catalogue.ts'
import { Notices } from '../../src/notices.ts'
import { anEndpoint } from '../support/builders.ts'
import { itemsOf } from '../support/registry.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

test('a tenant has so many endpoints and no more, however many are added at once', async (t) => {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  t.after(async () => {
    await store.close()
    await folder.remove()
  })
  const catalogue = new Catalogue(store, new Notices((error) => assert.fail(String(error))), { endpointsMax: 2 })
  const added = await Promise.allSettled([1, 2, 3].map(() => catalogue.add(anEndpoint({ tenant: 'acme' }))))
  const refused = added.filter((one) => one.status === 'rejected')
  assert.deepEqual(
    refused.map(({ reason }) => [reason.code, reason.message]),
    [
      [
        'conflict',
        'The tenant acme has 2 endpoints, and that is the limit (POSTHORN_TENANT_ENDPOINTS_MAX). Delete some first.',
      ],
    ],
  )
  await catalogue.add(anEndpoint({ tenant: 'other' }))
  const [first] = catalogue.list()
  await catalogue.update(first!.id, (endpoint) => ({ ...endpoint, description: 'changed' }))
  await catalogue.remove(first!.id)
  await catalogue.add(anEndpoint({ tenant: 'acme' }))
  assert.equal((await itemsOf(store, 'endpoint')).length, 3)
})
