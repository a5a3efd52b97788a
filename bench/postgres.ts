import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { startPostgres } from '../test/support/services/postgres-server.ts'
import type { Rig } from './rig.ts'

/** The key that opens every database of a run. */
export const encryptionKey = randomBytes(32)
export const encryptionKeyText = encryptionKey.toString('base64')

/** A Postgres of the bench's own with the defaults of PostgreSQL: what is acknowledged is on disk. */
export class BenchPostgres {
  readonly pid: number
  readonly #url: string

  static async start(rig: Rig): Promise<BenchPostgres> {
    const service = await startPostgres({ folder: rig.parent })
    rig.own(service.folder)
    rig.onClose(() => service.discard())
    return new BenchPostgres(service.pid, service.url)
  }

  private constructor(pid: number, url: string) {
    this.pid = pid
    this.#url = url
  }

  /** An empty database for one system; answers its URL. */
  async createDatabase(name: string): Promise<string> {
    await withClient(this.#url, (client) => client.query(`CREATE DATABASE "${name}"`))
    const url = new URL(this.#url)
    url.pathname = name
    return url.href
  }

  /** So that what was written so far is not written to the disk while the next thing is measured. */
  async checkpoint(): Promise<void> {
    await withClient(this.#url, (client) => client.query('CHECKPOINT'))
  }
}

export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
