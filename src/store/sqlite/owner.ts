import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'

export type Owner = Readonly<{ release(): void }>

/** Long enough for two that start at once to pass each other, short enough to refuse at once. */
const lockTimeoutMs = 250

const oneServer = 'One server owns a database file: stop that one or name another file.'

/**
 * One server owns a database file. The claim is a write lock on a small file beside it, which the system gives back
 * however the process ends, so that a crash never leaves it behind.
 */
export function becomeOwner(file: string, advice = oneServer): Owner {
  const lock = new DatabaseSync(`${file}-owner`, { timeout: lockTimeoutMs })
  try {
    lock.exec('CREATE TABLE IF NOT EXISTS owner (pid INTEGER NOT NULL, since TEXT NOT NULL)')
    lock.exec('BEGIN IMMEDIATE; DELETE FROM owner')
    lock.prepare('INSERT INTO owner VALUES (?, ?)').run(process.pid, new Date().toISOString())
    lock.exec('COMMIT; BEGIN IMMEDIATE')
  } catch (error) {
    const refusal = isBusy(error) ? ownedByAnother(lock, `${file}. ${advice}`, error) : error
    lock.close()
    throw refusal
  }
  return {
    release() {
      if (lock.isOpen) lock.close()
    },
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
