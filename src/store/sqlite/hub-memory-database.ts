import { closeSync, existsSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import { storageFailure } from './failures.ts'
import { makeFolder } from './folder.ts'

/** Says in the file's header whose it is: `PHub`. */
const applicationId = 0x50487562
const busyTimeoutMs = 1_000
const cacheKib = 2_048
const logBytesMax = 8 * 1_024 * 1_024

/** The number grows with every end, so that the oldest are found without looking at the others. */
const schema = `
  PRAGMA application_id = ${applicationId};
  CREATE TABLE IF NOT EXISTS ends (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery TEXT NOT NULL,
    born_at REAL NOT NULL,
    kept_at REAL NOT NULL,
    took_ms REAL NOT NULL,
    report TEXT NOT NULL,
    UNIQUE (delivery, born_at)
  );
  CREATE TABLE IF NOT EXISTS probe (written INTEGER NOT NULL);
  INSERT INTO probe SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM probe);`

export function makeFolderOf(file: string): void {
  makeFolder(dirname(file))
}

/** Throws `store_corrupt` only for a file that is a hub's memory or has nothing in it that somebody could miss. */
export function openMemoryDatabase(file: string): DatabaseSync {
  // What a target has answered is nobody else's business. SQLite gives its log the rights of the file.
  closeSync(openSync(file, 'a', 0o600))
  let db: DatabaseSync | null = null
  try {
    db = new DatabaseSync(file, { timeout: busyTimeoutMs })
    prepare(db, file)
    return db
  } catch (error) {
    db?.close()
    if (storageFailure(error)?.code === 'store_corrupt' && !isOurs(file)) throw notAMemory(file)
    throw error
  }
}

/** Moves a damaged file out of the way, in the place of one that was put there before, and says where it is. */
export function putAside(file: string): string {
  const aside = `${file}.damaged`
  for (const suffix of ['', '-wal']) {
    if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix)
    else rmSync(aside + suffix, { force: true })
  }
  rmSync(`${file}-shm`, { force: true })
  return aside
}

function prepare(db: DatabaseSync, file: string): void {
  const { application_id: id } = db.prepare('PRAGMA application_id').get() ?? {}
  const { tables } = db.prepare('SELECT count(*) AS tables FROM sqlite_schema').get() ?? {}
  if (id !== applicationId && tables !== 0) throw notAMemory(file)
  // Before there is a log, so that the header tells whose the file is whatever happens to the log.
  if (tables === 0) db.exec(`PRAGMA journal_mode = DELETE; BEGIN; ${schema} COMMIT;`)
  // NORMAL: what a power cut takes is at most a repeat, and the end of this process takes nothing.
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -${cacheKib};
    PRAGMA journal_size_limit = ${logBytesMax};`)
  const { quick_check: found } = db.prepare('PRAGMA quick_check(1)').get() ?? {}
  if (found !== 'ok') throw new PosthornError('store_corrupt', `The memory of the hub is damaged (${found}).`)
}

const magic = 'SQLite format 3\0'
const idOffset = 68
const headerBytes = 100

/** A file of somebody else's must stay where it is. One that begins with zeros is what a power cut leaves of a new one. */
function isOurs(file: string): boolean {
  const header = Buffer.alloc(headerBytes)
  const handle = openSync(file, 'r')
  try {
    readSync(handle, header, 0, headerBytes, 0)
  } finally {
    closeSync(handle)
  }
  if (header.every((byte) => byte === 0)) return true
  return header.toString('latin1', 0, magic.length) === magic && header.readUInt32BE(idOffset) === applicationId
}

function notAMemory(file: string): PosthornError {
  const what = statSync(file).isDirectory() ? 'a folder' : 'something else'
  return new PosthornError('invalid', `${file} is not the memory of a hub but ${what}: name another file.`)
}
