import type { Notice } from '../core/notice.ts'
import type { Item } from './notice-message.ts'

/** Notices that are sent together, each as JSON. */
export type Batch = Readonly<{ items: readonly string[]; tenants: readonly Tenant[]; dropped: readonly Dropped[] }>
type Tenant = string | null
type Dropped = readonly [tenant: Tenant, count: number]

export type Room = Readonly<{ bytesMax: number; itemBytesMax: number }>

/** Whose drops are counted apart. Only clients that see all tenants learn what others drop. */
const tenantsMax = 1_000

/** Notices that wait to be sent to other processes, in a bounded part of memory. What finds no room is counted. */
export class WaitingNotices {
  readonly #room: Room
  #items: string[] = []
  #tenants: Tenant[] = []
  #bytes = 0
  /** What does not fit any more is not even put into text. */
  #isFull = false
  readonly #dropped = new Map<Tenant, number>()

  constructor(room: Room) {
    this.#room = room
  }

  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#dropped.size === 0
  }

  /** Answers whether there was room for it. */
  add(notice: Notice, at: number): boolean {
    const item = this.#isFull ? null : this.#itemOf(notice, at)
    if (item === null) this.#drop(notice.tenant, 1)
    else {
      this.#items.push(item)
      this.#tenants.push(notice.tenant)
    }
    return item !== null
  }

  /** All of it; how many were dropped comes last. */
  take(): Batch {
    const dropped = [...this.#dropped]
    const told = dropped.map(([tenant, count]) => JSON.stringify({ tenant, dropped: count } satisfies Item))
    const batch = { items: [...this.#items, ...told], tenants: this.#tenants, dropped }
    this.clear()
    return batch
  }

  /** It could not be sent. */
  lost({ tenants, dropped }: Batch): void {
    for (const tenant of tenants) this.#drop(tenant, 1)
    for (const [tenant, count] of dropped) this.#drop(tenant, count)
  }

  clear(): void {
    this.#items = []
    this.#tenants = []
    this.#bytes = 0
    this.#isFull = false
    this.#dropped.clear()
  }

  /** null: there is no room for it. */
  #itemOf(notice: Notice, at: number): string | null {
    const { bytesMax, itemBytesMax } = this.#room
    const item = JSON.stringify({ at, notice } satisfies Item)
    const bytes = Buffer.byteLength(item)
    if (bytes >= itemBytesMax) return null
    this.#isFull = this.#bytes + bytes > bytesMax
    if (this.#isFull) return null
    this.#bytes += bytes
    return item
  }

  #drop(tenant: Tenant, count: number): void {
    const isKnown = this.#dropped.has(tenant) || this.#dropped.size < tenantsMax
    const counted = isKnown ? tenant : null
    this.#dropped.set(counted, (this.#dropped.get(counted) ?? 0) + count)
  }
}
