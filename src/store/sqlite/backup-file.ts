import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import { PosthornError } from '../../core/errors.ts'
import type { CopyAnswer, CopyData } from './backup-copy.ts'
import { fromMessage, storageFailure } from './failures.ts'
import { realFile } from './open-file.ts'
import { becomeOwner } from './owner.ts'

export type BackupReport = Readonly<{
  bytes: number
  events: number
  deliveries: number
  /** The copy was read through and found whole. */
  verified: true
}>

/** Told from time to time how much is copied, and once at the end. */
export type BackupProgress = (bytesDone: number, bytesTotal: number) => void

const progressEveryMs = 200
const anotherBackup = 'Another backup is being written there: wait for it, or name another file.'

/**
 * A consistent copy of a database while others write to it: all that was acknowledged before the call is in it. It is
 * made on a thread of its own, checked, and gets its name only when it is whole and on disk.
 */
export async function backupFile(
  file: string,
  target: string,
  onProgress: BackupProgress = () => {},
): Promise<BackupReport> {
  const source = realFile(file)
  const path = resolve(target)
  refuse(source, path)
  const part = `${path}.part`
  const lock = lockPart(part)
  const timer = setInterval(() => onProgress(sizeOf(part), sizeOf(source)), progressEveryMs)
  try {
    const { events, deliveries } = await copyOnThread({ source, part })
    sync(part)
    // Somebody else may have been faster.
    refuse(source, path)
    renameSync(part, path)
    sync(dirname(path))
    const bytes = sizeOf(path)
    onProgress(bytes, bytes)
    return { bytes, events, deliveries, verified: true }
  } catch (error) {
    rmSync(part, { force: true })
    throw failureOf(error, path)
  } finally {
    clearInterval(timer)
    lock.release()
  }
}

/** Only one backup writes to a part at a time; what a killed one left behind is in nobody's way. */
function lockPart(part: string): Readonly<{ release(): void }> {
  try {
    // SQLite's own words for this say little.
    accessSync(`${dirname(part)}/.`, constants.W_OK)
    const owner = becomeOwner(part, anotherBackup)
    rmSync(part, { force: true })
    // Payloads are nobody else's business; SQLite fills an empty file.
    closeSync(openSync(part, 'wx', 0o600))
    return {
      release() {
        rmSync(`${part}-owner`, { force: true })
        owner.release()
      },
    }
  } catch (error) {
    throw failureOf(error, part)
  }
}

function refuse(source: string, target: string): void {
  if (!existsSync(source)) {
    throw new PosthornError('store_missing', `${source} does not exist; name the database file.`)
  }
  if (existsSync(target)) {
    throw new PosthornError('invalid', `${target} exists already; name another file, a backup overwrites nothing.`)
  }
}

function copyOnThread(data: CopyData): Promise<Readonly<{ events: number; deliveries: number }>> {
  const worker = new Worker(new URL('./backup-copy.ts', import.meta.url), { workerData: data })
  return new Promise((resolvePromise, reject) => {
    let answer: CopyAnswer | null = null
    let failure: Error | null = null
    worker.on('message', (message: CopyAnswer) => {
      answer = message
    })
    worker.on('error', (error: Error) => {
      failure = error
    })
    // Only now are all of its files closed.
    worker.once('exit', () => {
      if (answer === null) reject(failure ?? new Error('the thread that copies has ended by itself'))
      else if ('failure' in answer) reject(fromMessage(answer.failure))
      else resolvePromise(answer)
    })
  })
}

function failureOf(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    const message = `${dirname(path)} is no folder; make it first, or name a file in one that exists.`
    return new PosthornError('store_missing', message, { cause: error })
  }
  const failure = storageFailure(error)
  if (failure?.code !== 'store_full') return failure ?? error
  return new PosthornError('store_full', `There is no room for ${path}: the disk is full; make room and try again.`, {
    cause: error,
  })
}

function sync(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
