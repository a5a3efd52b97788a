import { readdirSync, readFileSync } from 'node:fs'
import type { Client } from 'pg'
import { PosthornError } from '../../core/errors.ts'
import type { MigrationReport } from '../database.ts'
import { rowsOf } from './driver.ts'
import { quoted } from './schema.ts'

export type Migration = Readonly<{ version: number; name: string; sql: string }>

const folder = new URL('./migrations/', import.meta.url)

/** The migrations in `.sql` files named 0001-what.sql, in order. */
export function listMigrations(): readonly Migration[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), name, sql: readFileSync(new URL(name, folder), 'utf8') }))
}

/** What is missing in this schema. Changes nothing. */
export async function inspect(client: Client, schema: string): Promise<MigrationReport> {
  return missing(await versionOf(client, schema))
}

/** Brings the schema up to date in one transaction. Two that do so at once wait for each other. */
export async function migrate(client: Client, schema: string): Promise<MigrationReport> {
  const seen = await inspect(client, schema)
  if (seen.applied.length === 0) return seen
  await client.query('BEGIN')
  try {
    await rowsOf(client, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [`posthorn migrations ${schema}`])
    const report = missing(await versionOf(client, schema))
    await apply(client, schema, report)
    await client.query('COMMIT')
    return report
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}

async function apply(client: Client, schema: string, { applied }: MigrationReport): Promise<void> {
  if (!(await hasSchema(client, schema))) await client.query(`CREATE SCHEMA ${quoted(schema)}`)
  await client.query(`SET LOCAL search_path TO ${quoted(schema)}`)
  await client.query(`CREATE TABLE IF NOT EXISTS migrations (
    version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
  for (const { version, name, sql } of listMigrations()) {
    if (!applied.includes(name)) continue
    await client.query(sql)
    await rowsOf(client, 'INSERT INTO migrations (version, name) VALUES ($1, $2)', [version, name])
  }
}

function missing(from: number): MigrationReport {
  const migrations = listMigrations()
  const to = migrations.at(-1)?.version ?? 0
  if (from > to) {
    const message = `The database has version ${from}, and this Posthorn knows ${to}; use a newer Posthorn.`
    throw new PosthornError('store_too_new', message)
  }
  return { from, to, applied: migrations.filter(({ version }) => version > from).map(({ name }) => name) }
}

async function versionOf(client: Client, schema: string): Promise<number> {
  // Read as rows: to_regclass remembers that there was none, although another process has made it since.
  const sql = `SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migrations'`
  if ((await rowsOf(client, sql, [schema])).length === 0) return 0
  const rows = await rowsOf(client, `SELECT coalesce(max(version), 0) FROM ${quoted(schema)}.migrations`, [])
  return (rows[0]?.[0] ?? 0) as number
}

async function hasSchema(client: Client, schema: string): Promise<boolean> {
  const rows = await rowsOf(client, 'SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
  return rows.length > 0
}
