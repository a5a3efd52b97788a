import type pg from 'pg'
import type { Arrival, Change, ChangeResult } from '../../src/store/pipeline-store.ts'
import { appendWrite, plan } from '../../src/store/postgres/append.ts'
import { commitWrite } from '../../src/store/postgres/commit.ts'
import { rowsOf } from '../../src/store/postgres/driver.ts'
import { EndpointTable } from '../../src/store/postgres/endpoints.ts'
import { newMark } from '../../src/store/postgres/mark.ts'
import type { Write } from '../../src/store/postgres/write-stream.ts'
import type { PostgresScene } from './postgres-scene.ts'

/** Writes as the store does, but can stop between a call and its commit, where no other process can be stopped. */
export class Writer {
  readonly client: pg.Client
  readonly #schema: string
  readonly #stream: number
  readonly #endpoints: EndpointTable
  #seq = 0

  static async open(scene: PostgresScene): Promise<Writer> {
    const client = await scene.other()
    await client.query(`SET application_name = 'posthorn ${scene.schema}'`)
    const endpoints = new EndpointTable(client, scene.schema)
    await endpoints.reload()
    return new Writer(client, scene.schema, await newMark(client, scene.schema, 0), endpoints)
  }

  private constructor(client: pg.Client, schema: string, stream: number, endpoints: EndpointTable) {
    this.client = client
    this.#schema = schema
    this.#stream = stream
    this.#endpoints = endpoints
  }

  async begin(isolation = 'READ COMMITTED'): Promise<void> {
    await this.client.query(`BEGIN ISOLATION LEVEL ${isolation}`)
  }

  async end(): Promise<void> {
    await this.client.query('COMMIT')
  }

  append(arrivals: readonly Arrival[]) {
    return this.write(
      appendWrite(() => true),
      plan(arrivals, this.#endpoints),
    )
  }

  commit(changes: readonly Change[]): Promise<readonly ChangeResult[]> {
    return this.write(
      commitWrite(this.#endpoints, async () => new Map()),
      changes,
    )
  }

  async write<Item, Result>({ name, values, results }: Write<Item, Result>, item: Item): Promise<Result> {
    const given = [this.#stream, ++this.#seq, ...values([item], 0)]
    const made = { member: 0, on: async () => this.client }
    const places = given.map((_value, at) => `$${at + 1}`).join(', ')
    const rows = await rowsOf(this.client, `SELECT ${this.#schema}.${name}(${places})`, given)
    return (await results([item], (rows[0]?.[0] ?? null) as string | null, made))[0]!
  }
}
