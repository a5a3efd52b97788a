import type { Client, Pool, PoolClient, PoolConfig, QueryConfig } from 'pg'
import { PosthornError } from '../../core/errors.ts'

/** A value as the driver gives it: whole numbers of eight bytes are numbers here. */
export type Cell = string | number | boolean | null | Uint8Array | readonly number[] | readonly string[]
export type Row = readonly Cell[]

/** What both a connection and a pool can do. */
export type Queryable = Pick<Client | Pool, 'query'>

type Driver = typeof import('pg')

const int8 = 20
const connectMsMax = 5_000
const keepAliveAfterMs = 10_000
const goodbyeMsMax = 2_000

let loading: Promise<Driver> | null = null

/** Installed by those who use it. */
export function loadDriver(): Promise<Driver> {
  loading ??= import('pg').then(
    (module) => module.default as unknown as Driver,
    (cause) => {
      loading = null
      const message = 'A Postgres database needs the package pg. Install it with `npm install pg@8`.'
      throw new PosthornError('config_invalid', message, { cause })
    },
  )
  return loading
}

export type ConnectionSettings = Readonly<{
  connectionString: string
  applicationName: string
  /** A call without an answer for so long fails, and its connection with it. Default: none does. */
  callMsMax?: number
}>

export async function openClient(settings: ConnectionSettings): Promise<Client> {
  const driver = await loadDriver()
  const client = new driver.Client(optionsOf(settings))
  // A connection that breaks says so here too; whoever waits for an answer is told by it.
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    destroyClient(client)
    throw error
  }
  return client
}

/**
 * For what works on the primary only. During a failover an address may lead to a server that is a replica: it answers, but
 * keeps nothing, and what it knows may be old.
 */
export async function openPrimary(settings: ConnectionSettings): Promise<Client> {
  const client = await openClient(settings)
  try {
    await refuseReplica(client)
    return client
  } catch (error) {
    destroyClient(client)
    throw error
  }
}

async function refuseReplica(on: Queryable): Promise<void> {
  const [row] = await rowsOf(on, 'SELECT pg_is_in_recovery()', [])
  if (row?.[0] === true) throw isReplica()
}

export function isReplica(): PosthornError {
  const message = 'The database is a read-only replica; name the primary in POSTHORN_DATABASE_URL.'
  return new PosthornError('store_read_only', message)
}

/** At once: the other side may never answer again. */
export function destroyClient(client: Client): void {
  client.end().catch(() => {})
  client.connection.stream.destroy()
}

export async function endClient(client: Client): Promise<void> {
  const lastResort = setTimeout(() => destroyClient(client), goodbyeMsMax)
  await client.end().catch(() => {})
  clearTimeout(lastResort)
}

/** Connections to the primary. */
export async function openPool(settings: ConnectionSettings, max: number): Promise<Pool> {
  const driver = await loadDriver()
  const verify: PoolConfig['verify'] = (client, done) => refuseReplica(client).then(() => done(), done)
  const pool = new driver.Pool({ ...optionsOf(settings), max, idleTimeoutMillis: 30_000, verify })
  pool.on('error', () => {})
  const clients = new Set<PoolClient>()
  pool.on('connect', (client) => {
    clients.add(client)
    // While it is verified nobody else listens, and a connection that breaks then would end the process.
    client.on('error', () => {})
  })
  pool.on('remove', (client) => clients.delete(client))
  clientsOf.set(pool, clients)
  return pool
}

const clientsOf = new WeakMap<Pool, ReadonlySet<PoolClient>>()

/** What is under way may end, but not wait for ever. */
export async function endPool(pool: Pool): Promise<void> {
  if (pool.ended || pool.ending) return
  const lastResort = setTimeout(() => {
    for (const client of clientsOf.get(pool) ?? []) destroyClient(client as unknown as Client)
  }, goodbyeMsMax)
  await pool.end()
  clearTimeout(lastResort)
}

function optionsOf({ connectionString, applicationName, callMsMax = 0 }: ConnectionSettings) {
  return {
    connectionString,
    application_name: applicationName,
    query_timeout: callMsMax,
    connectionTimeoutMillis: connectMsMax,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveAfterMs,
  }
}

/** Rows as arrays of cells. */
export async function rowsOf(on: Queryable, text: string, values: readonly unknown[]): Promise<Row[]> {
  const driver = await loadDriver()
  const { getTypeParser } = driver.types
  const types = { getTypeParser: (oid: number) => (oid === int8 ? Number : getTypeParser(oid)) }
  const query = { text, values: [...values], rowMode: 'array', types } as QueryConfig & { rowMode: 'array' }
  const result = await on.query(query)
  return result.rows as unknown as Row[]
}
