import type { Reason } from '../core/outcome.ts'
import type { KafkaRecord } from '../kafka/driver.ts'
import type { RecordFailure } from './record-work.ts'

/** A record that cannot be processed, with all that a person or a program needs to look into it. */
export type DeadLetter = Readonly<{
  consumer: string
  group: string
  record: KafkaRecord
  reason: Reason
  failure: RecordFailure
  attempts: number
  epoch: number
  /** Epoch milliseconds. */
  failedAt: number
}>

/**
 * Where dead letters go. The offset of a record moves only after `put` has resolved, so what resolves is kept: acknowledged
 * by all replicas of the topic, or on the disk of the store. Putting the same one twice is harmless. Rejects with what is
 * wrong, in a sentence for people.
 */
export interface DeadLetters {
  put(letter: DeadLetter): Promise<void>
}
