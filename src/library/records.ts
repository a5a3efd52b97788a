import type { Pipeline } from '../app.ts'
import { type DeliveryStatus, deliveryStatuses } from '../core/delivery.ts'
import { PosthornError } from '../core/errors.ts'
import type { Reason } from '../core/outcome.ts'
import { deliveryDetail, deliveryShown } from '../server/delivery-detail.ts'
import { filterOf, filterQuery, filterText } from '../server/filter-schema.ts'
import { choice, closedObject, pageLimitMax, pageQuery } from '../server/schemas.ts'
import { Scope } from '../server/scope.ts'
import { eventShown } from '../server/shown.ts'
import { asTexts, notFound, readGiven } from './reading.ts'

/** A delivery as the API shows it. */
export type ShownDelivery = ReturnType<ReturnType<typeof deliveryShown>>
export type ShownDeliveryWithLog = ReturnType<typeof deliveryDetail>
export type ShownEvent = ReturnType<typeof eventShown<ShownDelivery>>
export type ShownPage<T> = Readonly<{ items: readonly T[]; next: string | null }>

export type DeliveryFilterOptions = Readonly<{
  tenant?: string
  status?: DeliveryStatus
  endpoint?: string
  event?: string
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

const idLengthMax = 100
const filterSchema = closedObject(
  {
    ...pageQuery,
    ...filterQuery,
    status: choice(deliveryStatuses).exactOptional(),
    event: filterText.exactOptional(),
  },
  'a filter of deliveries',
)
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
    const [record, attempts] = await Promise.all([store.getDelivery(id), store.listAttempts(id)])
    return record === null ? null : deliveryDetail(this.#pipeline, record, attempts)
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
}

export class Events {
  readonly #pipeline: Pipeline

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline
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

/** What cannot be an id is simply not found. */
function isId(id: unknown, prefix: 'dlv' | 'evt'): id is string {
  return typeof id === 'string' && id.length <= idLengthMax && id.startsWith(`${prefix}_`)
}
