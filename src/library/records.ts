import type { Pipeline } from '../app.ts'
import { type DeliveryFilter, type DeliveryStatus, deliveryStatuses, type StatusClass } from '../core/delivery.ts'
import { PosthornError } from '../core/errors.ts'
import type { Reason } from '../core/outcome.ts'
import { cancellable } from '../core/selection.ts'
import { previewOf } from '../server/bulk.ts'
import { deliveryDetail, deliveryShown } from '../server/delivery-detail.ts'
import { cancelFilter, filterOf, filterQuery, filterShown } from '../server/filter-schema.ts'
import { closedObject, pageLimitMax, pageQuery } from '../server/schemas.ts'
import { Scope } from '../server/scope.ts'
import { eventShown, summaryShown } from '../server/shown.ts'
import { asTexts, invalid, notFound, readGiven } from './reading.ts'
import type { ReplayFilterOptions } from './replays.ts'

/** A delivery as the API shows it. */
export type ShownDelivery = ReturnType<ReturnType<typeof deliveryShown>>
export type ShownDeliveryWithLog = Awaited<ReturnType<typeof deliveryDetail>>
export type ShownEvent = ReturnType<typeof eventShown<ShownDelivery>>
export type ShownEventSummary = ReturnType<typeof summaryShown>
export type ShownPage<T> = Readonly<{ items: readonly T[]; next: string | null }>

export type DeliveryFilterOptions = Readonly<{
  tenant?: string
  status?: DeliveryStatus | readonly DeliveryStatus[]
  /** The class of the HTTP status of the last attempt. */
  statusClass?: StatusClass | readonly StatusClass[]
  endpoint?: string
  /** The replay that requeued it last. */
  replay?: string
  event?: string
  /** The key of its event. */
  key?: string
  /** A type, or a pattern such as `order.*`. */
  type?: string
  reason?: Reason
  /** Text that occurs in the last error. */
  error?: string
  from?: Date | string
  to?: Date | string
  limit?: number
  /** The `next` of the page before. */
  cursor?: string
}>

export type EventFilterOptions = Pick<
  DeliveryFilterOptions,
  'tenant' | 'key' | 'type' | 'from' | 'to' | 'limit' | 'cursor'
>

const idLengthMax = 100
const filterSchema = closedObject(
  {
    ...pageQuery,
    ...filterQuery(deliveryStatuses),
  },
  'a filter of deliveries',
)
const eventFilterSchema = closedObject(pageQuery, 'a filter of events')
const everything = new Scope({ tenant: null })

export class Deliveries {
  readonly #pipeline: Pipeline

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline
  }

  /** Newest first. */
  async list(filter: DeliveryFilterOptions = {}): Promise<ShownPage<ShownDelivery>> {
    const { limit, cursor, ...asked } = readGiven(filterSchema, asTexts(filter), 'This filter')
    const page = await this.#pipeline.store.listDeliveries({
      ...filterOf(asked, everything),
      limit,
      ...(cursor !== undefined && { cursor }),
    })
    return { items: page.items.map(deliveryShown(this.#pipeline)), next: page.next }
  }

  /** With what it waits for, and the log of its attempts. */
  async get(id: string): Promise<ShownDeliveryWithLog | null> {
    const { store } = this.#pipeline
    if (!isId(id, 'dlv')) return null
    const record = await store.getDelivery(id)
    return record === null ? null : deliveryDetail(this.#pipeline, record, { showHeaders: true })
  }

  /** Due now, whatever its backoff says; a dead letter gets a fresh budget. */
  async retry(id: string): Promise<void> {
    if (!isId(id, 'dlv')) throw notFound('delivery', id)
    switch (await this.#pipeline.dispatcher.retry(id)) {
      case 'retried':
        return
      case 'not_found':
        throw notFound('delivery', id)
      case 'in_progress':
        throw new PosthornError('conflict', `The delivery ${id} is being tried right now.`)
      case 'endpoint_gone':
        throw new PosthornError('conflict', `The endpoint of the delivery ${id} was deleted.`)
    }
  }

  /** Ends one that waits as failed, with reason `cancelled`. */
  async cancel(id: string): Promise<void> {
    if (!isId(id, 'dlv')) throw notFound('delivery', id)
    switch (await this.#pipeline.dispatcher.cancel(id)) {
      case 'cancelled':
        return
      case 'not_found':
        throw notFound('delivery', id)
      case 'in_progress':
        throw new PosthornError('conflict', `The delivery ${id} is being tried right now.`)
      case 'settled':
        throw new PosthornError('conflict', `The delivery ${id} has ended already.`)
    }
  }

  /** How many `cancelMatching` would cancel, and a few of them. */
  async previewCancel(
    filter: CancelFilterOptions | 'all',
  ): Promise<{ matched: number; sample: readonly ShownDelivery[] }> {
    return previewOf(this.#pipeline, waitingOf(filter))
  }

  /** Ends all that wait and match, as failed with reason `cancelled`. `'all'`: everything that waits. */
  async cancelMatching(filter: CancelFilterOptions | 'all'): Promise<{ cancelled: number }> {
    const { dispatcher, log } = this.#pipeline
    const waiting = waitingOf(filter)
    const audit = (cancelled: number) =>
      log.warn({ by: 'library', filter: filterShown(waiting), cancelled }, 'deliveries.cancelled')
    const all = { before: null, limit: Number.MAX_SAFE_INTEGER, audit }
    const { cancelled } = await dispatcher.cancelMatching(waiting, all)
    return { cancelled }
  }
}

/** Which of those that wait. */
export type CancelFilterOptions = Omit<ReplayFilterOptions, 'status'>

export class Events {
  readonly #pipeline: Pipeline

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline
  }

  /** Newest first, without their bodies. */
  async list(filter: EventFilterOptions = {}): Promise<ShownPage<ShownEventSummary>> {
    const query = readGiven(eventFilterSchema, asTexts(filter), 'This filter')
    const page = await this.#pipeline.store.listEvents(query)
    return { items: page.items.map(summaryShown), next: page.next }
  }

  /** With its deliveries and the bytes that its http endpoints receive. */
  async get(id: string): Promise<(ShownEvent & { body: Uint8Array }) | null> {
    const { store } = this.#pipeline
    if (!isId(id, 'evt')) return null
    const event = await store.getEvent(id)
    if (event === null) return null
    const deliveries = await store.listDeliveries({ eventId: id, limit: pageLimitMax })
    const shown = deliveries.items.map(deliveryShown(this.#pipeline))
    return { ...eventShown(event, shown, new Set()), body: event.body }
  }
}

function waitingOf(filter: CancelFilterOptions | 'all'): DeliveryFilter {
  if (filter === 'all') return cancellable({})
  if (Object.keys(asTexts(filter)).length === 0) {
    throw invalid('This filter', [{ path: '', message: "it must name something; for all that waits say 'all'" }])
  }
  const asked = readGiven(cancelFilter, asTexts(filter), 'This filter')
  return cancellable(filterOf(asked, everything))
}

/** What cannot be an id is simply not found. */
function isId(id: unknown, prefix: 'dlv' | 'evt'): id is string {
  return typeof id === 'string' && id.length <= idLengthMax && id.startsWith(`${prefix}_`)
}
