import { Worker } from 'node:worker_threads'
import { PosthornError } from '../../core/errors.ts'
import { fromMessage, storageFailure } from './failures.ts'
import type { ReadAnswer, ReaderData, ReadMessage } from './reader.ts'

type Waiting = Readonly<{ resolve: (value: unknown) => void; reject: (error: Error) => void }>

const readsWaitingMax = 1_000
/** Reads that the thread is given at once. Their answers are in memory until the event loop takes them. */
const readsSentMax = 16

const restartMs = 1_000

/** What a thread reads, by name. */
type ReadTable = Readonly<Record<string, { request: unknown; answer: unknown }>>

/** The event loop's end of a reader thread. A thread that died is started anew. */
export class ReadThread<Reads extends ReadTable> {
  readonly #data: ReaderData
  readonly #waiting = new Map<number, Waiting>()
  /** Of those that wait, the ones that the thread has not been given yet. */
  #unsent: ReadMessage[] = []
  #worker: Worker | null = null
  #lastId = 0
  #closed = false

  constructor(data: ReaderData) {
    this.#data = data
    // A thread that moves the log runs from the beginning, whether anybody reads or not.
    if (data.movesLog) this.#worker = this.#start()
  }

  call<Name extends keyof Reads & string>(name: Name, request: Reads[Name]['request']): Promise<Reads[Name]['answer']> {
    if (this.#closed) return Promise.reject(closed())
    if (this.#waiting.size >= readsWaitingMax) {
      return Promise.reject(new PosthornError('store_unavailable', 'Too many reads wait for the database; try again.'))
    }
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as Reads[Name]['answer']), reject })
      this.#unsent.push({ id, name, request })
      this.#send()
    })
  }

  /**
   * Rejects what waits, and ends the thread at the end of the statement that it is in: who only reads has nothing to
   * lose. That is safe in the middle of a checkpoint too: what it has not moved into the file is still in the log, and
   * the connections are closed with the thread.
   */
  async close(): Promise<void> {
    this.#closed = true
    this.#rejectAll(closed())
    const worker = this.#worker
    this.#worker = null
    await worker?.terminate()
  }

  #send(): void {
    while (this.#unsent.length > 0 && this.#waiting.size - this.#unsent.length < readsSentMax) {
      this.#worker ??= this.#start()
      this.#worker.postMessage(this.#unsent.shift())
    }
  }

  /** All that wait get this, whether the thread had them or not. */
  #rejectAll(failure: PosthornError): void {
    for (const waiting of this.#waiting.values()) waiting.reject(failure)
    this.#waiting.clear()
    this.#unsent = []
  }

  #restart(): void {
    if (!this.#closed) this.#worker ??= this.#start()
  }

  #start(): Worker {
    const worker = new Worker(new URL('./reader.ts', import.meta.url), { workerData: this.#data })
    worker.on('message', (answer: ReadAnswer) => {
      const waiting = this.#waiting.get(answer.id)
      this.#waiting.delete(answer.id)
      if ('failure' in answer) waiting?.reject(fromMessage(answer.failure))
      else waiting?.resolve(answer.value)
      this.#send()
    })
    let cause: unknown = null
    worker.on('error', (error) => {
      cause = error
    })
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = null
      const failure =
        storageFailure(cause) ??
        new PosthornError('store_unavailable', 'The database could not be read; try again.', { cause })
      this.#rejectAll(failure)
      if (!this.#closed && this.#data.movesLog) setTimeout(() => this.#restart(), restartMs).unref()
    })
    worker.unref()
    return worker
  }
}

function closed(): PosthornError {
  return new PosthornError('shutting_down', 'The store is closed.')
}
