import { describe } from 'node:test'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import { PostgresState } from '../../src/shared-state/postgres-state.ts'
import { RedisState } from '../../src/shared-state/redis-state.ts'
import type { SharedState } from '../../src/shared-state/shared-state.ts'
import { dedupContract } from '../contracts/dedup.ts'
import { eventually } from '../support/eventually.ts'
import { aSchema, noPostgres, query } from '../support/postgres.ts'
import { openPostgres, placeAt } from '../support/postgres-store.ts'
import { aKeyPrefix, noRedis } from '../support/redis.ts'

dedupContract('memory', async (t) => {
  let real = new MemoryState(() => performance.now())
  t.after(() => real.close())
  const state: SharedState = {
    name: 'memory',
    read: (keys) => real.read(keys),
    swap: (swaps) => real.swap(swaps),
    close: () => real.close(),
  }
  const flush = async () => {
    await real.close()
    real = new MemoryState(() => performance.now())
  }
  return { open: async () => state, flush }
})

describe('Postgres', { skip: noPostgres() ?? false }, () => {
  dedupContract('Postgres', async (t) => {
    const place = await aSchema()
    const store = await openPostgres(place)
    t.after(async () => {
      await store.close()
      await place.drop()
    })
    const open = async () => {
      const state = await PostgresState.open(placeAt(place))
      t.after(() => state.close())
      return state
    }
    return { open, flush: () => query(place.url, 'TRUNCATE shared_state') }
  })
})

describe('Redis', { skip: noRedis() ?? false }, () => {
  dedupContract('Redis', async (t) => {
    const keys = aKeyPrefix()
    t.after(() => keys.drop())
    const open = async () => {
      const state = await RedisState.open(keys.url, keys.prefix)
      t.after(() => state.close())
      await eventually('Redis answers', () => state.read(['a']).catch(() => null))
      return state
    }
    return { open, flush: () => keys.drop() }
  })
})
