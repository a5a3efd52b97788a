import type { Client } from 'pg'
import { PosthornError } from '../../core/errors.ts'
import type { Ends, ImportProgress, ImportTarget, Piece, RecordKind, Records } from '../import-records.ts'
import type { SecretBox } from '../secret-box.ts'
import { type Queryable, rowsOf } from './driver.ts'
import { EndpointTable } from './endpoints.ts'
import { openingFailure } from './failures.ts'
import { type Reading, readings } from './import-pages.ts'
import { type ImportParts, type Insert, insertSql, inserts } from './import-rows.ts'
import { inspect, migrate } from './migrations.ts'
import { quoted } from './schema.ts'
import { inspectServer } from './server-check.ts'

/** Where they are, all that others have put into a database shows. */
const tables = [
  'endpoints',
  'registry',
  'replays',
  'events',
  'live',
  'ended',
  'attempts',
  'idempotency_keys',
  'origins',
  'dead_letter_hours',
]

export type ImportTargetParts = Readonly<{
  client: Client
  name: string
  schemaName: string
  /** Opens the secrets of this database with its key. */
  openBox: () => Promise<SecretBox>
}>

type Step = Readonly<{ before: ImportProgress; after: ImportProgress }>

/** How far an import has come is kept in the settings, so that its row changes with the rows of each piece. */
export class PostgresImport implements ImportTarget {
  readonly name: string
  readonly #client: Client
  readonly #schemaName: string
  readonly #schema: string
  readonly #openBox: () => Promise<SecretBox>
  #parts: ImportParts | null = null

  constructor({ client, name, schemaName, openBox }: ImportTargetParts) {
    this.name = name
    this.#client = client
    this.#schemaName = schemaName
    this.#schema = quoted(schemaName)
    this.#openBox = openBox
  }

  find(): Promise<ImportProgress | null> {
    return this.#said(async () => {
      const { refusal } = await inspectServer(this.#client)
      if (refusal !== null) throw refusal
      const { from } = await inspect(this.#client, this.#schemaName)
      if (from === 0) return null
      const found = await readProgress(this.#client, this.#schema)
      if (found === null) await this.#refuseOtherData()
      return found
    })
  }

  begin(fresh: ImportProgress, found: ImportProgress | null): Promise<ImportProgress> {
    return this.#said(async () => {
      await migrate(this.#client, this.#schemaName)
      const box = await this.#openBox()
      this.#parts = { box, endpoints: new EndpointTable(this.#client, this.#schema) }
      await this.#parts.endpoints.reload()
      if (found === null) await this.#transaction(() => this.#enter(fresh))
      return found ?? fresh
    })
  }

