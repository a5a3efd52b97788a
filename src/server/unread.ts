import type { Socket } from 'node:net'

/**
 * What connections hold of the memory until their clients read: answers, and requests that wait behind them. Beyond the
 * limit the connections that have held something for the longest are closed. A client that reads holds nothing for long.
 */
export class Unread {
  readonly #bytesMax: number
  /** Oldest first. */
  readonly #held = new Map<Socket, number>()
  readonly #watched = new WeakSet<Socket>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Over all connections. */
  get bytes(): number {
    return this.#bytes
  }

  hold(socket: Socket, bytes: number): void {
    if (socket.destroyed) return
    if (!this.#watched.has(socket)) {
      this.#watched.add(socket)
      socket.once('close', () => this.#forget(socket))
    }
    this.#held.set(socket, (this.#held.get(socket) ?? 0) + bytes)
    this.#bytes += bytes
    for (const oldest of this.#held.keys()) {
      if (this.#bytes <= this.#bytesMax) return
      this.#forget(oldest)
      oldest.destroy()
    }
  }

  /** Some of it is gone. A connection that was closed holds nothing any more. */
  release(socket: Socket, bytes: number): void {
    const held = this.#held.get(socket)
    if (held === undefined) return
    if (held <= bytes) {
      this.#forget(socket)
      return
    }
    this.#held.set(socket, held - bytes)
    this.#bytes -= bytes
  }

  #forget(socket: Socket): void {
    this.#bytes -= this.#held.get(socket) ?? 0
    this.#held.delete(socket)
  }
}
