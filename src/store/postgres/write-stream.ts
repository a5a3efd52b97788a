import { setTimeout as pause } from 'node:timers/promises'
import type { Client } from 'pg'
import { PosthornError } from '../../core/errors.ts'
import type { StoreHealth, WrittenBatch } from '../store.ts'
import { int4s, int8s, keys } from './arrays.ts'
import { destroyClient, endClient, type Queryable, rowsOf } from './driver.ts'
import {
  asFailure,
  despiteConflicts,
  hasLostPlace,
  isReadOnly,
  isRefusal,
  mayEndSession,
  storageFailure,
} from './failures.ts'
import { findOut, newMark } from './mark.ts'

/** A kind of write: one function in the database, which takes a batch. */
export type Write<Item, Result> = Readonly<{
  /** Its name and its parameters after the stream and the number. */
  name: string
  /** How many of these, from the first on, go into one call; at least one. */
  fits(items: readonly Item[]): number
  values(items: readonly Item[], member: number): readonly unknown[]
  results(items: readonly Item[], answer: string | null, made: Made): readonly Result[] | Promise<readonly Result[]>
}>

/** How a call was made: for which member, and the connection on which the rest of its answer is read. */
export type Made = Readonly<{ member: number; on: () => Promise<Queryable> }>

export type WriteStreamParts = Readonly<{
  /** A connection of its own. */
  connect: () => Promise<Client>
  /** The quoted schema. */
  schema: string
  /** The number of the member that writes. */
  member: () => number
  onBatch?: ((batch: WrittenBatch) => void) | undefined
}>

type Waiting = Readonly<{
  write: Write<never, unknown>
  item: unknown
  resolve: (result: unknown) => void
  reject: (error: Error) => void
}>

const retryEveryMs = 250

/** Writes nothing but the mark: health comes back by it without traffic. */
const probe: Write<null, null> = {
  name: 'renew_v1',
  fits: () => 1,
  values: () => [0, keys('dlv', []), int4s([]), int8s([])],
  results: () => [null],
}

/**
 * One connection that writes, one call after the other: whatever is asked for while a call is under way goes into the
 * next one of its kind. Every call moves the stream's mark in the database, so that a call whose answer got lost is found
 * out: no other is made before it is known what became of it.
 *
 *   connected   calls are made
 *   lost        the connection broke: calls wait for the first try to get it back
 *   down        that failed, or a call is in doubt: calls are refused until the database answers
 */
export class WriteStream {
  readonly #parts: WriteStreamParts
  #client: Client | null = null
  #state: 'connected' | 'lost' | 'down' = 'lost'
  #stream: number | null = null
  #markedFor: number | null = null
  #seq = 0
  #queue: Waiting[] = []
  #working = false
  #closed = false
  /** Why it cannot write; null: it can. */
  #trouble: Error | null = null
  #idle: (() => void) | null = null
  #probing: NodeJS.Timeout | null = null

  constructor(parts: WriteStreamParts) {
    this.#parts = parts
  }

  get health(): StoreHealth {
    return { writable: this.#trouble === null, problem: this.#trouble?.message ?? null }
  }

  /** Its number in the database; null before it was connected. */
  get number(): number | null {
    return this.#stream
  }

  async open(): Promise<void> {
    await this.#connect()
  }

  write<Item, Result>(write: Write<Item, Result>, item: Item): Promise<Result> {
    if (this.#closed) return Promise.reject(new PosthornError('shutting_down', 'The store is closed.'))
    if (this.#state === 'down') return Promise.reject(this.#refusal())
    return new Promise((resolve, reject) => {
      this.#queue.push({
        write: write as Write<never, unknown>,
        item,
        resolve: resolve as (result: unknown) => void,
        reject,
      })
      this.#workSoon()
    })
  }

  /** Writes what was asked for, then closes. */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      if (this.#working) {
        await new Promise<void>((resolve) => {
          this.#idle = resolve
        })
      }
    }
    if (this.#probing !== null) clearTimeout(this.#probing)
    const client = this.#client
    this.#client = null
    if (client !== null) await endClient(client)
  }

