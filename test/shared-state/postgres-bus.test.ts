import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Bus } from '../../src/shared-state/bus.ts'
import { openBus } from '../../src/shared-state/open-bus.ts'
import type { MemberHint } from '../../src/store/cluster-store.ts'
import type { Store } from '../../src/store/store.ts'
import { busContract, connected, listening } from '../contracts/bus.ts'
import { aSchema, noPostgres, type Place, query } from '../support/postgres.ts'
import { openPostgres, placeAt, testKey } from '../support/postgres-store.ts'

const skip = noPostgres() ?? false

async function aPlace(t: TestContext): Promise<Place> {
  const place = await aSchema()
  t.after(() => place.drop())
  return place
}

async function openMember(t: TestContext, place: Place): Promise<Readonly<{ store: Store; bus: Bus }>> {
  const store = await openPostgres(place)
  t.after(() => store.close())
  const bus = await openBus({ database: placeAt(place), encryptionKey: testKey, redisUrl: null }, store.bus)
  return { store, bus }
}

describe('Postgres', { skip }, () => {
  busContract('Postgres', async (t) => {
    const place = await aPlace(t)
    return async () => (await openMember(t, place)).bus
  })

  test('hints arrive beside the texts of the bus', async (t) => {
    const place = await aPlace(t)
    const [here, there] = [await openMember(t, place), await openMember(t, place)]
    const heard: MemberHint[] = []
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    there.store.onHint((hint) => (heard.push(hint) === 1 ? first : second).resolve())
    await here.store.beat()
    await first.promise
    await connected(listening(here.bus), listening(there.bus))
    here.store.hint('due', [])
    await second.promise
    const nothing = { endpointIds: [], conditionsOf: [], registry: false, links: false, members: false }
    assert.deepEqual(heard, [{ ...nothing, members: true }, nothing])
  })

  test('a connection that the server ends is opened again', async (t) => {
    const place = await aPlace(t)
    const [here, there] = [await openMember(t, place), await openMember(t, place)]
    const [a, b] = [listening(here.bus), listening(there.bus)]
    await connected(a, b)
    await query(place.url, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
      `posthorn ${place.name}`,
    ])
    a.heard.length = 0
    b.heard.length = 0
    await connected(a, b)
    await connected(b, a)
  })
})
