import { type BudgetPolicy, defaultBudget } from './dead-letter-budget.ts'
import { presets, type RetryPolicy } from './retry-policy.ts'

/** Which records wait for each other: those of one key in a partition, those of one partition, or none. */
export const consumerOrderings = ['key', 'partition', 'none'] as const
export type ConsumerOrdering = (typeof consumerOrderings)[number]

/** What becomes of records that need a dependency whose breaker is open: they wait, are passed, or become dead letters. */
export const whenDependencyOpen = ['park', 'skip', 'fail'] as const
export type WhenDependencyOpen = (typeof whenDependencyOpen)[number]

export type ConsumerSettings = Readonly<{
  name: string
  topics: readonly string[]
  group: string
  ordering: ConsumerOrdering
  /** Attempts under way at once, in this process. */
  concurrency: number
  timeoutMs: number
  retry: RetryPolicy
  /** Where a record goes that cannot be processed; false: it is logged, counted and passed. */
  dlq: 'topic' | false
  dlqTopicSuffix: string
  whenOpen: WhenDependencyOpen
  /** null: no limit. */
  budget: BudgetPolicy | null
  /** How many records, and how many bytes of them, may be in memory; beyond that their partitions pause. */
  recordsMax: number
  recordBytesMax: number
  commitEveryMs: number
  /** How long records under way may take to end when their partition moves to another process. */
  drainMs: number
}>

export const consumerDefaults = {
  ordering: 'key',
  concurrency: 16,
  timeoutMs: 30_000,
  retry: presets.kafka,
  dlq: 'topic',
  dlqTopicSuffix: '.dlq',
  whenOpen: 'park',
  budget: defaultBudget,
  recordsMax: 10_000,
  recordBytesMax: 64 * 1024 * 1024,
  commitEveryMs: 200,
  drainMs: 10_000,
} as const satisfies Partial<ConsumerSettings>

/** The parts of a record that say which lane it is in. `key`: its bytes as text, one character each; null: it has none. */
export type LaneFacts = Readonly<{ offset: number; key: string | null }>

/** Of the lanes of one partition. Records without a key wait for nobody, unless their whole partition is in order. */
export function laneOfRecord(ordering: ConsumerOrdering, { offset, key }: LaneFacts): string {
  switch (ordering) {
    case 'partition':
      return ''
    case 'key':
      return key === null ? `${offset}` : `=${key}`
    case 'none':
      return `${offset}`
  }
}
