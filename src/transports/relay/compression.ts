/** Over all links. */
const unsentBytesMax = 16 * 1024 * 1024

/**
 * A large body that is compressed is a copy, which its link holds until the hub has read it. So only so much is compressed
 * at a time. What comes beyond that goes as it is, from where it is.
 */
export class Compression {
  #unsentBytes = 0

  /** Answers whether there was room. */
  take(bytes: number): boolean {
    if (this.#unsentBytes + bytes > unsentBytesMax) return false
    this.#unsentBytes += bytes
    return true
  }

  free(bytes: number): void {
    this.#unsentBytes -= bytes
  }
}
