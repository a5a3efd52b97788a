import type { Client } from 'pg'
import { PosthornError } from '../../core/errors.ts'
import { numberOf } from '../../core/id.ts'
import type { MemberLease } from '../cluster-store.ts'
import type { Check, Database, MigrationReport, OpenedStore, StoreListener } from '../database.ts'
import { createSecretBox, type SecretBox } from '../secret-box.ts'
import { Connections } from './connections.ts'
import { type ConnectionSettings, endClient, openClient, rowsOf } from './driver.ts'
import { openingFailure } from './failures.ts'
import { PostgresImport, unfinishedImport } from './import.ts'
import { inspect, migrate } from './migrations.ts'
import { PostgresStore } from './postgres-store.ts'
import { idOf } from './row-keys.ts'
import { nameOf, type PostgresPlace, quoted } from './schema.ts'
import { inspectServer } from './server-check.ts'

/** What is left to its defaults everywhere but in tests. */
export type Timing = Readonly<{ callMsMax?: number; lease?: MemberLease }>

/** A schema in a Postgres database. `key` encrypts secrets; every process needs the same. */
export function postgresDatabase(place: PostgresPlace, key: Uint8Array | null, timing: Timing = {}): Database {
  const { schema } = place
  const settings = { connectionString: place.url, applicationName: `posthorn ${schema}` }
  return {
    open: (listener) => openStore(settings, schema, requiredKey(key), { ...listener, ...timing }),
    migrate: ({ dryRun }) => bringUpToDate(settings, schema, dryRun),
    backup: async () => {
      const advice = `pg_dump --schema=${schema} makes a copy that is consistent, also while Posthorn runs.`
      throw new PosthornError(
        'invalid',
        `Posthorn backs up SQLite files only; for Postgres use its own tools: ${advice}`,
      )
    },
    openExport: async () => {
      throw new PosthornError('invalid', 'Only a SQLite file can be imported from.')
    },
    openImport: async () => {
      const required = requiredKey(key)
      const client = await connected(settings)
      const openKeyed = () => openBox(client, schema, required)
      await refuseWithoutRights(client, schema).catch(async (error) => {
        await endClient(client)
        throw error
      })
      return new PostgresImport({ client, name: nameOf(place), schemaName: schema, openBox: openKeyed })
    },
    check: () => check(settings, schema, key),
    checkDelivery: async () => [],
    name: nameOf(place),
    exists: async () => (await withClient(settings, (client) => inspect(client, schema))).from > 0,
  }
}

async function openStore(
  settings: ConnectionSettings,
  schema: string,
  key: Uint8Array,
  { onBatch, onWarning, lease, callMsMax }: StoreListener & Timing,
): Promise<OpenedStore> {
  const box = await withClient(settings, async (client) => {
    const { refusal, warnings } = await inspectServer(client)
    if (refusal !== null) throw refusal
    for (const warning of warnings) onWarning?.(warning)
    await migrate(client, schema)
    return openBox(client, schema, key)
  })
  const limited = callMsMax === undefined ? settings : { ...settings, callMsMax }
  const connections = await Connections.open({ settings: limited, schema: quoted(schema), box, onBatch })
  const store = new PostgresStore(connections, lease)
  try {
    await store.open()
    await refuseDuringImport(store, connections)
    return { store, lastNumber: await lastNumber(connections) }
  } catch (error) {
    await store.close()
    throw openingFailure(error)
  }
}

/** Asked as a member: an import that begins at this moment sees it. */
async function refuseDuringImport(store: PostgresStore, { reads, schema }: Connections): Promise<void> {
  const refusal = await unfinishedImport(reads, schema)
  if (refusal === null) return
  await store.leave()
  throw refusal
}

async function bringUpToDate(settings: ConnectionSettings, schema: string, dryRun: boolean): Promise<MigrationReport> {
  return withClient(settings, async (client) => {
    const { refusal } = await inspectServer(client)
    if (refusal !== null) throw refusal
    return dryRun ? inspect(client, schema) : migrate(client, schema)
  })
}

