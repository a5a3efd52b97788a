import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { createClient } from 'redis'
import { ServiceMissing, whyMissing } from './services/missing.ts'
import { type RedisOptions, redisProgram, startRedis } from './services/redis-server.ts'
import type { Service } from './services/service.ts'

/** Keys of a test's own: all that begin with `prefix`. */
export type Keys = AsyncDisposable & Readonly<{ url: string; prefix: string; drop(): Promise<void> }>

/** Why there is no shared Redis, for `skip`; null when there is. */
export function noRedis(): string | null {
  return whyMissing(redisUrl)
}

/** The Redis that all tests share: the configured one, else the one that `npm test` starts. */
export function redisUrl(): string {
  const url = process.env.POSTHORN_TEST_REDIS_URL
  if (url !== undefined && url !== '') return url
  const why = process.env.POSTHORN_TEST_REDIS_MISSING ?? 'run this with `npm test -- <file>`, which starts Redis'
  throw new ServiceMissing(why)
}

/** Why a test cannot start a Redis of its own, for `skip`; null when it can. */
export function noOwnRedis(): string | null {
  return whyMissing(redisProgram)
}

/** A Redis of the test's own, to be killed and flushed. It goes when the test ends. */
export async function anOwnRedis(t: TestContext, options?: RedisOptions): Promise<Service> {
  const redis = await startRedis(options)
  t.after(() => redis.discard())
  return redis
}

export function aKeyPrefix(url = redisUrl()): Keys {
  const prefix = `posthorn_test_${randomBytes(6).toString('hex')}:`
  const drop = () => dropKeys(url, prefix)
  return { url, prefix, drop, [Symbol.asyncDispose]: drop }
}

async function dropKeys(url: string, prefix: string): Promise<void> {
  const client = createClient({ url })
  await client.connect()
  for await (const keys of client.scanIterator({ MATCH: `${prefix}*` })) {
    if (keys.length > 0) await client.unlink(keys)
  }
  await client.close()
}
