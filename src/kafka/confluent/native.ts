// The part of @confluentinc/kafka-javascript that the driver uses. Its own types leave out some of it.
import { createRequire } from 'node:module'
import path from 'node:path'
import { PosthornError } from '../../core/errors.ts'

export type NativeError = Readonly<{ code: number; message: string; isFatal?: boolean }>
export type NativeCallback<T = void> = (error: NativeError | null | undefined, value: T) => void
export type NativeSettings = Readonly<Record<string, unknown>>

export type NativePartition = Readonly<{
  topic: string
  partition: number
  offset?: number
  metadata?: string
  leaderEpoch?: number
  error?: NativeError
}>

export type NativeMessage = Readonly<{
  topic: string
  partition: number
  offset: number
  leaderEpoch?: number
  key: Buffer | null
  value: Buffer | null
  /** One name and value each; absent when there are none. */
  headers?: readonly Readonly<Record<string, Buffer>>[]
  timestamp: number
}>

interface NativeClient {
  connect(options: Readonly<{ timeout: number }>, callback: NativeCallback<unknown>): void
  disconnect(callback: () => void): void
  on(event: 'event.error', listener: (error: NativeError) => void): void
}

export interface NativeConsumer extends NativeClient {
  setDefaultConsumeTimeout(ms: number): void
  setDefaultIsTimeoutOnlyForFirstMessage(is: boolean): void
  subscribe(topics: readonly string[]): void
  unsubscribe(): void
  consume(count: number, callback: NativeCallback<readonly NativeMessage[]>): void
  incrementalAssign(partitions: readonly NativePartition[]): void
  incrementalUnassign(partitions: readonly NativePartition[]): void
  assignmentLost(): boolean
  pause(partitions: readonly NativePartition[]): void
  resume(partitions: readonly NativePartition[]): void
  seek(partition: NativePartition, timeoutMs: number, callback: NativeCallback): void
  commit(offsets: readonly NativePartition[]): void
  committed(
    partitions: readonly NativePartition[],
    timeoutMs: number,
    callback: NativeCallback<readonly NativePartition[]>,
  ): void
}

export type NativeReport = Readonly<{ topic: string; partition: number; offset: number; opaque: unknown }>

export interface NativeProducer extends NativeClient {
  on(event: 'event.error', listener: (error: NativeError) => void): void
  on(event: 'delivery-report', listener: NativeCallback<NativeReport>): void
  setPollInBackground(is: boolean): void
  poll(): void
  produce(
    topic: string,
    partition: number | null,
    value: Buffer | null,
    key: Buffer | null,
    timestamp: number | null,
    opaque: unknown,
    headers: readonly Readonly<Record<string, Buffer>>[],
  ): void
  flush(timeoutMs: number, callback: () => void): void
  disconnect(...args: [timeoutMs: number, callback: () => void] | [callback: () => void]): void
}

export type NativeTopic = Readonly<{
  name: string
  error?: NativeError
  partitions: readonly unknown[]
}>

export type NativeGroupOffsets = Readonly<{ error?: NativeError; partitions: readonly NativePartition[] }>

type Timeout = Readonly<{ timeout: number }>

export interface NativeAdmin {
  createTopic(
    topic: Readonly<{
      topic: string
      num_partitions: number
      replication_factor: number
      config?: Readonly<Record<string, string>>
    }>,
    timeoutMs: number,
    callback: NativeCallback,
  ): void
  deleteTopic(topic: string, timeoutMs: number, callback: NativeCallback): void
  describeTopics(topics: readonly string[], options: Timeout, callback: NativeCallback<readonly NativeTopic[]>): void
  listOffsets(
    partitions: readonly Readonly<{ topic: string; partition: number; offset: unknown }>[],
    options: Timeout,
    callback: NativeCallback<readonly NativePartition[]>,
  ): void
  listGroups(
    options: Timeout,
    callback: NativeCallback<Readonly<{ groups: readonly Readonly<{ groupId: string }>[] }>>,
  ): void
  listConsumerGroupOffsets(
    groups: readonly Readonly<{ groupId: string }>[],
    options: Timeout,
    callback: NativeCallback<readonly NativeGroupOffsets[]>,
  ): void
  deleteGroups(
    groups: readonly string[],
    options: Timeout,
    callback: NativeCallback<readonly Readonly<{ error?: NativeError }>[]>,
  ): void
  disconnect(): void
}

/** Never give the clients' second argument, settings of topics: with it, those among the first ones mean nothing. */
export type Native = Readonly<{
  KafkaConsumer: new (settings: NativeSettings) => NativeConsumer
  Producer: new (settings: NativeSettings) => NativeProducer
  AdminClient: Readonly<{
    create(
      settings: NativeSettings,
      listeners: Readonly<Record<'event.error', (error: NativeError) => void>>,
    ): NativeAdmin
    OffsetSpec: Readonly<{ EARLIEST: unknown; LATEST: unknown }>
  }>
}>

const packageName = '@confluentinc/kafka-javascript'
const version = '^1.10.1'

/** Installed by those who use it: beside Posthorn, else in `folder`. It may be loaded in one thread of a process only. */
export function loadNative(folder: string | null): Native {
  const found = locate(folder)
  try {
    return createRequire(import.meta.url)(found)
  } catch (cause) {
    const message =
      `The package ${packageName} does not load on Node ${process.versions.node}. Compile it for this Node with ` +
      `\`CKJS_LINKING=dynamic npm_config_build_from_source=true npm rebuild ${packageName}\`.`
    throw new PosthornError('config_invalid', message, { cause })
  }
}

function locate(folder: string | null): string {
  const own = createRequire(import.meta.url)
  const places = folder === null ? [own] : [own, createRequire(path.resolve(folder, 'index.js'))]
  for (const [at, place] of places.entries()) {
    try {
      return place.resolve(packageName)
    } catch (cause) {
      if (at < places.length - 1) continue
      const message = `Kafka needs the package ${packageName}. Install it with \`npm install ${packageName}@${version}\`.`
      throw new PosthornError('config_invalid', message, { cause })
    }
  }
  throw new Error('there is always a place to look')
}
