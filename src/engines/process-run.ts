import { formatDuration } from '../core/duration.ts'
import { failedRun, infrastructure, type Thrown, thrownOf } from '../core/handler-errors.ts'
import type { ModuleCode, Run, Task } from './engine.ts'
import type { AbortReason } from './run-context.ts'
import type { ToWorker } from './worker-messages.ts'
import type { WorkerPool } from './worker-pool.ts'
import type { Job, JobEnd, WorkerProcess } from './worker-process.ts'

export type RunLimits = Readonly<{
  /** What a module may take to be loaded. */
  loadMs: number
  /** What a handler may take to obey its signal, before its worker is killed. */
  graceMs: number
}>

/** A worker may end before it begins, which need not be the fault of the run. So many times it need not. */
const givenMax = 3

/** One run on its way through a worker. It answers once; its worker may be busy with it for longer. */
export class ProcessRun implements Job {
  readonly #task: Task
  readonly #code: ModuleCode
  readonly #pool: WorkerPool
  readonly #limits: RunLimits
  readonly #answer: (run: Run) => void
  readonly #settled = Promise.withResolvers<void>()
  #worker: WorkerProcess | null = null
  #timer: NodeJS.Timeout | null = null
  #given = 0
  #hasStarted = false
  #isAnswered = false

  constructor(task: Task, code: ModuleCode, pool: WorkerPool, limits: RunLimits, answer: (run: Run) => void) {
    this.#task = task
    this.#code = code
    this.#pool = pool
    this.#limits = limits
    this.#answer = answer
  }

  message(job: number): ToWorker {
    const { name, bytes, attempt, ref } = this.#task
    const subject = 'event' in this.#task ? { event: this.#task.event } : { record: this.#task.record }
    return { kind: 'run', job, code: this.#code, task: { ...subject, name, bytes, attempt, ref } }
  }

  given(worker: WorkerProcess): void {
    this.#worker = worker
    this.#given += 1
    this.#after(this.#limits.loadMs, () => this.#notLoaded())
  }

  started(): void {
    this.#hasStarted = true
    // What has ended in time may lie unread in the pipe, if our own loop was blocked: reading comes before immediates.
    if (!this.#isAnswered) this.#after(this.#task.timeoutMs, () => setImmediate(() => this.#overran()))
  }

  end(end: JobEnd): void {
    this.#worker = null
    this.#clear()
    const isInnocent = end.kind === 'died' && !this.#hasStarted && this.#given < givenMax
    if (isInnocent && !this.#isAnswered) {
      this.#pool.putBack(this)
      return
    }
    this.#settled.resolve()
    this.#finish(runOf(end))
  }

  interrupt(): void {
    if (this.#isAnswered) return
    if (this.#worker === null) this.#pool.remove(this)
    else this.#letGo(this.#worker, 'AbortError')
    this.#finish({ kind: 'interrupted' })
  }

  #overran(): void {
    if (this.#isAnswered || this.#worker === null) return
    this.#letGo(this.#worker, 'TimeoutError')
    this.#finish({ kind: 'overran', settled: this.#settled.promise })
  }

  #notLoaded(): void {
    this.#worker?.kill('its module took too long to load')
    this.#finish({ kind: 'threw', thrown: notLoadedWithin(this.#limits.loadMs) })
  }

  /** A handler that obeys its signal keeps its worker. */
  #letGo(worker: WorkerProcess, reason: AbortReason): void {
    worker.abort(reason)
    this.#after(this.#limits.graceMs, () => worker.kill('the handler did not obey its signal'))
  }

  #finish(run: Run): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    this.#answer(run)
  }

  #after(ms: number, then: () => void): void {
    this.#clear()
    this.#timer = setTimeout(then, ms)
  }

  #clear(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
  }
}

function runOf(end: JobEnd): Run {
  switch (end.kind) {
    case 'ended':
      return end.thrown === null ? { kind: 'returned' } : { kind: 'threw', thrown: end.thrown }
    case 'loaded':
      return { kind: 'threw', thrown: end.loaded.thrown ?? failedRun('its module was loaded and not run') }
    case 'died':
      return { kind: 'died', death: end.death }
    case 'unserved':
      // That is our side, and not the event's: it waits, and spends no attempt.
      return { kind: 'threw', thrown: thrownOf(infrastructure(`no worker can be started: ${end.why}`)) }
  }
}

export function notLoadedWithin(loadMs: number): Thrown {
  return failedRun(`its module was not loaded within ${formatDuration(loadMs)}`)
}
