import { Buffer } from 'node:buffer'

/** A buffer costs hundreds of bytes however little is in it, and a client may send its body byte by byte. */
const smallBytesMax = 1_024
const tailBytes = 4_096

/** The pieces of a body, in no more memory than a few times their bytes. */
export class Pieces {
  #pieces: Buffer[] = []
  /** Where small pieces are put together, and how much of it is used. */
  #tail: Buffer | null = null
  #used = 0

  /** Buffers in use. */
  get count(): number {
    return this.#pieces.length + (this.#tail === null ? 0 : 1)
  }

  add(piece: Buffer): void {
    if (piece.length >= smallBytesMax || this.#pieces.length === 0) {
      this.#closeTail()
      this.#pieces.push(piece)
      return
    }
    if (this.#tail !== null && this.#used + piece.length > tailBytes) this.#closeTail()
    this.#tail ??= Buffer.allocUnsafeSlow(tailBytes)
    this.#used += piece.copy(this.#tail, this.#used)
  }

  whole(): Buffer {
    this.#closeTail()
    const [first] = this.#pieces
    return this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces)
  }

  drop(): void {
    this.#pieces = []
    this.#tail = null
    this.#used = 0
  }

  #closeTail(): void {
    if (this.#tail !== null) this.#pieces.push(this.#tail.subarray(0, this.#used))
    this.#tail = null
    this.#used = 0
  }
}
