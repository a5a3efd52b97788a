import { PosthornError } from '../core/errors.ts'
import type { Logger } from '../log.ts'
import type { Change, ChangeResult } from '../store/pipeline-store.ts'
import type { Store } from '../store/store.ts'

type Waiting = Readonly<{ changes: readonly Change[]; done: (results: readonly ChangeResult[]) => void }>

export type SettlerListener = Readonly<{
  /** Outcomes can be written again. */
  onRecovered: () => void
  /** Nothing waits any more. */
  onIdle: () => void
}>

const retryEveryMs = 250

/** The store says of its own troubles what they are; anything else is wrong with what it was given. */
function isDefect(error: unknown): boolean {
  return !(error instanceof PosthornError)
}

/** Outcomes that are written one batch after the other. */
type Queue = { waiting: Waiting[]; isWriting: boolean }

/**
 * Writes outcomes, in batches: what is settled while a batch is written goes into the next. Outcomes of ordered lanes have
 * batches of their own: they may wait for the lock of a lane, and the others must not wait with them. An outcome that cannot
 * be written is kept and tried again until it can, and no new attempt starts meanwhile.
 */
export class Settler {
  readonly #store: Store
  readonly #log: Logger
  readonly #listener: SettlerListener
  readonly #ordered: Queue = { waiting: [], isWriting: false }
  readonly #unordered: Queue = { waiting: [], isWriting: false }
  #writable = true
  #isAbandoned = false

  constructor(store: Store, log: Logger, listener: SettlerListener) {
    this.#store = store
    this.#log = log
    this.#listener = listener
  }

  /** False while outcomes cannot be written. */
  get writable(): boolean {
    return this.#writable
  }

  get idle(): boolean {
    return isIdle(this.#ordered) && isIdle(this.#unordered)
  }

  /** Resolves once these are on disk, which are written together and in this order. */
  settle(changes: readonly Change[]): Promise<readonly ChangeResult[]> {
    const queue = changes.some(({ to }) => to.lane !== null) ? this.#ordered : this.#unordered
    return new Promise((done) => {
      queue.waiting.push({ changes, done })
      if (queue.isWriting) return
      queue.isWriting = true
      setImmediate(() => void this.#write(queue))
    })
  }

  /** The store is about to close: what cannot be written now is left to its next owner, who tries it again. */
  abandon(): void {
    this.#isAbandoned = true
  }

  async #write(queue: Queue): Promise<void> {
    while (queue.waiting.length > 0) {
      const batch = queue.waiting
      queue.waiting = []
      const results = await this.#commitUntilKept(batch.flatMap((waiting) => waiting.changes))
      if (results === null) break
      let at = 0
      for (const { changes, done } of batch) {
        done(results.slice(at, at + changes.length))
        at += changes.length
      }
    }
    queue.isWriting = false
    if (!this.idle) return
    // Not before all outcomes are on disk: a claim between two of them could bring back what has been done.
    if (!this.#writable && !this.#isAbandoned) this.#recovered()
    this.#listener.onIdle()
  }

  /** One that cannot be written at all must not keep the others from it: it is left to its lease, and tried again then. */
  async #commitOneByOne(changes: readonly Change[], err: unknown): Promise<readonly ChangeResult[] | null> {
    const [only] = changes
    if (changes.length === 1 && only !== undefined) {
      this.#log.error({ err, deliveryId: only.to.id }, 'outcome.cannot_be_written')
      return [{ kind: 'stale' }]
    }
    const results: ChangeResult[] = []
    for (const change of changes) {
      const result = await this.#commitUntilKept([change])
      if (result === null) return null
      results.push(...result)
    }
    return results
  }

  #recovered(): void {
    this.#writable = true
    this.#log.info({}, 'outcomes.written_again')
    this.#listener.onRecovered()
  }

  async #commitUntilKept(changes: readonly Change[]): Promise<readonly ChangeResult[] | null> {
    for (;;) {
      try {
        return await this.#store.commit(changes)
      } catch (error) {
        if (isDefect(error)) return this.#commitOneByOne(changes, error)
        if (this.#writable) this.#log.error({ err: error, outcomes: changes.length }, 'outcomes.not_written')
        this.#writable = false
        if (this.#isAbandoned) return null
        await new Promise((resolve) => setTimeout(resolve, retryEveryMs))
      }
    }
  }
}

function isIdle({ waiting, isWriting }: Queue): boolean {
  return !isWriting && waiting.length === 0
}
