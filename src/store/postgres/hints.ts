import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { texts } from './arrays.ts'
import { destroyClient, endClient, rowsOf } from './driver.ts'

/** What one member tells the others. It may get lost: polling is the truth. */
export type Hint = Readonly<{
  due: readonly number[]
  conditions: readonly number[]
  registry: boolean
  links: boolean
  members: boolean
}>

export type HintsParts = Readonly<{
  connect: () => Promise<Client>
  schema: string
  /** Called with what others say. */
  onHint: (hint: Hint) => void
  /** Called with what anybody publishes, this process included. */
  onText: (text: string) => void
}>

const gatheredMs = 10
const reconnectEveryMs = 2_000
const lookEveryMs = 5_000
/** A payload has at most 8,000 bytes. */
const endpointsMax = 300
/** A text of the bus begins so; a hint is JSON. */
const textMark = '='
export const textBytesMax = 8_000 - 1 - textMark.length

/**
 * Hints among members by LISTEN and NOTIFY, on a connection of its own: within a transaction that writes they would make
 * writers wait for each other. What is said within a moment goes out together.
 */
export class Hints {
  readonly #parts: HintsParts
  readonly #channel: string
  /** By it this process knows its own words. */
  readonly #name = randomBytes(6).toString('hex')
  readonly #due = new Set<number>()
  readonly #conditions = new Set<number>()
  #registry = false
  #links = false
  #members = false
  #isWorking = false
  #client: Client | null = null
  #saying: NodeJS.Timeout | null = null
  #lastTurn: Promise<unknown> = Promise.resolve()
  #reconnecting: NodeJS.Timeout | null = null
  #looking: NodeJS.Timeout | null = null
  #isLooking = false
  #isClosed = false
  /** Nobody listens while there is only one. */
  isAlone = true

  constructor(parts: HintsParts) {
    this.#parts = parts
    this.#channel = `posthorn ${parts.schema}`
  }

  /** Without a connection there are no hints, and nothing else is missing. */
  async open(): Promise<void> {
    this.#looking = setInterval(() => void this.#look(), lookEveryMs).unref()
    await this.#connect()
  }

  async #connect(): Promise<void> {
    let client: Client | null = null
    try {
      client = await this.#parts.connect()
      await this.#listen(client)
    } catch {
      if (client !== null) destroyClient(client)
      this.#openLater()
    }
  }

  async #listen(client: Client): Promise<void> {
    client.on('notification', ({ payload }) => this.#hear(payload ?? ''))
    client.once('end', () => this.#lost(client))
    await rowsOf(client, `LISTEN "${this.#channel.replaceAll('"', '""')}"`, [])
    if (this.#isClosed) destroyClient(client)
    else this.#client = client
  }

  sayDue(endpointNumbers: readonly number[]): void {
    if (this.isAlone) return
    for (const no of endpointNumbers) this.#due.add(no)
    this.#saySoon()
  }

  sayConditions(endpointNumbers: readonly number[]): void {
    if (this.isAlone) return
    for (const no of endpointNumbers) this.#conditions.add(no)
    this.#saySoon()
  }

  sayRegistry(): void {
    if (this.isAlone) return
    this.#registry = true
    this.#saySoon()
  }

  sayLinks(): void {
    if (this.isAlone) return
    this.#links = true
    this.#saySoon()
  }

  /** Said when it is not as before. */
  sayWorking(isWorking: boolean): void {
    const wasWorking = this.#isWorking
    this.#isWorking = isWorking
    if (this.isAlone || isWorking === wasWorking) return
    this.#members = true
    this.#saySoon()
  }

  /** Answers whether the texts were sent. */
  publish(said: readonly string[]): Promise<boolean> {
    return this.#notify(said.map((text) => textMark + text))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#looking !== null) clearInterval(this.#looking)
    if (this.#saying !== null) clearTimeout(this.#saying)
    if (this.#reconnecting !== null) clearTimeout(this.#reconnecting)
    const client = this.#client
    this.#client = null
    if (client !== null) await endClient(client)
  }

  #saySoon(): void {
    this.#saying ??= setTimeout(() => this.#say(), gatheredMs)
  }

  #say(): void {
    this.#saying = null
    const flags = { registry: this.#registry, links: this.#links, members: this.#members }
    const hint: Hint = { due: some(this.#due), conditions: some(this.#conditions), ...flags }
    this.#due.clear()
    this.#conditions.clear()
    this.#registry = false
    this.#links = false
    this.#members = false
    void this.#notify([JSON.stringify({ from: this.#name, ...hint })])
  }

  /** One call after the other, as the driver wants it. */
  #notify(payloads: readonly string[]): Promise<boolean> {
    const turn = this.#lastTurn.then(() => this.#send(payloads))
    this.#lastTurn = turn
    return turn
  }

  /** One that only listens would not notice that its connection is dead. */
  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    await this.#notify([])
    this.#isLooking = false
  }

  /** A connection on which it fails is replaced. */
  async #send(payloads: readonly string[]): Promise<boolean> {
    const client = this.#client
    if (client === null) return false
    const sql = 'SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload'
    try {
      await rowsOf(client, sql, [this.#channel, texts(payloads)])
      return true
    } catch {
      destroyClient(client)
      this.#lost(client)
      return false
    }
  }

  #hear(payload: string): void {
    if (payload.startsWith(textMark)) {
      this.#parts.onText(payload.slice(textMark.length))
      return
    }
    try {
      const { from, ...hint } = JSON.parse(payload) as Hint & { from: string }
      if (from !== this.#name) this.#parts.onHint(hint)
    } catch {
      // Somebody else speaks on this channel.
    }
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = null
    this.#openLater()
  }

  #openLater(): void {
    if (this.#isClosed || this.#reconnecting !== null) return
    this.#reconnecting = setTimeout(() => {
      this.#reconnecting = null
      void this.#connect()
    }, reconnectEveryMs).unref()
  }
}

function some(endpointNumbers: ReadonlySet<number>): readonly number[] {
  return [...endpointNumbers].slice(0, endpointsMax)
}
