import { PosthornError } from '../core/errors.ts'
import { within } from './deadline.ts'
import { callMsMax } from './shared-state.ts'

type Driver = typeof import('redis')
export type RedisClient = ReturnType<typeof clientOf>

const reconnectMsMax = 1_000

/** A connection to a Redis that all processes share. While it is away every call fails at once. */
export class RedisConnection {
  readonly #driver: Driver
  readonly #url: string
  readonly #prepare: (client: RedisClient) => void
  #client: RedisClient
  #isClosed = false

  /** It connects in the background: a Redis that is away keeps nothing from starting. `prepare`: before it connects. */
  static async open(url: string, prepare: (client: RedisClient) => void = () => {}): Promise<RedisConnection> {
    return new RedisConnection(await loadDriver(), url, prepare)
  }

  /** Why nobody answers there; null: somebody does. */
  static async whyNot(url: string): Promise<string | null> {
    const client = clientOf(await loadDriver(), url, false)
    try {
      await within(callMsMax, 'Redis', client.connect())
      await within(callMsMax, 'Redis', client.ping())
      return null
    } catch (error) {
      return error instanceof Error && error.message !== '' ? error.message : String(error)
    } finally {
      if (client.isOpen) client.destroy()
    }
  }

  private constructor(driver: Driver, url: string, prepare: (client: RedisClient) => void) {
    this.#driver = driver
    this.#url = url
    this.#prepare = prepare
    this.#client = this.#connect()
  }

  async call<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    const client = this.#client
    try {
      return await within(callMsMax, 'Redis', work(client))
    } catch (error) {
      // After a failover the connection may still lead to the old primary; one that does not answer may be dead.
      // One that was refused, as by a wrong password, has given up.
      if (client === this.#client && !this.#isClosed && (client.isReady || !client.isOpen)) this.#reconnect()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#client.isOpen) this.#client.destroy()
  }

  #reconnect(): void {
    if (this.#client.isOpen) this.#client.destroy()
    this.#client = this.#connect()
  }

  #connect(): RedisClient {
    const wait = (retries: number) => Math.random() * Math.min(reconnectMsMax, 50 * 2 ** retries)
    const client = clientOf(this.#driver, this.#url, wait)
    this.#prepare(client)
    client.connect().catch(() => {})
    return client
  }
}

function clientOf(driver: Driver, url: string, reconnectStrategy: false | ((retries: number) => number)) {
  const socket = { connectTimeout: callMsMax, reconnectStrategy }
  const client = driver.createClient({ url, disableOfflineQueue: true, socket })
  // Calls say that there is no connection.
  client.on('error', () => {})
  return client
}

/** Installed by those who use it. */
async function loadDriver(): Promise<Driver> {
  try {
    return await import('redis')
  } catch (cause) {
    const message = 'POSTHORN_REDIS_URL needs the package redis. Install it with `npm install redis@6`.'
    throw new PosthornError('config_invalid', message, { cause })
  }
}
