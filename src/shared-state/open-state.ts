import type { DatabasePlace } from '../store/open-store.ts'
import { MemoryState } from './memory-state.ts'
import { PostgresState } from './postgres-state.ts'
import { RedisState } from './redis-state.ts'
import type { SharedState } from './shared-state.ts'

export type StatePlace = Pick<DatabasePlace, 'database'> & Readonly<{ redisUrl: string | null }>

/** Where all processes that share this database agree: in Redis if there is one, else in the database itself. */
export async function openState({ database, redisUrl }: StatePlace, steady: () => number): Promise<SharedState> {
  if (database.kind !== 'postgres') return new MemoryState(steady)
  if (redisUrl !== null) return RedisState.open(redisUrl, `posthorn:${database.schema}:`)
  return PostgresState.open(database)
}