  write<K extends RecordKind>(kind: K, records: readonly Records[K][], step: Step): Promise<void> {
    return this.#said(async () => {
      const insertsOf: (records: readonly Records[K][], parts: ImportParts) => readonly Insert[] = inserts[kind]
      const parts = this.#begun()
      const pieces = records.length === 0 ? [] : insertsOf(records, parts)
      await this.#transaction(async () => {
        await this.#move(step)
        for (const piece of pieces) {
          const values = piece.columns.map(([, , array]) => array)
          await this.#rows(insertSql(this.#schema, piece), values)
        }
      })
      if (kind === 'endpoints') await parts.endpoints.reload()
    })
  }

  read<K extends RecordKind>(kind: K, after: string | null): Promise<Piece<K>> {
    return this.#said(async () => {
      const reading: Reading<Records[K]> = readings[kind]
      const start = after === null ? reading.start : JSON.parse(after)
      const rows = await this.#rows(reading.sql(this.#schema), start)
      const parts = this.#begun()
      const records = rows.map((row) => reading.toRecord(row, parts))
      const last = rows.at(-1)
      return { records, next: last === undefined ? null : JSON.stringify(last.slice(0, start.length)) }
    })
  }

  finish({ registryVersion, endpointNo, replayNo }: Ends, step: Step): Promise<void> {
    return this.#said(async () => {
      const schema = this.#schema
      await this.#transaction(async () => {
        await this.#rows('SET LOCAL synchronous_commit = on')
        await this.#move(step)
        await this.#rows(`UPDATE ${schema}.registry_version SET version = greatest(version, $1)`, [registryVersion])
        await this.#goOnAfter('endpoints', endpointNo)
        await this.#goOnAfter('replays', replayNo)
        await this.#rows(`
          SELECT setval('${schema}.positions', greatest(p.last_value, (SELECT max(position) FROM ${schema}.live)))
          FROM ${schema}.positions p`)
      })
      for (const table of tables) await this.#rows(`ANALYZE ${schema}.${table}`)
    })
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => {})
  }

  /** Numbers that were given are never given again, also when their rows are gone. */
  async #goOnAfter(table: string, no: number): Promise<void> {
    if (no > 0)
      await this.#rows('SELECT setval(pg_get_serial_sequence($1, $2), $3)', [`${this.#schema}.${table}`, 'no', no])
  }

  /** A server that starts at the same moment reads the settings after it has become a member: one of the two sees the other. */
  async #enter(fresh: ImportProgress): Promise<void> {
    await this.#rows(`LOCK TABLE ${this.#schema}.settings IN ACCESS EXCLUSIVE MODE`)
    await this.#refuseOtherData()
    const sql = `INSERT INTO ${this.#schema}.settings (name, value) VALUES ('import', $1) ON CONFLICT DO NOTHING RETURNING 1`
    if ((await this.#rows(sql, [bytesOf(fresh)])).length === 0) throw meanwhile()
  }

  /** Only from where this import has been before: two of them cannot both go on. */
  async #move({ before, after }: Step): Promise<void> {
    const sql = `UPDATE ${this.#schema}.settings SET value = $1 WHERE name = 'import' AND value = $2 RETURNING 1`
    if ((await this.#rows(sql, [bytesOf(after), bytesOf(before)])).length === 0) throw meanwhile()
  }

  async #refuseOtherData(): Promise<void> {
    const schema = this.#schema
    const members = await this.#rows(
      `SELECT host, pid FROM ${schema}.members WHERE NOT fenced AND lease_ends_at > ${schema}.store_time_v1()`,
    )
    if (members[0] !== undefined) {
      const [host, pid] = members[0]
      const message = `A server runs on ${this.name} (process ${pid} on ${host}); stop it before the import.`
      throw new PosthornError('store_locked', message)
    }
    const looks = tables.map((table) => `EXISTS (SELECT 1 FROM ${schema}.${table})`).join(', ')
    const [found = []] = await this.#rows(`SELECT ${looks}`)
    const filled = tables.filter((_, at) => found[at] === true)
    if (filled.length === 0) return
    throw new PosthornError(
      'conflict',
      `${this.name} has data of its own already (${filled.join(', ')}); import into an empty schema: add ?schema=<name> to the URL.`,
    )
  }

  #begun(): ImportParts {
    if (this.#parts === null) throw new Error('the import has not begun')
    return this.#parts
  }

  async #transaction(work: () => Promise<void>): Promise<void> {
    await this.#client.query('BEGIN')
    try {
      await work()
      await this.#client.query('COMMIT')
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => {})
      throw error
    }
  }

  #rows(sql: string, values: readonly unknown[] = []) {
    return rowsOf(this.#client, sql, values)
  }

  async #said<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw openingFailure(error)
    }
  }
}

/** How far an import into this schema has come; null: there was none. `schema` is quoted. */
async function readProgress(on: Queryable, schema: string): Promise<ImportProgress | null> {
  const [row] = await rowsOf(on, `SELECT value FROM ${schema}.settings WHERE name = 'import'`, [])
  return row === undefined ? null : JSON.parse(Buffer.from(row[0] as Uint8Array).toString())
}

/** Why no server may start here; null: it may. */
export async function unfinishedImport(on: Queryable, schema: string): Promise<PosthornError | null> {
  const progress = await readProgress(on, schema)
  if (progress === null || progress.doneAt !== null) return null
  const advice = 'run posthorn import again, and it goes on where it was; or drop the schema to begin anew'
  return new PosthornError('store_locked', `An import into this database is not finished: ${advice}.`)
}

function bytesOf(progress: ImportProgress): Buffer {
  return Buffer.from(JSON.stringify(progress))
}

function meanwhile(): PosthornError {
  return new PosthornError('conflict', 'Another import into this database has come in between; run it again.')
}
