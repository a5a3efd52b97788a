import type { Thrown } from '../core/handler-errors.ts'
import type { Loaded, ModuleCode, Subject, TaskRules } from './engine.ts'
import type { AbortReason } from './run-context.ts'

/** What a worker is told. `job` is the number of what it is asked for, and every answer to that carries it. */
export type ToWorker =
  | Readonly<{ kind: 'load'; job: number; code: ModuleCode }>
  | Readonly<{ kind: 'run'; job: number; code: ModuleCode; task: WorkerTask }>
  | Readonly<{ kind: 'abort'; job: number; reason: AbortReason }>

/** A task without what only the engine's own side needs. */
export type WorkerTask = Subject & Pick<TaskRules, 'name' | 'bytes' | 'attempt' | 'ref'>

export type FromWorker =
  | Readonly<{ kind: 'ready' }>
  /** Answers a `load`, and a `run` whose code could not be loaded. */
  | Readonly<{ kind: 'loaded'; job: number; loaded: Loaded }>
  /** The handler is about to begin. */
  | Readonly<{ kind: 'started'; job: number }>
  | Readonly<{ kind: 'ended'; job: number; thrown: Thrown | null }>
  /** Nothing caught this error. `job` is the one that caused it; null: unknown. */
  | Readonly<{ kind: 'uncaught'; job: number | null; thrown: Thrown }>

const kinds: readonly unknown[] = ['ready', 'loaded', 'started', 'ended', 'uncaught'] satisfies FromWorker['kind'][]

/** Handlers and what they import may send messages of their own: those are none of ours. */
export function readFromWorker(message: unknown): FromWorker | null {
  const isOurs = typeof message === 'object' && message !== null && 'posthorn' in message && 'kind' in message
  return isOurs && kinds.includes(message.kind) ? (message as FromWorker) : null
}
