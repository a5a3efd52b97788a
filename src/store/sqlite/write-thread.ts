import { Worker } from 'node:worker_threads'
import { PosthornError } from '../../core/errors.ts'
import type { StoreHealth, WrittenBatch } from '../store.ts'
import { fromMessage, isStorageCode, shortOfSpace } from './failures.ts'
import type { BatchAnswer, BatchMessage, BatchResult, Call, CallName, Calls } from './messages.ts'
import type { WriterData } from './writer.ts'

/** One call on its way: its bodies are copied into the batch's buffer when the batch is put together. */
type Waiting = Readonly<{
  bodies: readonly Uint8Array[]
  bytes: number
  call: (offsets: readonly number[]) => Call
  resolve: (value: unknown) => void
  reject: (error: Error) => void
}>

export type WriteThreadListener = Readonly<{
  /** The thread died of a defect. */
  onFatal: (error: Error) => void
  onBatch?: ((batch: WrittenBatch) => void) | undefined
}>

const callsPerBatchMax = 4_096
const bytesPerBatchMax = 8 * 1024 * 1024
const probeEveryMs = 500
const healthy: StoreHealth = { writable: true, problem: null }
const short: StoreHealth = { writable: false, problem: shortOfSpace.message }
const noBodies: readonly Uint8Array[] = []

/**
 * The event loop's end of the writer thread. Group commit without a timer: whatever is called while a batch is being
 * written goes into the next one, and an answer follows its commit.
 */
export class WriteThread {
  /** Resolves with the last id number in the file; rejects when it cannot be opened. */
  readonly opened: Promise<number>
  readonly #worker: Worker
  readonly #ended = Promise.withResolvers<void>()
  #queue: Waiting[] = []
  #underway: readonly Waiting[] = []
  #flushing = false
  #closed = false
  #over = false
  #drained: (() => void) | null = null
  #health = healthy
  #probe: NodeJS.Timeout | null = null

  readonly #onBatch: WriteThreadListener['onBatch']

