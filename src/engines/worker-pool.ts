import { type Death, deathText } from '../core/worker-death.ts'
import { type Job, type WorkerOwner, WorkerProcess, type WorkerSettings } from './worker-process.ts'

const backoffMsMin = 100
const backoffMsMax = 10_000
/** So many starts in a row have failed when those who wait are told. */
const failedStartsMax = 3

/** Gives jobs to workers, in their order; starts workers when there are jobs for them, and keeps those that are there. */
export class WorkerPool implements WorkerOwner {
  readonly #settings: WorkerSettings
  readonly #workersMax: number
  readonly #workers = new Set<WorkerProcess>()
  #waiting: Job[] = []
  #failedStarts = 0
  #backoff: NodeJS.Timeout | null = null
  #isStopped = false

  constructor(settings: WorkerSettings, workersMax: number) {
    this.#settings = settings
    this.#workersMax = workersMax
  }

  add(job: Job): void {
    this.#waiting.push(job)
    this.#goOn()
  }

  /** Its worker ended before the handler began: it comes next. */
  putBack(job: Job): void {
    this.#waiting.unshift(job)
    this.#goOn()
  }

  /** A job that waits no longer. */
  remove(job: Job): void {
    this.#waiting = this.#waiting.filter((other) => other !== job)
  }

  free(worker: WorkerProcess): void {
    if (worker.hasServed) this.#failedStarts = 0
    this.#goOn()
  }

  gone(worker: WorkerProcess, death: Death): void {
    this.#workers.delete(worker)
    if (this.#isStopped) return
    if (!worker.hasServed) this.#startFailed(death)
    this.#goOn()
  }

  /** Resolves when no process is left. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#backoff !== null) clearTimeout(this.#backoff)
    this.#giveUp('the engine was stopped')
    for (const worker of this.#workers) worker.kill()
    await Promise.all([...this.#workers].map((worker) => worker.ended))
  }

  #goOn(): void {
    for (const worker of this.#workers) {
      if (!worker.isFree) continue
      const job = this.#waiting.shift()
      if (job === undefined) return
      worker.give(job)
    }
    if (this.#isStopped || this.#backoff !== null) return
    const starting = [...this.#workers].filter(({ isStarting }) => isStarting).length
    const wanted = Math.min(this.#waiting.length - starting, this.#workersMax - this.#workers.size)
    for (let started = 0; started < wanted; started++) this.#workers.add(new WorkerProcess(this.#settings, this))
  }

  /** The next one would most likely fail as well: it is not tried at once, and jobs wait meanwhile. */
  #startFailed(death: Death): void {
    this.#failedStarts += 1
    const { name: handler, log } = this.#settings
    const why = deathText(death)
    log.warn({ handler, failedStarts: this.#failedStarts, error: why }, 'worker.start_failed')
    if (this.#failedStarts >= failedStartsMax && this.#workers.size === 0) this.#giveUp(why)
    if (this.#backoff !== null) return
    const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** (this.#failedStarts - 1))
    this.#backoff = setTimeout(() => {
      this.#backoff = null
      this.#goOn()
    }, backoffMs)
  }

  #giveUp(why: string): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const job of waiting) job.end({ kind: 'unserved', why })
  }
}
