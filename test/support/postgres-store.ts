import type { Database } from '../../src/store/database.ts'
import { postgresDatabase, type Timing } from '../../src/store/postgres/database.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreUnderTest } from '../contracts/store/promises.ts'
import { aSchema, type Place, query } from './postgres.ts'

export const testKey = Buffer.alloc(32, 7)

/** What the configuration makes of this URL. */
export function placeAt({ url: given }: Pick<Place, 'url'>) {
  const url = new URL(given)
  const schema = url.searchParams.get('schema') ?? 'posthorn'
  url.searchParams.delete('schema')
  return { kind: 'postgres', url: url.href, schema } as const
}

export function postgresAt(place: Pick<Place, 'url'>, timing: Timing = {}): Database {
  return postgresDatabase(placeAt(place), testKey, timing)
}

/** A store of one more member in the schema of this URL. */
export async function openPostgres(place: Pick<Place, 'url'>, timing: Timing = {}): Promise<Store> {
  const { store } = await postgresAt(place, timing).open({
    onFatal: (error) => {
      throw error
    },
  })
  return store
}

export async function openPostgresUnderTest(): Promise<StoreUnderTest> {
  const place = await aSchema()
  const stores = [await openPostgres(place)]
  return {
    store: stores[0]!,
    // What a crash would leave: the members so far are fenced, as others would do once their leases had lapsed.
    reopen: async () => {
      await query(place.url, 'update members set fenced = true')
      const store = await openPostgres(place)
      stores.push(store)
      return store
    },
    destroy: async () => {
      for (const store of stores) await store.close()
      await place.drop()
    },
  }
}
