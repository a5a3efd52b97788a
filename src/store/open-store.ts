import type { Database } from './database.ts'
import { postgresDatabase } from './postgres/database.ts'
import { sqliteDatabase } from './sqlite/database.ts'

/** What the configuration says about where events are kept. */
export type DatabasePlace = Readonly<{
  database: Readonly<{ kind: 'sqlite'; path: string }> | Readonly<{ kind: 'postgres'; url: string; schema: string }>
  /** null: none is set. SQLite has a key file beside the database then. */
  encryptionKey: Uint8Array | null
}>

/** The database at this place. Nothing is opened yet. The only function that knows which adapters there are. */
export function databaseAt({ database, encryptionKey }: DatabasePlace): Database {
  switch (database.kind) {
    case 'sqlite':
      return sqliteDatabase(database.path, encryptionKey)
    case 'postgres':
      return postgresDatabase(database, encryptionKey)
  }
}
