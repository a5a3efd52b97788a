import { Worker } from 'node:worker_threads'
import type { Logger } from '../log.ts'

/** How the thread is told where we are: one cell for the heartbeat, one for who runs, then runs by handler. */
export const cells = { beat: 0, entered: 1, runs: 2 } as const
/** Handlers beyond this many share the last name. */
const handlersMax = 1_000
const beatEveryMs = 250

export type WatchdogSettings = Readonly<{
  log: Logger
  /** The loop must stand still for this long to be told about. */
  blockedMs?: number
  /** The file to which the thread writes, because the blocked thread's log cannot: stderr by default. */
  fd?: number
}>

export type WatchdogStart = Readonly<{ shared: SharedArrayBuffer; blockedMs: number; fd: number }>

const blockedMsDefault = 2_000

/**
 * Names the handler that blocks the event loop, from a thread of its own: the loop itself cannot, while it is blocked.
 * Inside a handler's first, synchronous piece the name is exact; later it is one of the handlers under way.
 */
export class Watchdog {
  readonly #settings: WatchdogSettings
  readonly #shared = new SharedArrayBuffer(4 * (cells.runs + handlersMax))
  readonly #cells = new Int32Array(this.#shared)
  readonly #numbers = new Map<string, number>()
  #thread: Worker | null = null
  #beating: NodeJS.Timeout | null = null
  #isStopped = false

  constructor(settings: WatchdogSettings) {
    this.#settings = settings
    this.#cells[cells.entered] = -1
  }

  /** A handler is about to run; the answer names it to `leave` and `end`. */
  enter(name: string): number {
    const number = this.#numbers.get(name) ?? this.#remember(name)
    Atomics.store(this.#cells, cells.entered, number)
    Atomics.add(this.#cells, cells.runs + number, 1)
    return number
  }

  /** Its synchronous piece is over. */
  leave(_number: number): void {
    Atomics.store(this.#cells, cells.entered, -1)
  }

  /** It has settled. */
  end(number: number): void {
    Atomics.sub(this.#cells, cells.runs + number, 1)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#beating !== null) clearInterval(this.#beating)
    const thread = this.#thread
    this.#thread = null
    await thread?.terminate()
  }

  #remember(name: string): number {
    const number = Math.min(this.#numbers.size, handlersMax - 1)
    this.#numbers.set(name, number)
    if (this.#thread === null && !this.#isStopped && isHeard(this.#settings.log)) this.#start()
    this.#thread?.postMessage({ number, name })
    return number
  }

  #start(): void {
    const { log, blockedMs = blockedMsDefault, fd = 2 } = this.#settings
    const workerData: WatchdogStart = { shared: this.#shared, blockedMs, fd }
    const thread = new Worker(new URL('./watchdog-thread.ts', import.meta.url), { workerData, stderr: false })
    // Without it nothing is wrong but that blocking handlers go unnamed.
    thread.on('error', (err) => log.warn({ err }, 'watchdog.ended'))
    thread.unref()
    this.#thread = thread
    this.#beating = setInterval(() => Atomics.add(this.#cells, cells.beat, 1), beatEveryMs)
    this.#beating.unref()
  }
}

/** The thread writes past the log, so it must ask itself what the log would have said. */
function isHeard({ level }: Logger): boolean {
  return level !== 'error' && level !== 'fatal' && level !== 'silent'
}
