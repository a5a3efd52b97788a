import { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Unread } from './unread.ts'

/** What all clients together may leave unread, in this process. */
const unreadBytesMax = 64 * 1024 * 1024
/** About what node keeps of a request that waits for its turn. */
const waitingRequestBytes = 8 * 1024
/** Requests that a client may send ahead of its answers, on one connection. */
const aheadMax = 32
/** How long the rest of a body is thrown away after the answer, so that the client gets to see the answer. */
const lingerMs = 3_000

const unread = new Unread(unreadBytesMax)
const waiting = new WeakMap<Socket, number>()

/**
 * A response that is made when it is its turn: of the requests that were sent ahead on one connection each is served
 * when the client has taken the answer before it. So a connection holds one answer, and what all of them hold has a limit.
 */
export class Answer extends ServerResponse {
  #turn: (() => void) | null = null

  /** Whether the answers before this one are on their way. */
  get hasTurn(): boolean {
    return this.socket !== null
  }

  /** Calls back when it is its turn. A client that is too far ahead is cut off. */
  waitForTurn(serve: () => void): void {
    const { socket } = this.req
    const ahead = (waiting.get(socket) ?? 0) + 1
    if (ahead > aheadMax) {
      socket.destroy()
      return
    }
    waiting.set(socket, ahead)
    unread.hold(socket, waitingRequestBytes)
    this.#turn = serve
  }

  override assignSocket(socket: Socket): void {
    super.assignSocket(socket)
    const serve = this.#turn
    if (serve === null) return
    this.#turn = null
    waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
    unread.release(socket, waitingRequestBytes)
    serve()
  }

  override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
    super.end(chunk, encoding as BufferEncoding, callback as () => void)
    // Most answers are with the kernel by now.
    const bytes = this.writableLength
    if (bytes > 0) this.#holdUntilClosed(bytes)
    return this
  }

  override detachSocket(socket: Socket): void {
    super.detachSocket(socket)
    if (!this.req.complete) this.#linger(socket)
  }

  #holdUntilClosed(bytes: number): void {
    const { socket } = this.req
    unread.hold(socket, bytes)
    this.once('close', () => unread.release(socket, bytes))
  }

  #linger(socket: Socket): void {
    const { req } = this
    setTimeout(() => {
      if (!req.complete) socket.destroy()
    }, lingerMs).unref()
  }
}