  constructor(data: WriterData, { onFatal, onBatch }: WriteThreadListener) {
    this.#onBatch = onBatch
    this.#worker = new Worker(new URL('./writer.ts', import.meta.url), { workerData: data })
    this.opened = new Promise((resolve, reject) => {
      let opened = false
      let failure: Error | null = null
      this.#worker.on('message', (answer: BatchAnswer) => {
        if (answer.kind === 'done') this.#settle(answer)
        else if (answer.kind === 'failed_to_open') failure = fromMessage(answer.failure)
        else {
          opened = true
          if (answer.isShort) this.#noteHealth(short)
          resolve(answer.lastNumber)
        }
      })
      this.#worker.on('error', (error: Error) => {
        failure = error
      })
      // Only now are its locks given back, so that whoever hears of the failure may open the file again.
      this.#worker.once('exit', () => {
        this.#abandon()
        this.#ended.resolve()
        const cause = failure ?? new Error('the thread that writes has ended by itself')
        if (!opened) reject(cause)
        else if (failure !== null || !this.#closed) onFatal(cause)
      })
    })
  }

  get health(): StoreHealth {
    return this.#health
  }

  call<Name extends CallName>(name: Name, request: Calls[Name]['request']): Promise<Calls[Name]['answer']> {
    const call = { name, request } as Call
    return this.#enqueue(noBodies, () => call) as Promise<Calls[Name]['answer']>
  }

  append(
    bodies: readonly Uint8Array[],
    call: (offsets: readonly number[]) => Call,
  ): Promise<Calls['append']['answer']> {
    return this.#enqueue(bodies, call) as Promise<Calls['append']['answer']>
  }

  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      if (this.#probe !== null) clearInterval(this.#probe)
      if (this.#queue.length > 0 || this.#underway.length > 0) {
        await new Promise<void>((resolve) => {
          this.#drained = resolve
        })
      }
      this.#worker.postMessage('close')
    }
    await this.#ended.promise
  }

  #enqueue(bodies: readonly Uint8Array[], call: Waiting['call']): Promise<unknown> {
    if (this.#closed) return Promise.reject(new PosthornError('shutting_down', 'The store is closed.'))
    if (this.#over) return Promise.reject(ended())
    let bytes = 0
    for (const body of bodies) bytes += body.length
    return new Promise((resolve, reject) => {
      this.#queue.push({ bodies, bytes, call, resolve, reject })
      this.#flushSoon()
    })
  }

  /** What else arrives in this turn of the event loop, and what follows from the last answers, joins the same commit. */
  #flushSoon(): void {
    if (this.#flushing || this.#underway.length > 0) return
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#flushing = false
    if (this.#underway.length > 0) return
    if (this.#queue.length === 0) {
      this.#drained?.()
      return
    }
    const batch = this.#takeBatch()
    this.#underway = batch
    try {
      const message = pack(batch)
      this.#worker.postMessage(message, [message.bodies])
    } catch (error) {
      // A defect of the caller: something that cannot cross to another thread.
      this.#underway = []
      for (const waiting of batch) waiting.reject(error as Error)
      this.#flush()
    }
  }

  #takeBatch(): readonly Waiting[] {
    let bytes = 0
    let count = 0
    for (const waiting of this.#queue) {
      if (count >= callsPerBatchMax || (count > 0 && bytes + waiting.bytes > bytesPerBatchMax)) break
      bytes += waiting.bytes
      count += 1
    }
    if (count < this.#queue.length) return this.#queue.splice(0, count)
    const all = this.#queue
    this.#queue = []
    return all
  }

  #settle({ answers, wrote, commitMs, isShort }: BatchResult): void {
    const batch = this.#underway
    this.#underway = []
    if (wrote) this.#onBatch?.({ calls: batch.length, commitMs })
    let problem: string | null = null
    batch.forEach((waiting, index) => {
      const answer = answers[index]
      if (answer === undefined) waiting.reject(new Error('the writer thread forgot a call'))
      else if ('failure' in answer) {
        if (isStorageCode(answer.failure.code)) problem = answer.failure.message
        waiting.reject(fromMessage(answer.failure))
      } else waiting.resolve(answer.value)
    })
    // What only read says nothing about the disk: it succeeds on a full one too.
    if (problem !== null) this.#noteHealth({ writable: false, problem })
    else if (isShort) this.#noteHealth(short)
    else if (wrote) this.#noteHealth(healthy)
    this.#flushSoon()
  }

  /** While writes fail, a small write is tried again and again, so that health comes back without traffic. */
  #noteHealth(health: StoreHealth): void {
    this.#health = health
    if (health.writable && this.#probe !== null) {
      clearInterval(this.#probe)
      this.#probe = null
    }
    if (health.writable || this.#probe !== null || this.#closed) return
    let isProbing = false
    this.#probe = setInterval(() => {
      if (isProbing) return
      isProbing = true
      const done = () => {
        isProbing = false
      }
      this.call('probe', null).then(done, done)
    }, probeEveryMs)
    this.#probe.unref()
  }

  #abandon(): void {
    this.#over = true
    if (!this.#closed) this.#health = { writable: false, problem: 'The thread that writes has ended.' }
    if (this.#probe !== null) clearInterval(this.#probe)
    for (const waiting of [...this.#underway, ...this.#queue]) waiting.reject(ended())
    this.#underway = []
    this.#queue = []
    this.#drained?.()
  }
}

function ended(): PosthornError {
  return new PosthornError('store_unavailable', 'The store has ended; what was sent may not be kept.')
}

function pack(batch: readonly Waiting[]): BatchMessage {
  let total = 0
  for (const waiting of batch) total += waiting.bytes
  const bodies = new Uint8Array(total)
  let offset = 0
  const calls = batch.map((waiting) => {
    const offsets: number[] = []
    for (const body of waiting.bodies) {
      bodies.set(body, offset)
      offsets.push(offset)
      offset += body.length
    }
    return waiting.call(offsets)
  })
  return { calls, bodies: bodies.buffer }
}
