import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Thrown } from '../core/handler-errors.ts'
import { type Death, deathText, isLastWord } from '../core/worker-death.ts'
import type { Logger } from '../log.ts'
import type { Loaded } from './engine.ts'
import type { AbortReason } from './run-context.ts'
import { workerEnvironment, workerFlags } from './worker-flags.ts'
import { Lines } from './worker-lines.ts'
import { readFromWorker, type ToWorker } from './worker-messages.ts'

export type WorkerSettings = Readonly<{
  /** The name of the handler, for the log. */
  name: string
  log: Logger
  env: NodeJS.ProcessEnv
  /** The flags of Node that this process runs with. */
  execArgv: readonly string[]
}>

/** How a job of a worker came to its end. */
export type JobEnd =
  | Readonly<{ kind: 'loaded'; loaded: Loaded }>
  | Readonly<{ kind: 'ended'; thrown: Thrown | null }>
  | Readonly<{ kind: 'died'; death: Death }>
  /** No worker could be started for it. */
  | Readonly<{ kind: 'unserved'; why: string }>

/** What a worker does at a time. */
export interface Job {
  message(job: number): ToWorker
  /** It is this worker's now. */
  given(worker: WorkerProcess): void
  /** Its handler has begun. */
  started(): void
  end(end: JobEnd): void
}

export interface WorkerOwner {
  /** The worker may be given a job. */
  free(worker: WorkerProcess): void
  /** Its process is gone. The job that it had is told so afterwards. */
  gone(worker: WorkerProcess, death: Death): void
}

const entry = fileURLToPath(new URL('./worker-entry.ts', import.meta.url))
/** Something that the worker has started may hold its output open: then it is not waited for. */
const lastOutputMs = 200
/** A worker that has closed its channel without ending is of no use to us. */
const unreachableMs = 1_000

/** A process that runs handlers, one at a time. It is replaced and never started again. */
export class WorkerProcess {
  readonly ended: Promise<void>
  readonly #settings: WorkerSettings
  readonly #owner: WorkerOwner
  readonly #resolveEnded: () => void
  #child: ChildProcess | null = null
  #state: 'starting' | 'running' | 'ending' | 'gone' = 'starting'
  #job: Job | null = null
  /** Of its latest job. */
  #number = 0
  #hasServed = false
  /** Something in it has failed that belongs to no job in hand: it is given no further one. */
  #isRetiring = false
  #uncaught: Thrown | null = null
  #lastWords: string | null = null

