import { failedRun } from '../core/handler-errors.ts'
import type { Code, Loaded, OwnEngine, Run, Task } from './engine.ts'
import { ModuleLoad } from './module-load.ts'
import { ProcessRun, type RunLimits } from './process-run.ts'
import { WorkerPool } from './worker-pool.ts'
import type { WorkerSettings } from './worker-process.ts'

export type ProcessEngineSettings = WorkerSettings &
  Readonly<{
    /** Processes at most. Each runs one handler at a time. */
    workersMax: number
    limits?: RunLimits
  }>

const limitsDefault: RunLimits = { loadMs: 30_000, graceMs: 1_000 }
const functionsStayHere = failedRun('a function cannot run in another process; name a module and its export')

/**
 * Runs handlers in processes of their own: what one does to its process happens to nobody else. Workers are started when
 * there is something for them, and stay.
 */
export class ProcessEngine implements OwnEngine {
  /** Resolves when it has stopped. */
  readonly ended: Promise<void>
  readonly #resolveEnded: () => void
  readonly #pool: WorkerPool
  readonly #limits: RunLimits
  readonly #runs = new Set<ProcessRun>()
  #isClosed = false

  constructor({ workersMax, limits = limitsDefault, ...settings }: ProcessEngineSettings) {
    this.#pool = new WorkerPool(settings, workersMax)
    this.#limits = limits
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#resolveEnded = resolve
  }

  run(task: Task, signal: AbortSignal): Promise<Run> {
    const { code } = task
    if (signal.aborted || this.#isClosed) return Promise.resolve({ kind: 'interrupted' })
    if (typeof code === 'function') return Promise.resolve({ kind: 'threw', thrown: functionsStayHere })
    return new Promise((resolve) => {
      const run = new ProcessRun(task, code, this.#pool, this.#limits, (answer) => {
        signal.removeEventListener('abort', onAbort)
        this.#runs.delete(run)
        resolve(answer)
        if (this.#isClosed) this.#stopIfIdle()
      })
      const onAbort = (): void => run.interrupt()
      signal.addEventListener('abort', onAbort, { once: true })
      this.#runs.add(run)
      this.#pool.add(run)
    })
  }

  load(code: Code): Promise<Loaded> {
    if (typeof code === 'function') return Promise.resolve({ thrown: functionsStayHere, files: [] })
    if (this.#isClosed) return Promise.resolve({ thrown: failedRun('the engine is stopped'), files: [] })
    return new Promise((resolve) => this.#pool.add(new ModuleLoad(code, this.#limits.loadMs, resolve)))
  }

  retire(): void {
    this.#isClosed = true
    this.#stopIfIdle()
  }

  /** Resolves when none of its processes is left. */
  stop(): Promise<void> {
    this.#isClosed = true
    for (const run of this.#runs) run.interrupt()
    this.#pool.stop().then(this.#resolveEnded)
    return this.ended
  }

  #stopIfIdle(): void {
    if (this.#runs.size === 0) void this.stop()
  }
}
