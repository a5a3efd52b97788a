import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { type ErrorCode, PosthornError } from '../../src/core/errors.ts'
import type { Timing } from '../../src/store/postgres/database.ts'
import type { Store } from '../../src/store/store.ts'
import { type LinkProxy, openLinkProxy } from '../support/link-proxy.ts'
import { aSchema, postgresUrl, query } from '../support/postgres.ts'
import { openPostgres } from '../support/postgres-store.ts'
import { type PostgresOptions, startPostgres } from '../support/services/postgres-server.ts'
import type { Service } from '../support/services/service.ts'

/** A schema with its members, the connections of others and a link that breaks; cleared away in reverse order. */
export class PostgresScene {
  readonly url: string
  readonly schema: string
  readonly #stack = new AsyncDisposableStack()

  static async open(t: TestContext, server = postgresUrl()): Promise<PostgresScene> {
    const place = await aSchema(server)
    const scene = new PostgresScene(place.url, place.name)
    scene.#stack.defer(() => place.drop())
    t.after(() => scene.#stack.disposeAsync())
    return scene
  }

  /** On a server of its own, which may be killed. */
  static async alone(t: TestContext, options?: PostgresOptions): Promise<PostgresScene & { postgres: Service }> {
    const postgres = await startPostgres(options)
    const { url, name } = await aSchema(postgres.url)
    const scene = Object.assign(new PostgresScene(url, name), { postgres })
    scene.#stack.defer(() => postgres.discard())
    t.after(() => scene.#stack.disposeAsync())
    return scene
  }

  private constructor(url: string, schema: string) {
    this.url = url
    this.schema = schema
  }

  /** One more member; through a link if that is named. */
  async store({ link, ...timing }: Timing & { link?: LinkProxy } = {}): Promise<Store> {
    const store = await openPostgres({ url: link === undefined ? this.url : through(this.url, link) }, timing)
    this.#stack.defer(() => store.close())
    return store
  }

  async link(): Promise<LinkProxy> {
    const link = await openLinkProxy(() => Number(new URL(this.url).port || 5_432))
    this.#stack.defer(() => link.close())
    return link
  }

  /** A connection of somebody else. */
  async other(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: bare(this.url), options: `-c search_path=${this.schema}` })
    client.on('error', () => {})
    await client.connect()
    this.#stack.defer(() => client.end().catch(() => {}))
    return client
  }

  query<Row extends pg.QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<Row[]> {
    return query<Row>(this.url, sql, values)
  }

  /** Asks again and again until there are that many rows; the test's timeout is the limit. */
  async untilRows(count: number, sql: string, values?: readonly unknown[]): Promise<void> {
    while ((await this.query(sql, values)).length < count) await pause(10)
  }

  /** Until that many of Posthorn's calls here wait for a lock. */
  untilBlocked(count: number): Promise<void> {
    return this.untilRows(count, `${backends} AND wait_event_type = 'Lock'`, [`posthorn ${this.schema}`])
  }

  untilNoneBlocked(): Promise<void> {
    const blocked = `${backends} AND wait_event_type = 'Lock'`
    return this.untilRows(1, `SELECT 1 WHERE NOT EXISTS (${blocked})`, [`posthorn ${this.schema}`])
  }

  /** Of Posthorn's backends, that of a call that waits for a lock; answers how many there were. */
  async terminateBlocked(): Promise<number> {
    const which = `${backends} AND wait_event_type = 'Lock'`
    const sql = `SELECT pg_terminate_backend(pid) FROM (${which}) AS blocked`
    return (await this.query(sql, [`posthorn ${this.schema}`])).length
  }
}

const backends = `SELECT pid FROM pg_stat_activity WHERE application_name = $1`

function bare(url: string): string {
  const target = new URL(url)
  target.searchParams.delete('schema')
  return target.href
}

function through(url: string, { port }: LinkProxy): string {
  const target = new URL(url)
  target.hostname = '127.0.0.1'
  target.port = String(port)
  return target.href
}

/** What became of a call, as its caller was told; for what was not kept, the code. */
export type Told<T> = Readonly<{ kept: true; result: T }> | Readonly<{ kept: false; code: ErrorCode }>

export async function told<T>(call: Promise<T>): Promise<Told<T>> {
  try {
    return { kept: true, result: await call }
  } catch (error) {
    assert.ok(error instanceof PosthornError, String((error as Error).stack))
    return { kept: false, code: error.code }
  }
}

export async function untilHealth(store: Store, writable: boolean): Promise<void> {
  while (store.health().writable !== writable) await pause(5)
}

/** What a fenced member had in hand is taken over in the background. */
export function untilFree(scene: PostgresScene, count = 0): Promise<void> {
  return scene.untilRows(1, 'SELECT 1 WHERE (SELECT count(*) FROM live WHERE owner IS NOT NULL) = $1', [count])
}
