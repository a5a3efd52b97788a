import type { Clock } from '../core/clock.ts'
import type { ConsumerSettings } from '../core/consumer.ts'
import type { Outcome } from '../core/outcome.ts'
import type { KafkaConsumer, PartitionOwner } from '../kafka/driver.ts'
import type { Logger } from '../log.ts'
import type { CopyRules } from './copies.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { Dependencies } from './dependencies.ts'
import type { RecordFailure, RecordWork } from './record-work.ts'

/** One attempt at a record, and what it meant. Never rejects. */
export type Attempted = Readonly<{ outcome: Outcome; failure: RecordFailure | null }>
export type RunRecord = (work: RecordWork, signal: AbortSignal) => Promise<Attempted>

export type ConsumerParts = Readonly<{
  settings: ConsumerSettings
  /** Joins the group. */
  join: (owner: PartitionOwner) => Promise<KafkaConsumer>
  run: RunRecord
  /** null: what cannot be processed is logged, counted and passed. */
  deadLetters: DeadLetters | null
  dependencies: Dependencies
  /** null: copies are not recognised. */
  copies: CopyRules | null
  clock: Clock
  log: Logger
  random: () => number
}>
