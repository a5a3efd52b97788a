import type { KafkaRecord } from '../kafka/driver.ts'
import type { Reservation } from '../shared-state/dedup.ts'
import type { PartitionWork } from './partition-work.ts'

/** Why the last attempt at a record failed. */
export type RecordFailure = Readonly<{
  error: string
  errorClass: string | null
  dependency: string | null
  stack: string | null
  /** Epoch milliseconds. */
  startedAt: number
  tookMs: number
}>

/**
 *   queued   it waits for its turn
 *   running  an attempt is under way
 *   waiting  it is tried again later
 *   parked   what it needs is down
 *   writing  its dead letter is being written
 *   ended    it is done, whatever became of it
 */
export type RecordState = 'queued' | 'running' | 'waiting' | 'parked' | 'writing' | 'ended'

/** What a record takes in memory besides its bytes. */
const overheadBytes = 512

/** A record in memory, on its way to its end. The consumer that has it moves it on. */
export class RecordWork {
  readonly record: KafkaRecord
  readonly partition: PartitionWork
  /** Of its partition. */
  readonly lane: string
  readonly bytes: number
  state: RecordState = 'queued'
  /** Attempts made. */
  attempts = 0
  /** Those that count against the retry policy. */
  tries = 0
  failure: RecordFailure | null = null
  /** While there is one, copies of the record are not processed. */
  reservation: Reservation | null = null
  #due: NodeJS.Timeout | null = null

  constructor(record: KafkaRecord, partition: PartitionWork, lane: string) {
    this.record = record
    this.partition = partition
    this.lane = lane
    const { key, value, headers } = record
    const inHeaders = headers.reduce((sum, [name, bytes]) => sum + name.length + bytes.length, 0)
    this.bytes = overheadBytes + (key?.length ?? 0) + (value?.length ?? 0) + inHeaders
  }

  /** It is done, whatever became of it. Answers false if it was before. */
  end(): boolean {
    if (this.state === 'ended') return false
    this.state = 'ended'
    this.forgetDue()
    return true
  }

  /** Calls back once, unless it is ended or forgotten before. */
  wait(ms: number, onDue: () => void): void {
    this.state = 'waiting'
    this.forgetDue()
    this.#due = setTimeout(onDue, Math.max(0, ms)).unref()
  }

  forgetDue(): void {
    if (this.#due !== null) clearTimeout(this.#due)
    this.#due = null
  }

  /** Where it stands in its topic, for logs and for people. */
  get coordinates(): Readonly<{ topic: string; partition: number; offset: number }> {
    const { topic, partition, offset } = this.record
    return { topic, partition, offset }
  }
}