  /** What else is asked for in this turn of the event loop joins the same call. */
  #workSoon(): void {
    if (this.#working) return
    this.#working = true
    setImmediate(() => {
      this.#work().finally(() => {
        this.#working = false
        if (this.#queue.length > 0) this.#workSoon()
        else this.#idle?.()
      })
    })
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      // A process that has joined again is another member. The mark of the earlier one goes with that.
      if (this.#markedFor !== this.#parts.member()) this.#drop({ withMark: true })
      if (this.#client === null && !(await this.#reconnected())) return
      await this.#run(this.#takeBatch())
    }
  }

  /** The first of the queue, and those of its kind that fit into one call with it. */
  #takeBatch(): readonly Waiting[] {
    const [first] = this.#queue
    if (first === undefined) return []
    const { write } = first
    const alike = this.#queue.filter((waiting) => waiting.write === write)
    const count = alike.length === 1 ? 1 : write.fits(alike.map(({ item }) => item) as never[])
    const batch = alike.slice(0, Math.max(1, count))
    if (batch.length === this.#queue.length) this.#queue = []
    else {
      const taken = new Set(batch)
      this.#queue = this.#queue.filter((waiting) => !taken.has(waiting))
    }
    return batch
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    const [first] = batch
    if (first === undefined) return
    const items = batch.map(({ item }) => item) as never[]
    try {
      const startedAt = performance.now()
      const member = this.#parts.member()
      const answer = await this.#call(first.write, first.write.values(items, member))
      this.#parts.onBatch?.({ calls: batch.length, commitMs: performance.now() - startedAt })
      this.#trouble = null
      const made = { member, on: () => this.#connected() }
      await this.#answer(batch, () => first.write.results(items, answer, made))
    } catch (error) {
      await this.#failed(batch, error)
    }
  }

  /**
   * It was kept, and is answered so: what has to be read for the answer is read until the database gives it, on the stream's
   * own connection, because nothing else can use that up.
   */
  async #answer(batch: readonly Waiting[], read: () => ReturnType<Write<never, unknown>['results']>): Promise<void> {
    for (;;) {
      try {
        const results = await read()
        batch.forEach(({ resolve }, at) => {
          resolve(results[at])
        })
        return
      } catch (error) {
        if (this.#closed || storageFailure(error) === null) {
          for (const { reject } of batch) reject(asFailure(error))
          return
        }
        this.#drop()
        this.#goDown(error)
        await pause(retryEveryMs)
      }
    }
  }

  async #connected(): Promise<Client> {
    if (this.#client === null) await this.#connect()
    if (this.#client === null) throw this.#refusal()
    return this.#client
  }

  /** One call's defect must not cost the others of its batch: each gets a call of its own. */
  async #failed(batch: readonly Waiting[], error: unknown): Promise<void> {
    const failure = asFailure(error)
    const isStorage = failure instanceof PosthornError
    if (isStorage && failure.code.startsWith('store_')) {
      this.#trouble = failure
      this.#probeSoon()
    }
    if (isStorage || batch.length === 1) for (const { reject } of batch) reject(failure)
    else for (const waiting of batch) await this.#run([waiting])
  }

