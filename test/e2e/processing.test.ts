import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'

/**
 * The document "Retry Logic for Failed Processing" to the letter: the real server with a handler, as a process of its
 * own, on the real file. The handler fails as often as the event says and notes every run in a file.
 */
const handlers = `
import { appendFileSync } from 'node:fs'
export default {
  'webhook.*': async (event, { attempt }) => {
    appendFileSync(process.env.RUNS, JSON.stringify({ n: event.data.n, attempt, at: Date.now() }) + '\\n')
    if (event.data.hangs && attempt === 1 && !process.env.CALM) await new Promise(() => {})
    if (attempt <= event.data.failures) throw new Error('unexpected error during simulation')
  },
}
`

/** As the document writes them; the table is the view for people with a shell. */
const loader = `SELECT id FROM delivery_status
  WHERE status IN ('pending', 'processing') AND (retry_after IS NULL OR retry_after <= ?)`
const deadLetters = (maxAttempts: number) =>
  `SELECT id FROM delivery_status WHERE status = 'failed' AND attempts >= ${maxAttempts}`

type Row = { id: string; status: string; attempts: number; retry_after: string | null; last_error: string | null }
type RunLine = Readonly<{ n: number; attempt: number; at: number }>

class Scene {
  readonly #folder: string
  readonly #servers: ServerProcess[] = []

  constructor(folder: string) {
    this.#folder = folder
    writeFileSync(path.join(folder, 'handlers.mjs'), handlers)
    writeFileSync(path.join(folder, 'runs'), '')
  }

