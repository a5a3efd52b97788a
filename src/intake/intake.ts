import type { Clock } from '../core/clock.ts'
import { newborn, type Processing } from '../core/delivery.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { PosthornError } from '../core/errors.ts'
import type { Event, InboundRequestFacts } from '../core/event.ts'
import { hopsHeader, hopsOf } from '../core/hops.ts'
import { laneOf } from '../core/lanes.ts'
import { born } from '../core/lifecycle.ts'
import type { Notices } from '../notices.ts'
import type { AppendedItem, Arrival, Claim, NewDelivery } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'
import { envelope } from './envelope.ts'
import type { IdSource } from './ids.ts'

/** What a sender handed in, already checked field by field. */
export type EventInput = Readonly<{
  type: string
  tenant: string
  key: string | null
  headers: Readonly<Record<string, string>>
  /** `data` is JSON that gets the envelope; `raw` is sent on as it came. */
  content: Readonly<{ kind: 'data'; bytes: Uint8Array }> | Readonly<{ kind: 'raw'; bytes: Uint8Array; type: string }>
  /** `scope` is the tenant or the source within which the key is known. */
  idempotency: Readonly<{ scope: string; key: string; fingerprint: string; keptMs: number }> | null
  /** How a source took it in; null: the API did. */
  request: InboundRequestFacts | null
}>

export type Acceptance =
  | Readonly<{ kind: 'accepted'; items: readonly Readonly<{ id: string; deliveries: number; duplicate: boolean }>[] }>
  /** These inputs re-used an idempotency key for something else; nothing of the batch was kept. */
  | Readonly<{ kind: 'key_reused'; indexes: readonly number[] }>

/** What the dispatcher offers the intake, so that fresh events need not be read back from the store. */
export interface FreshWork {
  /** When the lease ends if the dispatcher takes a new delivery of this endpoint at once; null when it must wait. */
  reserve(endpoint: Endpoint, body: Uint8Array): number | null
  /** Deliveries that were reserved and born claimed. */
  receive(claims: readonly Claim[]): void
  /** A reservation that came to nothing. */
  unreserve(endpoint: Endpoint, body: Uint8Array): void
  /** A delivery waits in the store: it is claimed when it is due. */
  goOnWhenDue(endpoint: Endpoint, dueAt: number): void
}

export type IntakeParts = Readonly<{
  store: Store
  ids: IdSource
  clock: Clock
  route: (tenant: string, type: string) => readonly Endpoint[]
  fresh: FreshWork
  notices: Notices
  /** How many Posthorns an event may have passed before this one. */
  hopsMax: number
  /** Bytes of events that may wait for their commit; beyond it the intake is full. */
  waitingBytesMax: number
  /** Told how long it took to keep what came in one call. */
  onAccepted?: (tookMs: number) => void
}>

const deliveriesPerBatchMax = 100_000
/** Events and deliveries that may wait for their commit: small ones cost memory by their number, not by their bytes. */
export const waitingRowsMax = 50_000
/** Scopes of idempotency keys; a tenant's name must not pass for a source's. */
export const tenantScope = (tenant: string) => `tenant:${tenant}`
export const sourceScope = (sourceId: string) => `source:${sourceId}`

/** How long the API knows an idempotency key. */
export const idempotencyKeptMs = 24 * 60 * 60 * 1000

type Planned = Readonly<{ arrival: Arrival; endpoints: readonly Endpoint[] }>

/** Takes events in: route → append → hand over. What it resolves with is on disk. */
export class Intake {
  readonly #parts: IntakeParts
  #waitingBytes = 0
  #waitingRows = 0
  #open = true

