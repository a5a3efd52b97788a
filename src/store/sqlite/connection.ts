import { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'

/** How long a connection waits for another program's lock. */
export const busyTimeoutDefaultMs = 5_000
const writerCacheKib = 16_384
const readerCacheKib = 8_192

/** For every connection. Checkpoints are made between commits, never inside one. */
const durable = `
  PRAGMA synchronous = FULL;
  PRAGMA fullfsync = ON;
  PRAGMA checkpoint_fullfsync = ON;
  PRAGMA wal_autocheckpoint = 0;
  PRAGMA temp_store = MEMORY;
  PRAGMA mmap_size = 0;`

/** A connection that is durable: WAL with a sync of the log at every commit. */
export function openWriter(file: string, busyTimeoutMs: number): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: busyTimeoutMs, enableForeignKeyConstraints: false })
  try {
    makeDurable(db, file)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

function makeDurable(db: DatabaseSync, file: string): void {
  db.exec(`
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    ${durable}
    PRAGMA cache_size = -${writerCacheKib};
    PRAGMA journal_size_limit = 67108864;
  `)
  assertDurable(db, file)
}

/** A connection that reads, and that moves the log into the file as durably as the writer writes it. */
export function openReader(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: busyTimeoutDefaultMs, enableForeignKeyConstraints: false })
  db.exec(`${durable} PRAGMA cache_size = -${readerCacheKib};`)
  return db
}

function assertDurable(db: DatabaseSync, file: string): void {
  const mode = db.prepare('PRAGMA journal_mode').get()?.journal_mode
  const synchronous = db.prepare('PRAGMA synchronous').get()?.synchronous
  if (mode !== 'wal' || synchronous !== 2) {
    throw new PosthornError(
      'store_unavailable',
      `${file} is in a place where SQLite cannot be durable (journal_mode is ${mode}, synchronous is ${synchronous}); put it on a local disk.`,
    )
  }
}
