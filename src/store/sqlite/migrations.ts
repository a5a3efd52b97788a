import { readdirSync, readFileSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import type { MigrationReport } from '../database.ts'

export type Migration = Readonly<{ version: number; name: string; sql: string }>

const folder = new URL('./migrations/', import.meta.url)

/** The migrations in `.sql` files named 0001-what.sql, in order. */
export function listMigrations(): readonly Migration[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), name, sql: readFileSync(new URL(name, folder), 'utf8') }))
}

/** Brings the schema up to date, all or nothing. A file from a newer Posthorn is refused and not touched. */
export function migrate(db: DatabaseSync, file: string, options: { dryRun: boolean }): MigrationReport {
  const migrations = listMigrations()
  const newest = migrations.at(-1)?.version ?? 0
  const from = schemaVersion(db, file)
  if (from > newest) {
    throw new PosthornError(
      'store_too_new',
      `${file} was written by a newer Posthorn (schema ${from}, this one knows ${newest}); start that version. Nothing was changed.`,
    )
  }
  const missing = migrations.filter((migration) => migration.version > from)
  const report = { from, to: newest, applied: missing.map((migration) => migration.name) }
  if (options.dryRun || missing.length === 0) return report
  db.exec('BEGIN IMMEDIATE')
  try {
    db.exec('CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT')
    const record = db.prepare('INSERT INTO migrations (version, name) VALUES (?, ?)')
    for (const { version, name, sql } of missing) {
      db.exec(sql)
      record.run(version, name)
    }
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
  return report
}

/** 0 for an empty file. A file with tables of some other program is refused. */
function schemaVersion(db: DatabaseSync, file: string): number {
  const tables = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`).all()
  if (tables.length === 0) return 0
  // Many programs keep a table of migrations; together with deliveries it is ours.
  if (!['migrations', 'deliveries'].every((name) => tables.some((table) => table.name === name))) {
    throw new PosthornError('store_corrupt', `${file} is a database of another program; name another file.`)
  }
  return Number(db.prepare('SELECT max(version) AS version FROM migrations').get()?.version ?? 0)
}
