import { dirname } from 'node:path'
import type { Attempt } from '../../core/attempt.ts'
import type { Endpoint } from '../../core/endpoint.ts'
import type { Event } from '../../core/event.ts'
import type { RegistryStore } from '../registry-store.ts'
import type { ReplayStore } from '../replay-store.ts'
import type {
  Appended,
  Arrival,
  Backlog,
  Change,
  ChangeResult,
  ClaimAnswer,
  ClaimRequest,
  Condition,
  DeliveryQuery,
  DeliveryRecord,
  EventQuery,
  EventSummary,
  LeaseRenewal,
  Page,
  Store,
  StoreHealth,
} from '../store.ts'
import type { UpkeepStore } from '../upkeep-store.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { makeFolder } from './folder.ts'
import { packArrival, packChange, unpackAppended, unpackResult } from './messages.ts'
import { realFile } from './open-file.ts'
import { ReadThread } from './read-thread.ts'
import { WriteThread } from './write-thread.ts'

export type SqliteSettings = Readonly<{
  file: string
  /** The encryption key; null: the key file beside the database. */
  key: Uint8Array | null
  /** The writer thread died of a defect: nothing can be kept any more, the process has to end. */
  onFatal: (error: Error) => void
  /** How long a write waits for another program's lock. */
  busyTimeoutMs?: number
}>

/** A store and the last number of its ids, from which new ids go on. */
export type OpenedSqliteStore = Readonly<{ store: Store; lastNumber: number }>

export async function openSqliteStore(settings: SqliteSettings): Promise<OpenedSqliteStore> {
  const file = realFile(settings.file)
  const { key, onFatal, busyTimeoutMs = busyTimeoutDefaultMs } = settings
  makeFolder(dirname(file))
  const writer = new WriteThread({ file, key, busyTimeoutMs }, onFatal)
  const lastNumber = await writer.opened
  const reader = new ReadThread(file)
  return { store: new SqliteStore(writer, reader) as unknown as Store, lastNumber }
}

/** The store on the event loop's side: packs, sends, unpacks. */
class SqliteStore
  implements
    Pick<Store, Exclude<keyof Store, keyof ReplayStore | keyof RegistryStore | Exclude<keyof UpkeepStore, 'pruneKeys'>>>
{
  readonly #writer: WriteThread
  readonly #reader: ReadThread
  #closing: Promise<void> | null = null

  constructor(writer: WriteThread, reader: ReadThread) {
    this.#writer = writer
    this.#reader = reader
  }

  async append(arrivals: readonly Arrival[]): Promise<Appended> {
    const answer = await this.#writer.append(
      arrivals.map((arrival) => arrival.event.body),
      (offsets) => ({
        name: 'append',
        request: arrivals.map((arrival, index) => packArrival(arrival, offsets[index] ?? 0)),
      }),
    )
    return unpackAppended(answer, arrivals)
  }

  claim(request: ClaimRequest): Promise<ClaimAnswer> {
    return this.#writer.call('claim', request)
  }

  async commit(changes: readonly Change[]): Promise<readonly ChangeResult[]> {
    const results = await this.#writer.call('commit', changes.map(packChange))
    return results.map(unpackResult)
  }

  async renew(leases: readonly LeaseRenewal[]): Promise<void> {
    await this.#writer.call('renew', leases)
  }

  backlog(now: number): Promise<readonly Backlog[]> {
    return this.#writer.call('backlog', now)
  }

  pullBack(endpointId: string, latestDueAt: number): Promise<number> {
    return this.#writer.call('pullBack', { endpointId, latestDueAt })
  }

  async putEndpoint(endpoint: Endpoint): Promise<void> {
    await this.#writer.call('putEndpoint', endpoint)
  }

  async removeEndpoint(id: string): Promise<void> {
    await this.#writer.call('removeEndpoint', id)
  }

  listEndpoints(): Promise<readonly Endpoint[]> {
    return this.#writer.call('listEndpoints', null)
  }

  endPending(request: Parameters<Store['endPending']>[0]): Promise<number> {
    return this.#writer.call('endPending', request)
  }

  async putConditions(conditions: readonly Condition[]): Promise<void> {
    await this.#writer.call('putConditions', conditions)
  }

  listConditions(): Promise<readonly Condition[]> {
    return this.#writer.call('listConditions', null)
  }

  getEvent(id: string): Promise<Event | null> {
    return this.#reader.call('getEvent', id)
  }

  listEvents(query: EventQuery): Promise<Page<EventSummary>> {
    return this.#reader.call('listEvents', query)
  }

  getDelivery(id: string): Promise<DeliveryRecord | null> {
    return this.#reader.call('getDelivery', id)
  }

  listAttempts(deliveryId: string): Promise<readonly Attempt[]> {
    return this.#reader.call('listAttempts', deliveryId)
  }

  listDeliveries(query: DeliveryQuery): Promise<Page<DeliveryRecord>> {
    return this.#reader.call('listDeliveries', query)
  }

  pruneKeys(now: number, limit: number): Promise<number> {
    return this.#writer.call('pruneKeys', { now, limit })
  }

  health(): StoreHealth {
    return this.#writer.health
  }

  close(): Promise<void> {
    this.#closing ??= this.#reader.close().then(() => this.#writer.close())
    return this.#closing
  }
}
