import type { Bus } from './bus.ts'
import { type RedisClient, RedisConnection } from './redis-connection.ts'

const lookEveryMs = 5_000

/** A channel of a Redis that all processes share. */
export class RedisBus implements Bus {
  readonly textBytesMax = 65_536
  readonly #channel: string
  readonly #hear = (text: string) => this.#listener(text)
  #listener: (text: string) => void = () => {}
  #connection: RedisConnection | null = null
  #looking: NodeJS.Timeout | null = null

  /** A Redis that is away keeps nothing from starting. */
  static async open(url: string, channel: string): Promise<RedisBus> {
    const bus = new RedisBus(channel)
    bus.#begin(await RedisConnection.open(url, (client) => bus.#subscribe(client)))
    return bus
  }

  private constructor(channel: string) {
    this.#channel = channel
  }

  async publish(texts: readonly string[]): Promise<boolean> {
    const connection = this.#connection
    if (connection === null) return false
    try {
      await connection.call((client) => Promise.all(texts.map((text) => client.publish(this.#channel, text))))
      return true
    } catch {
      return false
    }
  }

  onText(listener: (text: string) => void): void {
    this.#listener = listener
  }

  async close(): Promise<void> {
    if (this.#looking !== null) clearInterval(this.#looking)
    const connection = this.#connection
    this.#connection = null
    await connection?.close()
  }

  /** One that only listens would never notice that its connection is dead. */
  #begin(connection: RedisConnection): void {
    this.#connection = connection
    this.#looking = setInterval(() => connection.call((client) => client.ping()).catch(() => {}), lookEveryMs).unref()
  }

  /** Commands and what arrives share the connection, since version 3 of the protocol. */
  #subscribe(client: RedisClient): void {
    client.on('ready', () => client.subscribe(this.#channel, this.#hear).catch(() => {}))
  }
}
