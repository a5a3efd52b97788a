import type { Event, EventHead } from '../core/event.ts'
import { type Claim, type ClaimAnswer, largeBytesMin, type Upcoming } from './pipeline-store.ts'

/** An event without its body if that is a large one: then `body` is its length. */
export type LightEvent = EventHead & Readonly<{ body: Uint8Array | number }>

export function bytesOf({ body }: LightEvent): number {
  return typeof body === 'number' ? body : body.length
}

/** Work as an adapter reads it. */
export type LightClaim = Claim<LightEvent>
export type LightClaimAnswer = ClaimAnswer<LightEvent>
export type LightUpcoming = Upcoming<LightEvent>
type Filled<T> = T & Readonly<{ event: Event }>

const fetchesMax = 3
/** When this many are noted, those that nobody holds any more are forgotten. */
const notedMin = 256

/** Large bodies. Each is in memory once, however many deliveries need it: whoever comes later shares it. */
export class Bodies {
  readonly #fetch: (eventId: string) => Promise<Uint8Array | null>
  readonly #noted = new Map<string, WeakRef<Uint8Array>>()
  readonly #coming = new Map<string, Promise<Uint8Array>>()
  #tidyAt = notedMin

  constructor(fetch: (eventId: string) => Promise<Uint8Array | null>) {
    this.#fetch = fetch
  }

  /** It is in memory: what is claimed of it later need not be read. */
  note({ id, body }: Event): void {
    if (body.length >= largeBytesMin) this.#note(id, body)
  }

  /** Gives every event its body. */
  async fill<T extends Readonly<{ event: LightEvent }>>(items: readonly T[]): Promise<readonly Filled<T>[]> {
    for (const { event } of items) if (typeof event.body === 'number') return Promise.all(items.map(this.#filled<T>))
    return items as readonly Filled<T>[]
  }

  readonly #filled = async <T extends Readonly<{ event: LightEvent }>>(item: T): Promise<Filled<T>> => {
    const { event } = item
    if (typeof event.body !== 'number') return item as Filled<T>
    return { ...item, event: { ...event, body: await this.#bodyOf(event.id) } }
  }

  #bodyOf(eventId: string): Promise<Uint8Array> | Uint8Array {
    const known = this.#noted.get(eventId)?.deref() ?? this.#coming.get(eventId)
    if (known !== undefined) return known
    const coming = this.#read(eventId).finally(() => this.#coming.delete(eventId))
    this.#coming.set(eventId, coming)
    return coming
  }

  /** What it is for is claimed already, and would be left to its lease: a database that is busy is asked again. */
  async #read(eventId: string): Promise<Uint8Array> {
    const body = await this.#fetched(eventId)
    if (body === null) throw new Error(`the body of ${eventId} is gone`)
    this.#note(eventId, body)
    return body
  }

  async #fetched(eventId: string): Promise<Uint8Array | null> {
    for (let fetches = 1; ; fetches++) {
      try {
        return await this.#fetch(eventId)
      } catch (error) {
        if (fetches >= fetchesMax) throw error
      }
    }
  }

  #note(eventId: string, body: Uint8Array): void {
    if (this.#noted.size >= this.#tidyAt) {
      for (const [id, noted] of this.#noted) if (noted.deref() === undefined) this.#noted.delete(id)
      this.#tidyAt = Math.max(notedMin, 2 * this.#noted.size)
    }
    this.#noted.set(eventId, new WeakRef(body))
  }
}
