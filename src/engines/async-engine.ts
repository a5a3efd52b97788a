import { thrownOf } from '../core/handler-errors.ts'
import type { Code, Engine, Loaded, Run, Task } from './engine.ts'
import { handledOf } from './handled.ts'
import type { LateRuns } from './late-runs.ts'
import { importedHandler } from './module-code.ts'
import { RunContext } from './run-context.ts'
import type { Watchdog } from './watchdog.ts'

export type AsyncEngineParts = Readonly<{
  /** Told of every run, so that it can name who blocks the event loop. */
  watchdog: Watchdog
  lateRuns: LateRuns
  now?: () => number
}>

/** Runs handlers on our own event loop: as light as a function call, and as good a neighbour as its code is. */
export class AsyncEngine implements Engine {
  readonly #watchdog: Watchdog
  readonly #lateRuns: LateRuns
  readonly #now: () => number

  constructor({ watchdog, lateRuns, now = () => performance.now() }: AsyncEngineParts) {
    this.#watchdog = watchdog
    this.#lateRuns = lateRuns
    this.#now = now
  }

  run(task: Task, signal: AbortSignal): Promise<Run> {
    if (signal.aborted) return Promise.resolve({ kind: 'interrupted' })
    return new Promise((resolve) => {
      const run = new AsyncRun(task, this.#lateRuns, this.#now, (answer) => {
        signal.removeEventListener('abort', onAbort)
        resolve(answer)
      })
      const onAbort = (): void => run.interrupt()
      signal.addEventListener('abort', onAbort, { once: true })
      run.start(this.#watchdog)
    })
  }

  async load(code: Code): Promise<Loaded> {
    if (typeof code === 'function') return { thrown: null, files: [] }
    const thrown = await importedHandler(code).then(() => null, thrownOf)
    return { thrown, files: [code.module] }
  }

  stop(): Promise<void> {
    return this.#watchdog.stop()
  }
}

/** One run; answers once, whatever comes first. What comes later is heard and dropped. */
class AsyncRun {
  readonly #task: Task
  readonly #lateRuns: LateRuns
  readonly #now: () => number
  readonly #answer: (run: Run) => void
  readonly #startedAt: number
  #deadline: NodeJS.Timeout | null = null
  #isOver = false
  /** Resolves when the handler has settled; there is one only after the deadline. */
  #settled: PromiseWithResolvers<void> | null = null
  readonly #context: RunContext

  constructor(task: Task, lateRuns: LateRuns, now: () => number, answer: (run: Run) => void) {
    this.#task = task
    this.#lateRuns = lateRuns
    this.#now = now
    this.#answer = answer
    this.#context = new RunContext(task)
    this.#startedAt = now()
  }

  start(watchdog: Watchdog): void {
    const { name, code, timeoutMs } = this.#task
    const handled = handledOf(this.#task)
    const context = this.#context
    this.#deadline = setTimeout(() => this.#overrun(), timeoutMs)
    const entry = watchdog.enter(name)
    const result =
      typeof code === 'function'
        ? Promise.try(code, handled, context)
        : importedHandler(code).then((handler) => (this.#isOver ? undefined : handler(handled, context)))
    watchdog.leave(entry)
    result.then(
      () => {
        watchdog.end(entry)
        this.#settle({ kind: 'returned' })
      },
      (error) => {
        watchdog.end(entry)
        this.#settle({ kind: 'threw', thrown: thrownOf(error) })
      },
    )
  }

  interrupt(): void {
    if (this.#isOver) return
    this.#end({ kind: 'interrupted' })
    this.#context.abort('AbortError')
  }

  #settle(run: Run): void {
    if (this.#settled !== null) {
      this.#settled.resolve()
      this.#lateRuns.remove(this.#task.name)
    }
    if (this.#isOver) return
    // A handler that blocked the loop past its deadline is late, too: the timer only had no chance to say so.
    const isLate = this.#now() - this.#startedAt > this.#task.timeoutMs
    this.#end(isLate ? { kind: 'overran', settled: Promise.resolve() } : run)
  }

  #overrun(): void {
    this.#settled = Promise.withResolvers<void>()
    this.#lateRuns.add(this.#task.name)
    this.#end({ kind: 'overran', settled: this.#settled.promise })
    this.#context.abort('TimeoutError')
  }

  #end(run: Run): void {
    this.#isOver = true
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    this.#answer(run)
  }
}
