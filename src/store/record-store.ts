import type { Attempt } from '../core/attempt.ts'
import type { Delivery, DeliveryFilter } from '../core/delivery.ts'
import type { Event, EventHead } from '../core/event.ts'

/** The part of the store port for what people look at. Read on the side: it delays nobody. */
export interface RecordStore {
  /** An event with its body, as it was accepted; null: there is none with this id, or it was pruned. */
  getEvent(id: string): Promise<Event | null>
  /** Newest first. */
  listEvents(query: EventQuery): Promise<Page<EventSummary>>
  /** A delivery as it is now, waiting or ended; null: there is none with this id, or it was pruned or discarded. */
  getDelivery(id: string): Promise<DeliveryRecord | null>
  /**
   * Ids of events (`evt_`), deliveries (`dlv_`) or replays (`rpl_`) that begin with this text, in the order of ids, of one
   * tenant or of all. The text is a short id (core/id), so that few rows have to be looked at.
   */
  findIds(query: IdQuery): Promise<readonly string[]>
  /** The newest 500, oldest first. */
  listAttempts(deliveryId: string): Promise<readonly Attempt[]>
  /** Newest first. */
  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>>
  /** How many deliveries match; stops counting at `max`. */
  countDeliveries(filter: DeliveryFilter, max: number): Promise<number>
}

/** With a `next` there may be more, however few items there are: a page looks at a bounded number of rows. */
export type Page<T> = Readonly<{ items: readonly T[]; next: string | null }>

export type EventSummary = EventHead & Readonly<{ size: number; deliveries: number }>

/** A delivery as people see it, with what they want to know of its event. */
export type DeliveryRecord = Readonly<{ delivery: Delivery; type: string; tenant: string; key: string | null }>

export type IdQuery = Readonly<{ beginning: string; tenant?: string; limit: number }>

export type EventQuery = Readonly<{
  tenant?: string
  key?: string
  /** A type, or a pattern of types. */
  type?: string
  /** receivedAt >= from, < to. */
  from?: number
  to?: number
  limit: number
  cursor?: string
}>

export type DeliveryQuery = DeliveryFilter & Readonly<{ limit: number; cursor?: string }>
