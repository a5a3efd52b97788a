import type { Breaker } from '../core/circuit-breaker.ts'
import type { Hold } from '../core/consumer-hold.ts'
import type { PartitionWork } from './partition-work.ts'
import type { RecordState } from './record-work.ts'

/** What became of records, since the start. */
export type Tally = {
  processed: number
  deadLetters: number
  skipped: number
  duplicates: number
  attempts: number
  failures: number
}

export function tallyOfNothing(): Tally {
  return { processed: 0, deadLetters: 0, skipped: 0, duplicates: 0, attempts: 0, failures: 0 }
}

export type PartitionSnapshot = Readonly<{
  topic: string
  partition: number
  epoch: number
  /** null: the group has committed nothing. */
  committed: number | null
  records: Readonly<Record<RecordState, number>>
  blocked: string | null
  isPaused: boolean
}>

/** How a consumer is doing, for people. */
export type ConsumerSnapshot = Readonly<{
  name: string
  group: string
  topics: readonly string[]
  /** Why it starts nothing; null: it does. */
  hold: Hold | null
  /** Why it gets no records, or cannot commit; null: nothing is wrong. */
  problem: string | null
  partitions: readonly PartitionSnapshot[]
  /** Dependencies whose breaker is not closed. */
  breakers: ReadonlyMap<string, Breaker>
  /** Dead letters among the latest records; null: there is no limit. */
  budgetUsed: number | null
  tally: Readonly<Tally>
}>

export function partitionSnapshot(work: PartitionWork, isPaused: boolean): PartitionSnapshot {
  const records = { queued: 0, running: 0, waiting: 0, parked: 0, writing: 0, ended: 0 }
  for (const { state } of work.records()) records[state] += 1
  const { topic, partition, epoch, blocked } = work
  return { topic, partition, epoch, committed: work.committed?.offset ?? null, records, blocked, isPaused }
}
