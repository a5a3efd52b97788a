import { describe } from 'node:test'
import type { Store } from '../../src/store/store.ts'
import { manyMembersContract } from '../contracts/store/many-members.ts'
import { aSchema, noPostgres } from '../support/postgres.ts'
import { openPostgres } from '../support/postgres-store.ts'

describe('postgres: several members', { skip: noPostgres() ?? false }, () => {
  manyMembersContract(async () => {
    const place = await aSchema()
    const stores: Store[] = []
    return {
      async open(given = {}) {
        const store = await openPostgres(place, given)
        stores.push(store)
        return store
      },
      async destroy() {
        for (const store of stores) await store.close()
        await place.drop()
      },
    }
  })
})
