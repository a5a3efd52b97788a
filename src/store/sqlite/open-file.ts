import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import type { MigrationReport } from '../database.ts'
import { busyTimeoutDefaultMs, openWriter } from './connection.ts'
import { storageFailure } from './failures.ts'
import { migrate } from './migrations.ts'
import { becomeOwner, type Owner, refuseWhileOpen } from './owner.ts'

export type OpenFile = Readonly<{ db: DatabaseSync; report: MigrationReport; owner: Owner; close(): void }>

/** The file itself: two names of one file must not have two owners. */
export function realFile(path: string): string {
  const file = resolve(path)
  if (!isLink(file)) return file
  // Also where it leads to nothing yet: that is where the file will be.
  return existsSync(file) ? realpathSync(file) : realFile(resolve(dirname(file), readlinkSync(file)))
}

function isLink(file: string): boolean {
  try {
    return lstatSync(file).isSymbolicLink()
  } catch {
    // There is nothing, or no way to it: opening will say which.
    return false
  }
}

/** Opens a database as its one owner, with the schema up to date. A file that is refused is not touched. */
export function openFile(file: string, busyTimeoutMs: number): OpenFile {
  refuseFolder(file)
  // SQLite's own words for this say little.
  accessSync(dirname(file), constants.W_OK)
  const isNew = (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0
  if (!isNew) inspectFile(file)
  // Before the lock is taken: a start that is refused must not look like the owner to the next one.
  if (!isNew && !existsSync(`${file}-owner`)) refuseWhileOpen(file)
  const owner = becomeOwner(file)
  let db: DatabaseSync | null = null
  try {
    // Payloads are nobody else's business. SQLite gives its log the rights of the file.
    closeSync(openSync(file, 'a', 0o600))
    db = openWriter(file, busyTimeoutMs)
    const report = migrate(db, file, { dryRun: false })
    rememberName(db, file)
    return { db, report, owner, close: closeBoth(db, owner) }
  } catch (error) {
    db?.close()
    owner.release()
    throw error
  }
}

/** What opening would migrate, found without writing; refuses what opening would refuse. */
export function inspectFile(file: string): MigrationReport {
  refuseFolder(file)
  try {
    return inspectAs(file, { readOnly: true })
  } catch (error) {
    // A crash left half a transaction, which only a connection that may write can take back.
    if (storageFailure(error)?.code !== 'store_read_only') throw error
    return inspectAs(file, { readOnly: false })
  }
}

function inspectAs(file: string, { readOnly }: { readOnly: boolean }): MigrationReport {
  const db = new DatabaseSync(file, { readOnly, timeout: busyTimeoutDefaultMs })
  try {
    const report = migrate(db, file, { dryRun: true })
    if (report.from > 0) refuseHardLink(db, file)
    return report
  } finally {
    db.close()
  }
}

/**
 * SQLite keeps its log beside the name by which a file was opened. Under another name, what was acknowledged and is
 * still in the log would be missing, and two owners would not see each other's locks.
 */
function refuseHardLink(db: DatabaseSync, file: string): void {
  const known = db.prepare(`SELECT CAST(value AS TEXT) AS name FROM settings WHERE name = 'file'`).get()?.name
  if (known === undefined || known === file || statSync(file).nlink === 1) return
  throw new PosthornError(
    'store_locked',
    `${file} is a hard link of ${known}: open it by that name, or delete the other names. To copy a database use posthorn backup.`,
  )
}

function rememberName(db: DatabaseSync, file: string): void {
  const { changes } = db
    .prepare(
      `INSERT INTO settings (name, value) VALUES ('file', CAST(? AS BLOB))
       ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value <> excluded.value`,
    )
    .run(file)
  // Who opens another name does not see the log.
  if (Number(changes) > 0) db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
}

function closeBoth(db: DatabaseSync, owner: Owner): () => void {
  return () => {
    db.close()
    owner.release()
  }
}

function refuseFolder(file: string): void {
  if (!statSync(file, { throwIfNoEntry: false })?.isDirectory()) return
  throw new PosthornError('store_missing', `${file} is a folder; name a file for the database.`)
}
