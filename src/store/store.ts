import type { Bus } from '../shared-state/bus.ts'
import type { ClusterStore } from './cluster-store.ts'
import type { PipelineStore } from './pipeline-store.ts'
import type { RecordStore } from './record-store.ts'
import type { RegistryStore } from './registry-store.ts'
import type { ReplayStore } from './replay-store.ts'
import type { StoreSpace, UpkeepStore } from './upkeep-store.ts'

/**
 * Where events are kept. The rows are the queue: there is no second place that can disagree with them.
 *
 * Every promise holds for every adapter and is checked by test/contracts/store.ts. Instants are epoch milliseconds,
 * passed in.
 *
 * A write resolves when it is durable. When it rejects, with a PosthornError whose code begins with `store_`, none of it
 * was kept and none of it will be: an adapter that lost sight of a commit finds out what became of it before it answers.
 * Only the end of this process, or of the store itself, leaves a write in doubt. Whoever makes it again then does so
 * under the same key, origin or version, and it is kept once.
 */
export interface Store extends PipelineStore, RecordStore, RegistryStore, ReplayStore, UpkeepStore, ClusterStore {
  /** How large it is; only for a store whose files are ours. */
  readonly space?: StoreSpace
  /** How processes send each other texts; only for a store that several may share. It closes with the store. */
  readonly bus?: Bus
  /** Whether the last write was kept; `problem` is a sentence for a person. Turns healthy again by itself. */
  health(): StoreHealth
  /** Writes what is under way, then closes. Reads that wait are rejected as `shutting_down`. May be called twice. */
  close(): Promise<void>
}

/** What was written together: how many calls, and what their commit took, the sync of the disk included. */
export type WrittenBatch = Readonly<{ calls: number; commitMs: number }>

export type StoreHealth = Readonly<{ writable: boolean; problem: string | null }>