  constructor(parts: IntakeParts) {
    this.#parts = parts
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  async accept(inputs: readonly EventInput[]): Promise<Acceptance> {
    if (!this.#open) throw new PosthornError('shutting_down', 'Posthorn is shutting down; send the event again.')
    this.#refuseLoops(inputs)
    const rows = this.#rowsOf(inputs)
    const bytes = inputs.reduce((sum, input) => sum + input.content.bytes.length, 0)
    const isTooMuch =
      this.#waitingBytes + bytes > this.#parts.waitingBytesMax || this.#waitingRows + rows > waitingRowsMax
    // What is too much by itself has its turn when nothing else waits.
    if (isTooMuch && this.#waitingRows > 0) {
      throw new PosthornError('intake_full', 'Too many events wait for the disk; send the event again later.')
    }
    const planned = inputs.map((input) => this.#plan(input))
    this.#waitingBytes += bytes
    this.#waitingRows += rows
    const startedAt = performance.now()
    try {
      const appended = await this.#parts.store.append(planned.map((plan) => plan.arrival))
      if (appended.kind === 'conflict') {
        for (const plan of planned) this.#forgoAll(plan)
        return { kind: 'key_reused', indexes: appended.conflicts }
      }
      this.#parts.onAccepted?.(performance.now() - startedAt)
      this.#handOver(planned, appended.items)
      const items = appended.items.map(({ eventId, deliveries, duplicate }) => ({ id: eventId, deliveries, duplicate }))
      return { kind: 'accepted', items }
    } catch (error) {
      for (const plan of planned) this.#forgoAll(plan)
      throw error
    } finally {
      this.#waitingBytes -= bytes
      this.#waitingRows -= rows
    }
  }

  #refuseLoops(inputs: readonly EventInput[]): void {
    const { hopsMax } = this.#parts
    for (const { headers } of inputs) {
      const hops = hopsOf(headers)
      if (hops <= hopsMax) continue
      const message = `The event has passed through ${hops} Posthorn servers (${hopsHeader}), and POSTHORN_HOPS_MAX is ${hopsMax}: an endpoint probably leads back to where its events come from.`
      throw new PosthornError('loop_detected', message)
    }
  }

  /** How many rows these will be: events and deliveries. A batch is kept in one piece, so its fan-out is bounded too. */
  #rowsOf(inputs: readonly EventInput[]): number {
    const deliveries = inputs.reduce((sum, { tenant, type }) => sum + this.#parts.route(tenant, type).length, 0)
    if (inputs.length === 1 || deliveries <= deliveriesPerBatchMax) return inputs.length + deliveries
    const message = `This batch would make ${deliveries} deliveries, and one may make ${deliveriesPerBatchMax}; send smaller batches.`
    throw new PosthornError('invalid', message)
  }

  /** Refuses what comes from now on; what was taken in before is answered. */
  stop(): void {
    this.#open = false
  }

  #plan(input: EventInput): Planned {
    const now = this.#parts.clock.wall()
    const { type, tenant, key, headers, content } = input
    const wrapped =
      content.kind === 'data' ? envelope(type, now, content.bytes) : { body: ownBytes(content.bytes), dataOffset: null }
    const event: Event = {
      id: this.#parts.ids.next('evt', now),
      tenant,
      type,
      key,
      receivedAt: now,
      contentType: content.kind === 'data' ? 'application/json' : content.type,
      headers,
      body: wrapped.body,
      dataOffset: wrapped.dataOffset,
      request: input.request,
    }
    const endpoints = this.#parts.route(tenant, type)
    const deliveries = endpoints.map(
      (endpoint): NewDelivery => ({
        id: this.#parts.ids.next('dlv', now),
        endpointId: endpoint.id,
        lane: laneOf(endpoint.ordering, key),
        dueAt: this.#parts.clock.steady(),
        leaseEndsAt: this.#parts.fresh.reserve(endpoint, event.body),
      }),
    )
    const idempotency = input.idempotency && {
      ...input.idempotency,
      expiresAt: now + input.idempotency.keptMs,
    }
    return { arrival: { event, idempotency, deliveries }, endpoints }
  }

  #handOver(planned: readonly Planned[], items: readonly AppendedItem[]): void {
    const claims: Claim[] = []
    planned.forEach((plan, index) => {
      const item = items[index]
      if (item === undefined || item.duplicate) this.#forgoAll(plan)
      else this.#handOverOne(plan, item, claims)
    })
    if (claims.length > 0) this.#parts.fresh.receive(claims)
  }

  #handOverOne({ arrival, endpoints }: Planned, item: AppendedItem, claims: Claim[]): void {
    const { event, deliveries } = arrival
    this.#announce(arrival, item)
    endpoints.forEach((endpoint, index) => {
      const delivery = deliveries[index]
      if (delivery === undefined) return
      if (item.claimed[index] && delivery.leaseEndsAt !== null) {
        claims.push({ delivery: bornClaimed(delivery, event, delivery.leaseEndsAt), event, interruptions: 0 })
        return
      }
      // Wanted but not claimed: it waits behind another in its lane, whose end brings it up.
      if (delivery.leaseEndsAt === null) this.#parts.fresh.goOnWhenDue(endpoint, delivery.dueAt)
      else this.#parts.fresh.unreserve(endpoint, event.body)
    })
  }

  #announce({ event, deliveries }: Arrival, item: AppendedItem): void {
    const { notices } = this.#parts
    if (!notices.heard) return
    const { id: eventId, tenant, type } = event
    notices.publish({ kind: 'event.accepted', tenant, eventId, type, deliveries: item.deliveries })
    for (const at of item.ended) {
      const { id: deliveryId, endpointId, ended } = deliveries[at] as NewDelivery
      const end = { status: 'failed', reason: ended?.reason ?? 'endpoint_deleted' } as const
      notices.publish({ kind: 'delivery.ended', tenant, deliveryId, eventId, endpointId, type, ...end })
    }
  }

  #forgoAll({ arrival, endpoints }: Planned): void {
    endpoints.forEach((endpoint, index) => {
      const reserved = arrival.deliveries[index]?.leaseEndsAt !== null
      if (reserved) this.#parts.fresh.unreserve(endpoint, arrival.event.body)
    })
  }
}

/** The delivery as `append` wrote it when it was claimed at birth. */
function bornClaimed(delivery: NewDelivery, { id: eventId, receivedAt }: Event, leaseEndsAt: number): Processing {
  const { id, endpointId, lane } = delivery
  return born(newborn({ id, eventId, endpointId, lane, receivedAt }), { status: 'processing', leaseEndsAt })
}

/** Bytes that do not keep a larger buffer alive, such as the one that the request was read into. */
function ownBytes(bytes: Uint8Array): Uint8Array {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice()
}
