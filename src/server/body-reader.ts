import type { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { BodyPace, type Paced } from './body-pace.ts'
import { Pieces } from './pieces.ts'
import { Problem } from './problem.ts'

const retryAfterSeconds = '1'

/** Where the bytes of one body are counted. */
export type BodyRoom = Readonly<{
  pace: BodyPace
  /** Whether there was room. */
  take(bytes: number): boolean
  /** All that was taken. */
  give(bytes: number): void
}>

/**
 * What all bodies together may hold of the memory while they are read. Counted is what has come, not what was
 * announced: a client that promises much and sends little takes nothing from the others.
 */
export class BodyBudget implements BodyRoom {
  readonly pace: BodyPace
  readonly #bytesMax: number
  #used = 0

  constructor(bytesMax: number, pace = new BodyPace()) {
    this.#bytesMax = bytesMax
    this.pace = pace
  }

  /** Bytes in use. */
  get used(): number {
    return this.#used
  }

  get free(): number {
    return this.#bytesMax - this.#used
  }

  take(bytes: number): boolean {
    if (this.#used + bytes > this.#bytesMax) return false
    this.#used += bytes
    return true
  }

  give(bytes: number): void {
    this.#used -= bytes
  }
}

export type Exchange = Readonly<{ request: IncomingMessage; response: ServerResponse }>

/**
 * Reads one body, and says once what came of it: the bytes, or why they are not taken. What comes after a problem is
 * thrown away, so that the client gets to see the answer. Nothing is said when the client leaves.
 */
export class BodyReading {
  readonly #bytesMax: number
  /** As the client says; infinite when it does not. */
  readonly #announced: number
  readonly #room: BodyRoom
  readonly #done: (body: Buffer | Problem) => void
  readonly #pieces = new Pieces()
  #size = 0
  #watched: Paced | null = null
  #state: 'reading' | 'done' | 'released' = 'reading'

  constructor(
    { request, response }: Exchange,
    bytesMax: number,
    room: BodyRoom,
    done: (body: Buffer | Problem) => void,
  ) {
    this.#bytesMax = bytesMax
    this.#announced = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY)
    this.#room = room
    this.#done = done
    request.on('data', (chunk: Buffer) => this.#read(chunk))
    request.on('end', () => this.#end())
    response.on('close', () => this.release())
    if (request.headers.expect !== undefined && request.httpVersionMinor > 0) response.writeContinue()
  }

  /** The bytes are no longer needed. Safe to call twice; the end of the response calls it too. */
  release(): void {
    if (this.#state === 'released') return
    this.#state = 'released'
    this.#unwatch()
    this.#pieces.drop()
    this.#room.give(this.#size)
    this.#size = 0
  }

  #read(chunk: Buffer): void {
    if (this.#state !== 'reading') return
    const isTooLarge = this.#size + chunk.length > this.#bytesMax
    if (isTooLarge || !this.#room.take(chunk.length)) {
      this.#refuse(isTooLarge ? tooLarge(this.#bytesMax) : overloaded())
      return
    }
    this.#size += chunk.length
    this.#pieces.add(chunk)
    if (this.#size < this.#announced) this.#watch()
  }

  /** Most bodies come in one piece and are never waited for. */
  #watch(): void {
    if (this.#watched !== null) return
    this.#watched = { size: () => this.#size, tooSlow: () => this.#refuse(tooSlow()) }
    this.#room.pace.watch(this.#watched)
  }

  #unwatch(): void {
    if (this.#watched !== null) this.#room.pace.forget(this.#watched)
    this.#watched = null
  }

  #refuse(problem: Problem): void {
    this.release()
    this.#done(problem)
  }

  #end(): void {
    if (this.#state !== 'reading') return
    this.#state = 'done'
    this.#unwatch()
    const body = this.#pieces.whole()
    this.#pieces.drop()
    this.#done(body)
  }
}

/** What can be told before the body is there. */
export function announcedProblem({ headers }: IncomingMessage, bytesMax: number): Problem | null {
  return Number(headers['content-length'] ?? 0) > bytesMax ? tooLarge(bytesMax) : null
}

function tooLarge(bytesMax: number): Problem {
  return new Problem('too_large', `The body is larger than the ${bytesMax} bytes that are taken here.`)
}

function tooSlow(): Problem {
  return new Problem('request_timeout', 'The body came too slowly or not at all.')
}

export function overloaded(): Problem {
  const detail = 'Too many requests are being read at once; send this one again later.'
  return new Problem('overloaded', detail, { headers: { 'retry-after': retryAfterSeconds } })
}
