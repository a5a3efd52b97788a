import { failedRun } from '../core/handler-errors.ts'
import { deathText } from '../core/worker-death.ts'
import type { Loaded, ModuleCode } from './engine.ts'
import { notLoadedWithin } from './process-run.ts'
import type { ToWorker } from './worker-messages.ts'
import type { Job, JobEnd, WorkerProcess } from './worker-process.ts'

/** A worker loads a module, to see whether it can be. Its next job finds the module there. */
export class ModuleLoad implements Job {
  readonly #code: ModuleCode
  readonly #loadMs: number
  readonly #answer: (loaded: Loaded) => void
  #timer: NodeJS.Timeout | null = null

  constructor(code: ModuleCode, loadMs: number, answer: (loaded: Loaded) => void) {
    this.#code = code
    this.#loadMs = loadMs
    this.#answer = answer
  }

  message(job: number): ToWorker {
    return { kind: 'load', job, code: this.#code }
  }

  given(worker: WorkerProcess): void {
    this.#timer = setTimeout(() => {
      worker.kill('its module took too long to load')
      this.#answer(this.#failed(notLoadedWithin(this.#loadMs).message))
    }, this.#loadMs)
  }

  started(): void {}

  end(end: JobEnd): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#answer(this.#loadedBy(end))
  }

  #loadedBy(end: JobEnd): Loaded {
    switch (end.kind) {
      case 'loaded':
        return end.loaded
      case 'ended':
        return { thrown: null, files: [this.#code.module] }
      case 'died':
        return this.#failed(deathText(end.death))
      case 'unserved':
        return this.#failed(`no worker can be started: ${end.why}`)
    }
  }

  #failed(message: string): Loaded {
    return { thrown: failedRun(message), files: [this.#code.module] }
  }
}