async function check(settings: ConnectionSettings, schema: string, key: Uint8Array | null): Promise<readonly Check[]> {
  const checks: Check[] = []
  const say = (name: string, status: Check['status'], found: string, advice: string | null = null) =>
    checks.push({ check: name, status, found, advice })
  try {
    await withClient(settings, async (client) => {
      const server = await inspectServer(client)
      say('server', server.refusal === null ? 'ok' : 'fail', server.refusal?.message ?? `Postgres ${server.version}`)
      for (const warning of server.warnings) say('server', 'warn', warning)
      const { from, to, applied } = await inspect(client, schema)
      if (from === 0) {
        await refuseWithoutRights(client, schema)
        say('database', 'ok', `there is no schema ${schema} yet; start makes it`)
      } else if (applied.length > 0) {
        say('database', 'warn', `version ${from}; this Posthorn has ${to}`, 'the next start brings it up to date')
      } else if (key !== null) {
        await openBox(client, schema, key)
        say('database', 'ok', `version ${to}, and the key fits`)
      }
      const unfinished = from === 0 ? null : await unfinishedImport(client, quoted(schema))
      if (unfinished !== null) say('import', 'fail', unfinished.message)
    })
  } catch (error) {
    say('database', 'fail', error instanceof Error ? error.message : String(error))
  }
  if (key === null) say('encryption key', 'fail', 'none is set', keyAdvice)
  return checks
}

/** Before anything is made: whether this user may make it. */
async function refuseWithoutRights(client: Client, schema: string): Promise<void> {
  const sql = `SELECT CASE WHEN to_regnamespace(quote_ident($1)) IS NULL
      THEN has_database_privilege(current_database(), 'CREATE')
      ELSE has_schema_privilege(quote_ident($1)::regnamespace, 'CREATE') END, current_user`
  const [[may, user] = []] = await rowsOf(client, sql, [schema])
  if (may === true) return
  const message = `The user ${user} may not create the schema ${schema}. A superuser may run: CREATE SCHEMA ${schema} AUTHORIZATION "${user}"; or GRANT CREATE ON DATABASE.`
  throw new PosthornError('store_unavailable', message)
}

const keyAdvice = 'set POSTHORN_ENCRYPTION_KEY to the same key for every process; `openssl rand -base64 32` makes one'

function requiredKey(key: Uint8Array | null): Uint8Array {
  if (key !== null) return key
  throw new PosthornError(
    'config_invalid',
    `POSTHORN_ENCRYPTION_KEY is not set, and a Postgres database needs it: ${keyAdvice}.`,
  )
}

/** The first key that opened this database is the only one that fits it. */
async function openBox(client: Client, schema: string, key: Uint8Array): Promise<SecretBox> {
  const box = createSecretBox(key)
  const sealed = Buffer.from(box.seal('posthorn', 'key_check'))
  const settings = `${quoted(schema)}.settings`
  await rowsOf(client, `INSERT INTO ${settings} (name, value) VALUES ('key_check', $1) ON CONFLICT DO NOTHING`, [
    sealed,
  ])
  const rows = await rowsOf(client, `SELECT value FROM ${settings} WHERE name = 'key_check'`, [])
  box.open(rows[0]?.[0] as Uint8Array, 'key_check')
  return box
}

/** New ids sort behind all that are there, whatever the clock of this machine says. */
async function lastNumber({ reads, schema }: Connections): Promise<number> {
  const tables = ['events', 'live', 'ended'].map(
    (table) => `(SELECT id FROM ${schema}.${table} ORDER BY id DESC LIMIT 1)`,
  )
  const rows = await rowsOf(
    reads,
    `SELECT id FROM (${tables.join(' UNION ALL ')}) AS newest ORDER BY id DESC LIMIT 1`,
    [],
  )
  const key = rows[0]?.[0]
  return key === undefined ? 0 : (numberOf('evt', idOf('evt', key as string)) ?? 0)
}

async function withClient<T>(settings: ConnectionSettings, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await connected(settings)
  try {
    return await work(client)
  } catch (error) {
    throw openingFailure(error)
  } finally {
    await client.end().catch(() => {})
  }
}

async function connected(settings: ConnectionSettings): Promise<Client> {
  try {
    return await openClient(settings)
  } catch (error) {
    throw openingFailure(error)
  }
}
