import { closeSync, constants, existsSync, fchmodSync, fstatSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import { identityOf } from './file-watch.ts'

export type Owner = Readonly<{
  /** Takes the lock again if its file was deleted. Throws when somebody else has it. */
  keep(): void
  release(): void
}>

/** Long enough for two that start at once to pass each other, short enough to refuse at once. */
const lockTimeoutMs = 250

const oneServer = 'One server owns a database file: stop that one or name another file.'

/**
 * One server owns a database file. The claim is a write lock on a small file beside it, which the system gives back
 * however the process ends, so that a crash never leaves it behind.
 */
export function becomeOwner(file: string, advice = oneServer): Owner {
  const name = `${file}-owner`
  let lock = takeLock(file, advice)
  let known = identityOf(name)
  return {
    keep() {
      const found = identityOf(name)
      if (found === undefined || found === known) return
      const lost = lock
      lock = takeLock(file, advice)
      known = identityOf(name)
      lost.close()
    },
    release() {
      if (lock.isOpen) lock.close()
    },
  }
}

function takeLock(file: string, advice: string): DatabaseSync {
  keepPrivate(`${file}-owner`)
  const lock = new DatabaseSync(`${file}-owner`, { timeout: lockTimeoutMs })
  try {
    // On a full disk there is no room for a journal of its own.
    lock.exec('PRAGMA journal_mode = MEMORY')
    lock.exec('CREATE TABLE IF NOT EXISTS owner (pid INTEGER NOT NULL, since TEXT NOT NULL)')
    lock.exec('BEGIN IMMEDIATE; DELETE FROM owner')
    lock.prepare('INSERT INTO owner VALUES (?, ?)').run(process.pid, new Date().toISOString())
    lock.exec('COMMIT; BEGIN IMMEDIATE')
    return lock
  } catch (error) {
    const refusal = isBusy(error) ? ownedByAnother(lock, `${file}. ${advice}`, error) : error
    lock.close()
    throw refusal
  }
}

/**
 * Refuses a database that some process has open, under whatever name. The lock file of its owner may be gone, but SQLite
 * keeps a lock on the file itself, which this one asks for and gives back.
 */
export function refuseWhileOpen(file: string): void {
  const db = new DatabaseSync(file, { timeout: lockTimeoutMs })
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT')
  } catch (error) {
    if (!isBusy(error)) throw error
    throw new PosthornError(
      'store_locked',
      `Another program has ${file} open, and there was no ${file}-owner that says which. ${oneServer}`,
      { cause: error },
    )
  } finally {
    db.close()
  }
}

const othersRights = 0o077

/** Who can read the file can lock it, and would keep every server out. A link would lead to a file of somebody else. */
function keepPrivate(path: string): void {
  try {
    const flags = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0)
    const handle = openSync(path, flags, 0o600)
    try {
      if ((fstatSync(handle).mode & othersRights) !== 0) fchmodSync(handle, 0o600)
    } finally {
      closeSync(handle)
    }
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const isTheirs = (code === 'EACCES' || code === 'EPERM') && existsSync(path)
    if (!isTheirs && code !== 'ELOOP') throw cause
    const what = isTheirs ? 'belongs to another user' : 'is a link'
    const message = `${path} ${what}: if no other server runs on this database, delete that file and start again.`
    throw new PosthornError('store_unavailable', message, { cause })
  }
}

function isBusy(error: unknown): boolean {
  const code = error instanceof Error ? (error as Error & { errcode?: number }).errcode : undefined
  return code !== undefined && (code & 0xff) === 5
}

function ownedByAnother(lock: DatabaseSync, what: string, cause: unknown): PosthornError {
  const owner = readOwner(lock)
  const who = owner === undefined ? 'Another Posthorn' : `Another Posthorn (process ${owner.pid}, since ${owner.since})`
  return new PosthornError('store_locked', `${who} owns ${what}`, { cause })
}

/** Unknown while the other one is just writing its name. */
function readOwner(lock: DatabaseSync): Record<string, unknown> | undefined {
  try {
    return lock.prepare('SELECT pid, since FROM owner').get()
  } catch {
    return undefined
  }
}
