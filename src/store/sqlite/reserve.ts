import { randomBytes } from 'node:crypto'
import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs'
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
  #isSpent = false

  constructor(file: string) {
    this.#path = `${file}-reserve`
  }

  /** It was given up because the disk was full, and there was no room to set it aside again since. */
  get isSpent(): boolean {
    return this.#isSpent
  }

  /** Gives the space up. False when there is none set aside. */
  spend(): boolean {
    if (statSync(this.#path, { throwIfNoEntry: false }) === undefined) return false
    rmSync(this.#path, { force: true })
    this.#isSpent = true
    return true
  }

  /** Sets the space aside if there is as much again besides. It is a help, not a condition: without it all goes on. */
  fill(): void {
    try {
      if (statSync(this.#path, { throwIfNoEntry: false })?.size !== reserveBytes) {
        if (freeBytes(this.#path) < 2 * reserveBytes) return
        write(this.#path)
      }
      this.#isSpent = false
    } catch {
      rmSync(this.#path, { force: true })
    }
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
