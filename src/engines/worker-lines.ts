import { Buffer } from 'node:buffer'

/** What is longer loses its end: a line goes into the log, and nobody says how long it may get. */
const lineBytesMax = 8_192
const newline = 10

/** Cuts output into lines, with a bounded part of each in memory. */
export class Lines {
  readonly #onLine: (line: string) => void
  #pieces: Buffer[] = []
  #length = 0

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  add(chunk: Buffer): void {
    let from = 0
    for (let to = chunk.indexOf(newline); to >= 0; to = chunk.indexOf(newline, from)) {
      this.#keep(chunk.subarray(from, to))
      this.end()
      from = to + 1
    }
    this.#keep(chunk.subarray(from))
  }

  /** What has come since the last line break is a line, too. */
  end(): void {
    if (this.#length === 0) return
    const line = Buffer.concat(this.#pieces).toString()
    this.#pieces = []
    this.#length = 0
    this.#onLine(line)
  }

  #keep(piece: Buffer): void {
    const kept = piece.subarray(0, lineBytesMax - this.#length)
    if (kept.length === 0) return
    this.#pieces.push(kept)
    this.#length += kept.length
  }
}
