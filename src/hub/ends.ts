import type { Logger } from '../log.ts'
import type { HubMemory, KeptEnd } from '../store/hub-memory.ts'

type Unwritten = Readonly<{ end: KeptEnd; written: () => void }>

/**
 * The hub's memory, also while its disk is full. What has ended at the target and cannot be written is held here, and
 * written as soon as that works; until then its delivery is not over. Meanwhile nothing new may begin: what a target has
 * got and nobody remembers, it would get again.
 */
export class Ends {
  readonly #memory: HubMemory
  readonly #log: Logger
  readonly #rewriteEveryMs: number
  #unwritten: Unwritten[] = []
  #problem: string | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(memory: HubMemory, log: Logger, rewriteEveryMs: number) {
    this.#memory = memory
    this.#log = log
    this.#rewriteEveryMs = rewriteEveryMs
  }

  /** Why nothing may begin now; null when it may. */
  get problem(): string | null {
    return this.#problem
  }

  /** null also when the memory cannot be read: then there is a problem. */
  find(delivery: string, bornAt: number): KeptEnd | null {
    try {
      return this.#memory.find(delivery, bornAt)
    } catch (error) {
      this.#failed(error)
      return null
    }
  }

  /** Resolves when the end outlives this process. */
  keep(end: KeptEnd): Promise<void> {
    try {
      this.#memory.keep(end)
      return Promise.resolve()
    } catch (error) {
      this.#failed(error)
      return new Promise((written) => this.#unwritten.push({ end, written }))
    }
  }

  /** Tries once more to write what could not be written. */
  close(): void {
    if (this.#problem !== null) this.#write()
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    this.#memory.close()
  }

  #failed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    if (this.#problem === null) this.#log.error({ error: message }, 'hub.memory_failed')
    this.#problem = message
    this.#timer ??= setInterval(() => this.#write(), this.#rewriteEveryMs)
  }

  #write(): void {
    try {
      this.#memory.probe()
      for (let next = this.#unwritten[0]; next !== undefined; next = this.#unwritten[0]) {
        this.#memory.keep(next.end)
        this.#unwritten.shift()
        next.written()
      }
    } catch (error) {
      this.#failed(error)
      return
    }
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    this.#problem = null
    this.#log.info({}, 'hub.memory_recovered')
  }
}
