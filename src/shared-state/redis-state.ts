import { type RedisClient, RedisConnection } from './redis-connection.ts'
import type { SharedState, Swap, SwapAnswer } from './shared-state.ts'

/** One script per key. */
const swapScript = `
local found = redis.call('GET', KEYS[1])
local from = ARGV[1] == '1' and ARGV[2]
if found ~= from then return { 0, found } end
if ARGV[3] == '1' then redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5]) else redis.call('DEL', KEYS[1]) end
return { 1, false }
`

/** In a Redis that all processes share. */
export class RedisState implements SharedState {
  readonly name = 'Redis'
  readonly #connection: RedisConnection
  readonly #keyPrefix: string

  /** A Redis that is away keeps nothing from starting. */
  static async open(url: string, keyPrefix: string): Promise<RedisState> {
    return new RedisState(await RedisConnection.open(url), keyPrefix)
  }

  private constructor(connection: RedisConnection, keyPrefix: string) {
    this.#connection = connection
    this.#keyPrefix = keyPrefix
  }

  async read(keys: readonly string[]): Promise<readonly (string | null)[]> {
    if (keys.length === 0) return []
    return this.#connection.call((client) => client.mGet(keys.map((key) => this.#keyPrefix + key)))
  }

  async swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[]> {
    return this.#connection.call((client) => Promise.all(swaps.map((swap) => this.#swapOne(client, swap))))
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #swapOne(client: RedisClient, { key, from, to, ttlMs }: Swap): Promise<SwapAnswer> {
    const given = [from === null ? '0' : '1', from ?? '', to === null ? '0' : '1', to ?? '', String(Math.ceil(ttlMs))]
    const answer = await client.eval(swapScript, { keys: [this.#keyPrefix + key], arguments: given })
    const [swapped, found] = answer as unknown as [number, string | null]
    return swapped === 1 ? { swapped: true } : { swapped: false, found }
  }
}
