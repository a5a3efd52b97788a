import { type App, openPipeline, type Pipeline, serve } from '../app.ts'
import { PosthornError } from '../core/errors.ts'
import type { Notice } from '../core/notice.ts'
import type { Notification } from '../core/notification.ts'
import type { Handler } from '../engines/engine.ts'
import { statusQuery, statusShown } from '../server/status-shown.ts'
import { type ConsumerHandle, type ConsumerOptions, Consumers } from './consumers.ts'
import { Endpoints } from './endpoints.ts'
import { prepareTable } from './handler-table.ts'
import { configOf, type HandleOptions, type PosthornOptions } from './options.ts'
import { asTexts, readGiven } from './reading.ts'
import { Deliveries, Events } from './records.ts'
import { type Handle, Registrations } from './registrations.ts'
import { Replays } from './replays.ts'
import { type BatchEvent, batchInputs, eventInput, type SendOptions, type Sent, sentItems } from './sending.ts'

/** The status as the API shows it. */
export type ShownStatus = ReturnType<typeof statusShown>

type Closing = Readonly<{ pipeline: Pipeline; server: App | null }>

/** Opens Posthorn inside of this process. Nothing listens unless `serve` says so. */
export async function openPosthorn(options: PosthornOptions = {}): Promise<Posthorn> {
  const pipeline = await openPipeline(configOf(options), { onFatal: options.onFatal ?? (() => {}) })
  try {
    const registrations = new Registrations(pipeline)
    registrations.begin(prepareTable(registrations, options.handlers ?? {}, 'The option handlers'))
    await registrations.ready()
    const server = options.serve === undefined ? null : await serve(pipeline)
    return new Posthorn({ pipeline, server }, registrations)
  } catch (error) {
    await pipeline.stop()
    throw error
  }
}

/** A running Posthorn. */
export class Posthorn implements AsyncDisposable {
  readonly endpoints: Endpoints
  readonly deliveries: Deliveries
  readonly events: Events
  readonly replays: Replays
  /** Where the server listens; null when there is none. */
  readonly url: string | null
  readonly #parts: Closing
  readonly #registrations: Registrations
  readonly #consumers: Consumers
  #closed: Promise<void> | null = null

  /** Use `openPosthorn`. */
  constructor(parts: Closing, registrations: Registrations) {
    this.#parts = parts
    this.#registrations = registrations
    this.#consumers = new Consumers(parts.pipeline)
    this.endpoints = new Endpoints(parts.pipeline)
    this.deliveries = new Deliveries(parts.pipeline)
    this.events = new Events(parts.pipeline)
    this.replays = new Replays(parts.pipeline)
    this.url = parts.server?.url ?? null
  }

  /** Resolves when the event is on disk. `data` is anything that JSON can carry. */
  async send(type: string, data: unknown, options: SendOptions = {}): Promise<Sent> {
    const { signal, ...rest } = options
    const input = eventInput({ ...rest, type, data }, this.#parts.pipeline.config)
    const [sent] = await this.#accept([input], signal)
    if (sent === undefined) throw new PosthornError('store_unavailable', 'The store did not answer for this event.')
    return sent
  }

  /** All of them are kept, in their order, or none. */
  async sendBatch(events: readonly BatchEvent[], options: Pick<SendOptions, 'signal'> = {}): Promise<readonly Sent[]> {
    const inputs = batchInputs(events, this.#parts.pipeline.config)
    return inputs.length === 0 ? [] : this.#accept(inputs, options.signal)
  }

  /**
   * Processes events of these types with this function. The handler has an endpoint like any other, found again by its
   * name after a restart: what was not processed before is processed then.
   */
  handle(types: string | readonly string[], handler: Handler | URL, options: HandleOptions = {}): Handle {
    if (this.#closed !== null) throw closed()
    const wanted = typeof types === 'string' ? [types] : types
    const what = `The handler of ${[wanted].flat().join(', ')}`
    const registration = this.#registrations.prepare(wanted, handler, options, what)
    this.#registrations.begin([registration])
    return registration
  }

  /**
   * Runs a handler over the records of Kafka topics, as a member of a consumer group. An offset is committed when everything
   * below it is processed, or kept as a dead letter. Needs `kafkaBrokers` and the package `@confluentinc/kafka-javascript`.
   */
  consumer(options: ConsumerOptions): ConsumerHandle {
    if (this.#closed !== null) throw closed()
    return this.#consumers.open(options)
  }

  /** Whether all is well, and if not, where to look first. `limit`: how many endpoints to list at most (1 to 500). */
  async status(options: Readonly<{ tenant?: string; limit?: number }> = {}): Promise<ShownStatus> {
    const { tenant, limit } = readGiven(statusQuery, asTexts(options), 'This status')
    return statusShown(await this.#parts.pipeline.status.read({ tenant: tenant ?? null, limit }))
  }

  /** Calls back when something of this kind, or with `*` anything, has happened and is on disk. Returns what ends it. */
  on<K extends Notice['kind'] | '*'>(
    kind: K,
    listener: (notice: K extends Notice['kind'] ? Extract<Notice, { kind: K }> : Notice) => void,
  ): () => void {
    type Told = Parameters<typeof listener>[0]
    const isWanted = (notice: Notice): notice is Notice & Told => kind === '*' || notice.kind === kind
    return this.#parts.pipeline.notices.subscribe((notice) => {
      if (isWanted(notice)) listener(notice)
    })
  }

  /** Calls back with what a person on duty wants to know, grouped: dead letters, breakers, a backlog. Returns what ends it. */
  onNotification(listener: (notification: Notification) => void): () => void {
    return this.#parts.pipeline.notifications.subscribe(listener)
  }

  /** Lets what is under way finish within the grace time, and gives the rest back untried. May be called twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    const { pipeline, server } = this.#parts
    await this.#consumers.stop()
    await (server ?? pipeline).stop()
  }

  async #accept(inputs: Parameters<Pipeline['intake']['accept']>[0], signal?: AbortSignal): Promise<readonly Sent[]> {
    if (this.#closed !== null) throw closed()
    signal?.throwIfAborted()
    const work = this.#keep(inputs)
    return signal === undefined ? work : unlessAborted(work, signal)
  }

  async #keep(inputs: Parameters<Pipeline['intake']['accept']>[0]): Promise<readonly Sent[]> {
    const { intake } = this.#parts.pipeline
    // Who sends right after `handle` expects to be handled.
    if (!this.#registrations.areReady) await this.#registrations.ready()
    return sentItems(await intake.accept(inputs))
  }
}

function closed(): PosthornError {
  return new PosthornError('shutting_down', 'This Posthorn is closed; open another one.')
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
