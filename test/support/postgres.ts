import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { ServiceMissing, whyMissing } from './services/missing.ts'
import { type PgBouncerOptions, pgBouncerProgram, startPgBouncer } from './services/pgbouncer.ts'
import { postgresPrograms } from './services/postgres-programs.ts'
import { type PostgresOptions, startPostgres } from './services/postgres-server.ts'
import type { Service } from './services/service.ts'

export { notDurable } from './services/postgres-server.ts'

/** A schema or a database of a test's own. `url` is that of the server with it in. */
export type Place = AsyncDisposable & Readonly<{ url: string; name: string; drop(): Promise<void> }>

const connectMsMax = 10_000
/** What is still in use after a test cannot be dropped: the test forgot to close something. */
const dropMsMax = 10_000

/** Why there is no shared server, for `skip`; null when there is. */
export function noPostgres(): string | null {
  return whyMissing(postgresUrl)
}

/** The server that all tests share: the configured one, else the one that `npm test` starts. */
export function postgresUrl(): string {
  const url = process.env.POSTHORN_TEST_POSTGRES_URL
  if (url !== undefined && url !== '') return url
  const why =
    process.env.POSTHORN_TEST_POSTGRES_MISSING ?? 'run this with `npm test -- <file>`, which starts PostgreSQL'
  throw new ServiceMissing(why)
}

/** Why a test cannot start a server of its own, for `skip`; null when it can. */
export function noOwnPostgres(): string | null {
  return whyMissing(postgresPrograms)
}

/** A server of the test's own, to be killed and filled up. It goes when the test ends. */
export async function anOwnPostgres(t: TestContext, options?: PostgresOptions): Promise<Service> {
  const postgres = await startPostgres(options)
  t.after(() => postgres.discard())
  return postgres
}

export function noPgBouncer(): string | null {
  return whyMissing(pgBouncerProgram)
}

export async function aPgBouncer(t: TestContext, options: PgBouncerOptions): Promise<Service> {
  const bouncer = await startPgBouncer(options)
  t.after(() => bouncer.discard())
  return bouncer
}

/** An empty schema in a database of the server. `query` and Posthorn work in it when they are given this URL. */
export async function aSchema(server = postgresUrl()): Promise<Place> {
  const name = freshName()
  await query(server, `create schema ${name}`)
  const url = new URL(server)
  url.searchParams.set('schema', name)
  return place(url.href, name, async () => {
    await query(server, `set lock_timeout = ${dropMsMax}; drop schema if exists ${name} cascade`)
  })
}

/** An empty database of the server, for what a schema does not separate: settings, rights, extensions, connections. */
export async function aDatabase(server = postgresUrl()): Promise<Place> {
  const name = freshName()
  await query(server, `create database ${name}`)
  const url = new URL(server)
  url.pathname = name
  return place(url.href, name, async () => {
    await query(server, `drop database if exists ${name} with (force)`)
  })
}

/** Rows of one statement on a connection of its own, in the schema of the URL if it names one. */
export async function query<Row extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values?: readonly unknown[],
): Promise<Row[]> {
  const target = new URL(url)
  const schema = target.searchParams.get('schema')
  target.searchParams.delete('schema')
  const client = new pg.Client({
    connectionString: target.href,
    connectionTimeoutMillis: connectMsMax,
    ...(schema === null ? {} : { options: `-c search_path=${schema}` }),
  })
  // A server that is killed ends the connection; the statement says so.
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await (values === undefined ? client.query<Row>(sql) : client.query<Row>(sql, [...values]))
    return rows
  } finally {
    await client.end()
  }
}

function freshName(): string {
  return `posthorn_test_${randomBytes(6).toString('hex')}`
}

function place(url: string, name: string, drop: () => Promise<void>): Place {
  return { url, name, drop, [Symbol.asyncDispose]: drop }
}