  async start(env: Record<string, string>): Promise<ServerProcess> {
    const database = path.join(this.#folder, 'posthorn.db')
    const own = { POSTHORN_HANDLERS: path.join(this.#folder, 'handlers.mjs'), RUNS: path.join(this.#folder, 'runs') }
    const server = await startServer({ database, env: { ...own, ...env } })
    this.#servers.push(server)
    return server
  }

  async send(server: ServerProcess, data: object): Promise<void> {
    const response = await fetch(`${server.url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'webhook.received', data }),
    })
    assert.equal(response.status, 202, await response.text())
  }

  runs(): readonly RunLine[] {
    const lines = readFileSync(path.join(this.#folder, 'runs'), 'utf8').trim().split('\n')
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
  }

  /** The rows of the real file, as a second process sees them. */
  query<T = Row>(sql: string, ...values: string[]): T[] {
    const db = new DatabaseSync(path.join(this.#folder, 'posthorn.db'), { readOnly: true })
    try {
      return db.prepare(sql).all(...values) as T[]
    } finally {
      db.close()
    }
  }

  rows(): Row[] {
    return this.query('SELECT id, status, attempts, retry_after, last_error FROM delivery_status ORDER BY id')
  }

  /** Looks again and again: what another process has written gives no sign of itself. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await wait(20)
  }

  async end(): Promise<void> {
    for (const server of this.#servers)
      if (server.child.exitCode === null && server.child.signalCode === null) await server.kill()
  }
}

async function scene(t: TestContext): Promise<Scene> {
  const folder = await tempFolder()
  const made = new Scene(folder.path)
  t.after(async () => {
    await made.end()
    await folder.remove()
  })
  return made
}

const short = { RETRY_BASE_DELAY: '50ms', RETRY_MAX_DELAY: '300ms', MAX_ATTEMPTS: '5' }
const long = { RETRY_BASE_DELAY: '60s', RETRY_MAX_DELAY: '1h', MAX_ATTEMPTS: '5' }

describe('retry logic for failed processing', () => {
  test('a failure counts, is recorded, and waits min(base * 2^attempts, max) in pending', async (t) => {
    const at = await scene(t)
    const server = await at.start(long)
    const sentAt = Date.now()
    await at.send(server, { n: 1, failures: 1 })
    await at.until(() => at.rows()[0]?.attempts === 1)
    const [row] = at.rows()
    assert.deepEqual(
      [row?.status, row?.attempts, row?.last_error],
      ['pending', 1, 'unexpected error during simulation'],
    )
    const dueAt = Date.parse(row?.retry_after ?? '')
    const waitMs = 60_000 * 2 ** 1
    assert.ok(dueAt >= sentAt + waitMs && dueAt <= Date.now() + waitMs, `${row?.retry_after}`)
  })

  test('it is retried up to MAX_ATTEMPTS, each time not before its backoff, and then stays failed', async (t) => {
    const at = await scene(t)
    const server = await at.start(short)
    await at.send(server, { n: 1, failures: 99 })
    await at.send(server, { n: 2, failures: 2 })
    await at.until(() => at.rows().every(({ status }) => status === 'failed' || status === 'delivered'))
    const [spent, recovered] = at.rows()
    assert.deepEqual([spent?.status, spent?.attempts, spent?.retry_after], ['failed', 5, null])
    assert.equal(spent?.last_error, 'unexpected error during simulation')
    assert.deepEqual([recovered?.status, recovered?.attempts, recovered?.last_error], ['delivered', 3, null])
    const tries = at.runs().filter(({ n }) => n === 1)
    assert.deepEqual(
      tries.map(({ attempt }) => attempt),
      [1, 2, 3, 4, 5],
    )
    for (const [index, wait] of [100, 200, 300, 300].entries()) {
      const gap = tries[index + 1]!.at - tries[index]!.at
      assert.ok(gap >= wait - 1, `wait ${index + 1} was ${gap} ms, and must not be less than ${wait}`)
    }
    assert.deepEqual(
      at.query(deadLetters(5)).map(({ id }) => id),
      [spent?.id],
    )
  })

  test('its backoff survives a restart, and the loader skips it until it is due', async (t) => {
    const at = await scene(t)
    const first = await at.start(long)
    await at.send(first, { n: 1, failures: 99 })
    await at.until(() => at.rows()[0]?.attempts === 1)
    const [before] = at.rows()
    await first.kill()
    const second = await at.start(long)
    // What comes later is processed: the loop runs, and leaves the first one alone.
    await at.send(second, { n: 2, failures: 0 })
    await at.until(() => at.rows()[1]?.status === 'delivered')
    const [after] = at.rows()
    assert.deepEqual(after, before)
    assert.deepEqual(
      at.runs().map(({ n }) => n),
      [1, 2],
    )
    const dueAt = before?.retry_after ?? ''
    const justBefore = new Date(Date.parse(dueAt) - 1).toISOString()
    assert.deepEqual(at.query(loader, justBefore), [])
    assert.deepEqual(
      at.query(loader, dueAt).map(({ id }) => id),
      [before?.id],
    )
  })

  test('a backoff that ends while nobody runs is made up for at the next start', async (t) => {
    const at = await scene(t)
    const env = { ...short, RETRY_BASE_DELAY: '500ms', RETRY_MAX_DELAY: '10s' }
    const first = await at.start(env)
    await at.send(first, { n: 1, failures: 1 })
    await at.until(() => at.rows()[0]?.attempts === 1)
    await first.kill()
    const dueAt = Date.parse(at.rows()[0]?.retry_after ?? '')
    await at.until(() => Date.now() > dueAt)
    await at.start(env)
    await at.until(() => at.rows()[0]?.status === 'delivered')
    assert.deepEqual(
      at.runs().map(({ attempt }) => attempt),
      [1, 2],
    )
  })

  test('rows in processing at a kill come back, and none is lost', async (t) => {
    const at = await scene(t)
    const first = await at.start(short)
    for (let n = 0; n < 5; n += 1) await at.send(first, { n, failures: 0, hangs: true })
    await at.until(() => at.runs().length === 5)
    assert.deepEqual(
      at.rows().map(({ status, attempts }) => [status, attempts]),
      Array.from({ length: 5 }, () => ['processing', 0]),
    )
    const now = new Date().toISOString()
    assert.equal(at.query(loader, now).length, 5, 'the loader finds them')
    await first.kill()
    await at.start({ ...short, CALM: 'yes' })
    await at.until(() => at.rows().every(({ status }) => status === 'delivered'))
    assert.deepEqual(
      at.rows().map(({ attempts }) => attempts),
      [1, 1, 1, 1, 1],
    )
  })

  test('the three names of the environment hold for handlers that were registered under others', async (t) => {
    const at = await scene(t)
    const first = await at.start(long)
    await first.stop()
    const second = await at.start({ RETRY_BASE_DELAY: '1ms', RETRY_MAX_DELAY: '2ms', MAX_ATTEMPTS: '2' })
    await at.send(second, { n: 1, failures: 99 })
    await at.until(() => at.rows()[0]?.status === 'failed')
    assert.deepEqual([at.rows()[0]?.attempts, at.query(deadLetters(2)).length], [2, 1])
  })
})
