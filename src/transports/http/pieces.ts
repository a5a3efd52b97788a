/** What a connection that encrypts has of a body at a time: it copies what it is handed. */
export const pieceBytes = 64 * 1024

/** A body piece by piece, as undici takes it: it asks for the next when the connection has sent the one before. */
export class Pieces implements Iterable<Uint8Array> {
  readonly #body: Uint8Array

  constructor(body: Uint8Array) {
    this.#body = body
  }

  /** Each time from the beginning: a request may be sent again. */
  *[Symbol.iterator](): Generator<Uint8Array> {
    for (let at = 0; at < this.#body.length; at += pieceBytes) yield this.#body.subarray(at, at + pieceBytes)
  }
}