  constructor(settings: WorkerSettings, owner: WorkerOwner) {
    this.#settings = settings
    this.#owner = owner
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#resolveEnded = resolve
    try {
      this.#child = this.#fork()
    } catch (error) {
      // Later, like the failures that come as events: the owner does not have this object yet.
      setImmediate(() => this.#neverBegan(error))
    }
  }

  get isFree(): boolean {
    return this.#state === 'running' && this.#job === null && !this.#isRetiring
  }

  get isStarting(): boolean {
    return this.#state === 'starting'
  }

  /** Whether it has got as far as code of a user. */
  get hasServed(): boolean {
    return this.#hasServed
  }

  give(job: Job): void {
    this.#job = job
    this.#number += 1
    this.#lastWords = null
    job.given(this)
    this.#tell(job.message(this.#number))
  }

  /** Aborts the signal of the handler that it runs. */
  abort(reason: AbortReason): void {
    this.#tell({ kind: 'abort', job: this.#number, reason })
  }

  /** Kills it, with everything that it has started. First of all it gets no job any more: it would die with it. */
  kill(why: string | null = null): void {
    if (this.#state === 'gone') return
    this.#state = 'ending'
    this.#lastWords ??= why
    this.#killGroup()
    const { name: handler, log } = this.#settings
    if (why !== null) log.warn({ handler, pid: this.#child?.pid, why }, 'worker.killed')
  }

  #fork(): ChildProcess {
    const { env, execArgv } = this.#settings
    const child = fork(entry, [String(process.pid)], {
      serialization: 'advanced',
      // A process group of its own: ctrl-C is for us, who let handlers finish, and all of it can be killed at once.
      detached: true,
      env: workerEnvironment(env),
      execArgv: workerFlags(execArgv),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    child.on('message', (message) => this.#hear(message))
    child.on('error', (error) => {
      if (child.pid === undefined) this.#neverBegan(error)
    })
    child.on('disconnect', () => this.#unreachable())
    child.on('exit', () => this.#exited(child))
    child.on('close', () => this.#end(child))
    this.#readLines(child, 'stdout')
    this.#readLines(child, 'stderr')
    const { name: handler, log } = this.#settings
    if (child.pid !== undefined) log.info({ handler, pid: child.pid }, 'worker.started')
    return child
  }

  #tell(message: ToWorker): void {
    // One that cannot be reached any more is about to be gone, and that is how we learn of it.
    this.#child?.send(message, () => undefined)
  }

  #hear(received: unknown): void {
    const message = readFromWorker(received)
    if (message === null || this.#state === 'ending' || this.#state === 'gone') return
    const job = 'job' in message && message.job === this.#number ? this.#job : null
    switch (message.kind) {
      case 'ready':
        this.#state = 'running'
        this.#owner.free(this)
        return
      case 'uncaught':
        this.#failed(job !== null, message.thrown)
        return
      case 'started':
        this.#hasServed = true
        job?.started()
        return
      case 'loaded':
        if (message.loaded.thrown === null) this.#hasServed = true
        else this.#notLoaded(message.loaded.thrown)
        this.#done(job, message)
        return
      case 'ended':
        this.#done(job, message)
    }
  }

  /** What could not be imported once never can be in the same process. */
  #notLoaded(thrown: Thrown): void {
    this.#isRetiring = true
    this.#uncaught = thrown
  }

  #done(job: Job | null, end: JobEnd): void {
    if (job === null) return
    this.#job = null
    // Before anybody hears of it: what they do next may need a worker, and this one must not be it.
    if (this.#isRetiring) this.kill()
    job.end(end)
    if (this.isFree) this.#owner.free(this)
  }

  /** What an earlier job has left behind must not harm the one in hand: that may end. */
  #failed(isOfCurrentJob: boolean, thrown: Thrown): void {
    const { name, log } = this.#settings
    log.warn(
      { handler: name, pid: this.#child?.pid, error: thrown.message, stack: thrown.stack },
      'worker.uncaught_error',
    )
    this.#isRetiring = true
    if (isOfCurrentJob) this.#uncaught = thrown
    if (isOfCurrentJob || this.#job === null) this.kill()
  }

  #unreachable(): void {
    setTimeout(() => this.kill(), unreachableMs).unref()
  }

  #exited(child: ChildProcess): void {
    // What it has started and left behind.
    this.#killGroup()
    setTimeout(() => this.#end(child), lastOutputMs)
  }

  #end({ signalCode, exitCode }: ChildProcess): void {
    this.#gone({ signal: signalCode, code: exitCode, lastWords: this.#lastWords, uncaught: this.#uncaught })
  }

  #neverBegan(error: unknown): void {
    this.#gone({
      signal: null,
      code: null,
      lastWords: error instanceof Error ? error.message : String(error),
      uncaught: null,
    })
  }

  #gone(death: Death): void {
    if (this.#state === 'gone') return
    const { name: handler, log } = this.#settings
    if (this.#state !== 'ending') log.warn({ handler, pid: this.#child?.pid, error: deathText(death) }, 'worker.died')
    this.#state = 'gone'
    this.#child?.stdout?.destroy()
    this.#child?.stderr?.destroy()
    const job = this.#job
    this.#job = null
    this.#owner.gone(this, death)
    job?.end({ kind: 'died', death })
    this.#resolveEnded()
  }

  #killGroup(): void {
    const pid = this.#child?.pid
    if (pid === undefined) return
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // There is nothing left of it.
    }
  }

  #readLines(child: ChildProcess, stream: 'stdout' | 'stderr'): void {
    const { name, log } = this.#settings
    const lines = new Lines((line) => {
      if (stream === 'stderr' && isLastWord(line)) this.#lastWords = line
      log.info({ handler: name, pid: child.pid, stream, line }, 'worker.output')
    })
    // There is none when the process could not be made.
    child[stream]?.on('data', (chunk) => lines.add(chunk)).on('end', () => lines.end())
  }
}
