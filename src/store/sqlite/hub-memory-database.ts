import { closeSync, existsSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import { storageFailure } from './failures.ts'

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

/**
 * Throws `store_corrupt` only for what is a hub's memory, damaged: a file of somebody else's must stay where it is.
 * `wasOwned`: a Posthorn has used it before, so that it was a database whatever it looks like now.
 */
export function openMemoryDatabase(file: string, wasOwned: boolean): DatabaseSync {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory()) throw notAMemory(file, 'a folder')
  // What a target has answered is nobody else's business. SQLite gives its log the rights of the file.
  closeSync(openSync(file, 'a', 0o600))
  let db: DatabaseSync | null = null
  try {
    db = new DatabaseSync(file, { timeout: busyTimeoutMs })
    prepare(db, file)
    return db
  } catch (error) {
    db?.close()
    if (storageFailure(error)?.code === 'store_corrupt' && !isOurs(file, wasOwned)) throw notAMemory(file)
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

function isOurs(file: string, wasOwned: boolean): boolean {
  const header = Buffer.alloc(headerBytes)
  const handle = openSync(file, 'r')
  try {
    readSync(handle, header, 0, headerBytes, 0)
  } finally {
    closeSync(handle)
  }
  // Zeros are what a power cut leaves of a new file.
  if (header.every((byte) => byte === 0)) return true
  const isDatabase = header.toString('latin1', 0, magic.length) === magic
  return isDatabase ? header.readUInt32BE(idOffset) === applicationId : wasOwned
}

function notAMemory(file: string, what = 'something else'): PosthornError {
  return new PosthornError('invalid', `${file} is not the memory of a hub but ${what}: name another file.`)
}
