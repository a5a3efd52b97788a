import type { DatabasePlace } from '../store/open-store.ts'
import { createSecretBox } from '../store/secret-box.ts'
import type { Bus } from './bus.ts'
import { MemoryBus } from './memory-bus.ts'
import { RedisBus } from './redis-bus.ts'
import { SealedBus } from './sealed-bus.ts'

export type BusPlace = DatabasePlace & Readonly<{ redisUrl: string | null }>

/**
 * How processes that share this database send each other texts: by Redis if there is one, else by the database itself.
 * `ofStore`: the bus of the database; none: nobody shares it.
 */
export async function openBus({ database, encryptionKey, redisUrl }: BusPlace, ofStore: Bus | undefined): Promise<Bus> {
  if (ofStore === undefined || database.kind !== 'postgres') return new MemoryBus()
  const bus = redisUrl === null ? ofStore : await RedisBus.open(redisUrl, `posthorn:${database.schema}:bus`)
  return encryptionKey === null ? bus : new SealedBus(bus, createSecretBox(encryptionKey))
}
