import { randomBytes } from 'node:crypto'
import { closeSync, openSync, rmSync, statfsSync, statSync, truncateSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

const reserveBytes = 4 * 1024 * 1024
/** Written several times over: it only has to be more than what a file system compresses in one piece. */
const pieceBytes = 1024 * 1024

/**
 * Disk space set aside, so that a full disk does not stop what makes room again: outcomes, expiry and pruning go on from
 * it, and a start is possible. New events are refused while it is spent.
 */
export class Reserve {
  readonly #path: string
  #isSpent: boolean

  constructor(file: string) {
    this.#path = `${file}-reserve`
    // An empty file says that it was spent before the last stop.
    this.#isSpent = this.#size() === 0
  }

  /** It was given up because the disk was full, and there was no room to set it aside again since. */
  get isSpent(): boolean {
    return this.#isSpent
  }

  /** Gives the space up. False when there is none set aside. */
  spend(): boolean {
    if ((this.#size() ?? 0) === 0) return false
    truncateSync(this.#path)
    this.#isSpent = true
    return true
  }

  /** Sets the space aside if there is as much again besides. It is a help, not a condition: without it all goes on. */
  fill(): void {
    try {
      if (this.#size() !== reserveBytes) {
        if (freeBytes(this.#path) < 2 * reserveBytes) return
        write(this.#path)
      }
      this.#isSpent = false
    } catch {
      truncateSync(this.#path)
    }
  }

  /** undefined: there is none. */
  #size(): number | undefined {
    return statSync(this.#path, { throwIfNoEntry: false })?.size
  }
}

function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path))
  return bavail * bsize
}

function write(path: string): void {
  rmSync(path, { force: true })
  const handle = openSync(path, 'wx', 0o600)
  try {
    const piece = randomBytes(pieceBytes)
    for (let written = 0; written < reserveBytes; ) written += writeSync(handle, piece)
  } finally {
    closeSync(handle)
  }
}
