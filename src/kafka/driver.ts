import type { KafkaError } from './kafka-error.ts'

/**
 * The port to Kafka and what speaks its protocol. What fails is a `KafkaError`; problems that the driver gets over by
 * itself, such as a broker that is away for a while, go to `onProblem`, some of them again and again.
 */
export interface KafkaDriver {
  /** A member of a group; it joins with the first `poll`. Rejects when no broker answers, or none lets us in. */
  openConsumer(options: ConsumerOptions, owner: PartitionOwner): Promise<KafkaConsumer>

  /** Rejects when no broker answers, or none lets us in. */
  openProducer(options: ProducerOptions): Promise<KafkaProducer>

  /** Connects when it is used. */
  openAdmin(options: ConnectionOptions): KafkaAdmin
}

export type ConnectionOptions = Readonly<{
  /** Bootstrap servers, `host:port`, separated by commas. */
  brokers: string
  /** Security and tuning, by the driver's own names, such as `sasl.username`. What the driver sets itself is refused. */
  settings?: Readonly<Record<string, string | number | boolean>>
  /** How long opening, and each question to a broker, may take. */
  answerMsMax?: number
  onProblem?: (problem: KafkaError) => void
}>

export type ConsumerOptions = ConnectionOptions &
  Readonly<{
    /** Those that do not exist are reported, and taken up within seconds of being created. */
    topics: readonly string[]
    group: string
    /** `consumer` is the protocol of KIP-848, for brokers from 4.0. Both give and take single partitions (cooperative). */
    protocol: 'classic' | 'consumer'
    /** Where a partition begins of which the group has committed nothing, or something that is gone. */
    start: 'earliest' | 'latest'
    /** A poll brings no more records than this. */
    pollRecordsMax?: number
  }>

export type ProducerOptions = ConnectionOptions &
  Readonly<{
    /** A message that no broker has acknowledged for so long is given up. It may have arrived nevertheless. */
    messageMsMax: number
    /** How long messages wait for others that go along in one request. */
    lingerMs?: number
  }>

export type Partition = Readonly<{ topic: string; partition: number }>

/** A name may occur several times. Values are bytes; a missing one is read as an empty one. */
export type KafkaHeader = readonly [name: string, value: Uint8Array]

export type KafkaRecord = Readonly<{
  topic: string
  partition: number
  offset: number
  /** null: the broker did not say. */
  leaderEpoch: number | null
  key: Uint8Array | null
  /** null: a tombstone. */
  value: Uint8Array | null
  /** In the order of the record. */
  headers: readonly KafkaHeader[]
  /** Epoch milliseconds; null: the record has none. */
  timestamp: number | null
}>

/** The next offset to process, with a text that the broker keeps beside it; what NUL characters end it is not read. */
export type CommittedOffset = Readonly<{
  topic: string
  partition: number
  offset: number
  metadata: string
  leaderEpoch?: number | null
}>

/** What is told of partitions that come and go. These are called while `poll` or `close` is under way, one at a time. */
export interface PartitionOwner {
  /**
   * These are ours from now on. Their records come after this has resolved: the owner reads what was committed meanwhile.
   * When it rejects, so does `poll`.
   */
  assigned(partitions: readonly Partition[]): Promise<void>

  /**
   * These go to another member, or the consumer is closing. Their records come no more. They are ours until this has
   * resolved, and may be committed: the next member starts from there. Retained partitions bring nothing meanwhile, and
   * the group waits, so this is short. When it rejects, so does `poll`; the partitions are given up nevertheless.
   */
  revoked(partitions: readonly Partition[]): Promise<void>

  /** These were taken from us: another member may have had them for a while. Nothing of them can be committed. */
  lost(partitions: readonly Partition[]): void
}

/** One member of a consumer group. Offsets are committed by `commit` and in no other way. */
export interface KafkaConsumer {
  /**
   * The next records, in the order of each partition; none after a short while without. One poll at a time. Everything
   * else happens while polls are under way: the group takes a member that does not poll for one that hangs, and
   * commits are confirmed by polls. So keep polling, with partitions paused, while records are being processed.
   */
  poll(): Promise<readonly KafkaRecord[]>

  /**
   * Polls that begin after this bring nothing of these partitions; the one that is under way may. Nothing is left out
   * and nothing comes twice. A partition that is assigned again is not paused. Others than ours are ignored.
   */
  pause(partitions: readonly Partition[]): void
  resume(partitions: readonly Partition[]): void

  /** The next records of the partition are those from this offset on: polls that return after this has resolved bring them. */
  seek(partition: Partition, offset: number): Promise<void>

  /**
   * Resolves when the broker has kept all of them. When it rejects, some may have been kept. `lost`: the partition is
   * not ours. `too_large`: the metadata has more bytes than `metadataBytesMax` (core/offset-metadata.ts), or than this broker takes.
   */
  commit(offsets: readonly CommittedOffset[]): Promise<void>

  /** What the group has committed, as the broker has it; those without a commit are left out. */
  committed(partitions: readonly Partition[]): Promise<readonly CommittedOffset[]>

  /** Gives up all partitions by `revoked`, leaves the group and disconnects. Polls reject from now on. May be called twice. */
  close(): Promise<void>
}

export type KafkaMessage = Readonly<{
  topic: string
  /** null: by the key, as Java's clients do (murmur2); without a key, any. */
  partition: number | null
  key: Uint8Array | null
  value: Uint8Array | null
  headers: readonly KafkaHeader[]
  /** Epoch milliseconds, above zero; null: now. */
  timestamp: number | null
}>

/** `failed`: by kind `too_large`, `unknown_topic` or `unauthorized` it was not kept; otherwise nobody knows. */
export type Produced =
  | Readonly<{ kind: 'acknowledged'; topic: string; partition: number; offset: number }>
  | Readonly<{ kind: 'failed'; error: KafkaError }>

export interface KafkaProducer {
  /**
   * One answer for each message, in their order: acknowledged by all in-sync replicas, or failed. Messages of one
   * partition keep their order, also those of several calls, and a message that is repeated on its way is kept once
   * (idempotent). Never rejects.
   */
  send(messages: readonly KafkaMessage[]): Promise<readonly Produced[]>

  /** Sends what waits for at most `waitMsMax`. Every message has its answer when this resolves. May be called twice. */
  close(waitMsMax?: number): Promise<void>
}

export type NewTopic = Readonly<{
  topic: string
  partitions: number
  replicas?: number
  settings?: Readonly<Record<string, string>>
}>

/** `latest`: of the next record to come. */
export type PartitionEnds = Readonly<{ topic: string; partition: number; earliest: number; latest: number }>

export interface KafkaAdmin {
  /** Rejects with `exists` when one of them is there. */
  createTopics(topics: readonly NewTopic[]): Promise<void>

  /** How many partitions each topic has; topics that do not exist are left out. */
  partitionCounts(topics: readonly string[]): Promise<ReadonlyMap<string, number>>

  /** Rejects with `unknown_topic` when one of them does not exist. */
  ends(partitions: readonly Partition[]): Promise<readonly PartitionEnds[]>

  /** The names of all groups that the brokers know. */
  groups(): Promise<readonly string[]>

  /** What a group has committed; nothing for one that does not exist. */
  committed(group: string): Promise<readonly CommittedOffset[]>

  /** Rejects with `unknown_topic` when one of them does not exist. */
  deleteTopics(topics: readonly string[]): Promise<void>

  /** Rejects with `in_use` for a group that has members, and `unknown_group` for one that does not exist. */
  deleteGroups(groups: readonly string[]): Promise<void>

  /** May be called twice. */
  close(): void
}