  #probeSoon(): void {
    if (this.#probing !== null || this.#closed) return
    this.#probing = setTimeout(() => {
      this.#probing = null
      if (this.#trouble !== null && this.#state !== 'down') this.write(probe, null).catch(() => {})
    }, retryEveryMs).unref()
  }

  async #call({ name }: Write<never, unknown>, values: readonly unknown[]): Promise<string | null> {
    try {
      return await despiteConflicts(() => this.#once(name, values))
    } catch (error) {
      if (hasLostPlace(error)) this.#drop({ withMark: true })
      throw error
    }
  }

  async #once(name: string, values: readonly unknown[]): Promise<string | null> {
    const seq = this.#seq + 1
    const [client, stream] = [this.#client, this.#stream]
    if (client === null || stream === null) throw this.#refusal()
    const given = [stream, seq, ...values]
    const places = given.map((_value, at) => `$${at + 1}`).join(', ')
    try {
      const rows = await rowsOf(client, `SELECT ${this.#parts.schema}.${name}(${places})`, given)
      this.#seq = seq
      return (rows[0]?.[0] ?? null) as string | null
    } catch (error) {
      if (isRefusal(error) && (!mayEndSession(error) || (await isAlive(client)))) {
        // Nothing was kept. The address may lead to another server by now, and this one stays as it is.
        if (isReadOnly(error)) this.#drop()
        throw error
      }
      this.#drop()
      return await this.#resolve(stream, seq, error)
    }
  }

  /** The connection broke while a call was under way. Until the database answers on another, nobody knows what became of it. */
  async #resolve(stream: number, seq: number, cause: unknown): Promise<string | null> {
    this.#goDown(cause)
    for (;;) {
      const found = await this.#withClient((client) => findOut(client, this.#parts.schema, stream, seq)).catch(
        () => null,
      )
      if (found?.kind === 'kept') {
        this.#seq = seq
        return found.answer
      }
      if (found !== null) {
        if (found.kind === 'not_kept') this.#seq = found.seq
        else this.#drop({ withMark: true })
        throw notKept(cause)
      }
      if (this.#closed) throw asFailure(cause)
      await pause(retryEveryMs)
    }
  }

  async #connect(): Promise<void> {
    await this.#withClient(async (client) => {
      if (this.#stream !== null) return
      this.#markedFor = this.#parts.member()
      this.#stream = await newMark(client, this.#parts.schema, this.#markedFor)
      this.#seq = 0
    })
  }

  /** Connects and does this first. If it succeeds, the connection is used from then on. */
  async #withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await this.#parts.connect()
    try {
      const result = await work(client)
      if (this.#closed && !this.#working) throw new PosthornError('shutting_down', 'The store is closed.')
      this.#use(client)
      return result
    } catch (error) {
      destroyClient(client)
      throw error
    }
  }

  #use(client: Client): void {
    this.#client = client
    this.#state = 'connected'
    this.#trouble = null
    // From its first 'error' on it refuses every call, and its 'end' can come later.
    for (const event of ['error', 'end'] as const) {
      client.once(event, () => {
        if (this.#client !== client) return
        this.#client = null
        // Without traffic too, it says that it cannot write.
        if (!this.#working && !this.#closed) this.write(probe, null).catch(() => {})
      })
    }
  }

  #drop({ withMark = false } = {}): void {
    const client = this.#client
    this.#client = null
    this.#state = 'lost'
    if (withMark) this.#stream = null
    if (client !== null) destroyClient(client)
  }

  #goDown(cause: unknown): void {
    this.#state = 'down'
    this.#trouble = asFailure(cause)
    this.#refuseQueue()
  }

  /** Whether it is connected again. If not, what waits is refused, and tries go on in the background. */
  async #reconnected(): Promise<boolean> {
    try {
      await this.#connect()
      return true
    } catch (error) {
      this.#goDown(error)
      void this.#reconnectLater()
      return false
    }
  }

  async #reconnectLater(): Promise<void> {
    while (!this.#closed && this.#state === 'down') {
      await pause(retryEveryMs, null, { ref: false })
      if (this.#closed) return
      await this.#connect().catch((error) => {
        this.#trouble = asFailure(error)
      })
    }
  }

  #refuseQueue(): void {
    const refused = this.#queue
    this.#queue = []
    for (const { reject } of refused) reject(this.#refusal())
  }

  #refusal(): PosthornError {
    const trouble = this.#trouble
    const code = trouble instanceof PosthornError ? trouble.code : 'store_unavailable'
    return new PosthornError(code, trouble?.message ?? 'The database cannot be reached.', { cause: trouble })
  }
}

/** A session that is over never answers, and one that answers has rolled back. */
function isAlive(client: Client): Promise<boolean> {
  return rowsOf(client, 'SELECT 1', []).then(
    () => true,
    () => false,
  )
}

function notKept(cause: unknown): PosthornError {
  const failure = storageFailure(cause)
  const message = `What was asked for was not kept: ${failure?.message ?? 'the connection to the database broke.'}`
  return new PosthornError(failure?.code ?? 'store_unavailable', message, { cause })
}
