import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { concurrency, createEndpoints, deadLetters, endpoints, fitful } from './crash-scene.ts'
import { Crowd } from './crowd.ts'
import { eventually } from './eventually.ts'
import { brokenPromises } from './ledger.ts'
import { type LedgerSink, openLedgerSink } from './ledger-sink.ts'
import { aSchema, query } from './postgres.ts'
import { testKey } from './postgres-store.ts'
import { freePort, type ServerProcess, startServer } from './server-process.ts'
import { notDurable, type PostgresOptions, startPostgres } from './services/postgres-server.ts'
import type { Service } from './services/service.ts'
import { SmallDisk } from './small-disk.ts'

/** A process that can be ended and started again at the same address. */
export type FaultyMember = {
  readonly url: string
  readonly port: number
  server: ServerProcess
}

export type FaultOptions = Readonly<{
  members?: number
  senders?: number
  env?: Readonly<Record<string, string>>
  /** A command in front of the process with this place. */
  enter?: (place: number) => readonly string[]
  /** Of its Postgres; default: as large as the machine's. */
  diskKib?: number
}>

export type Readiness = Readonly<{ status: number; retryAfter: string | null; reasons: readonly string[] }>
export type Refusal = Readonly<{ status: number; retryAfter: string | null; type: string | null }>

/** A member that does not answer for so long is asked no more: the sender goes to another. */
const patienceMs = 3_000
/** A claim whose answer got lost comes back within two looks of its member. */
const settleMsMax = 150_000

/**
 * Members under load on a Postgres of their own, to whom something happens, and the two ledgers of the crash test: what
 * senders were told, and what the sink got.
 */
export class FaultScene {
  readonly postgres: Service
  readonly disk: SmallDisk | null
  readonly members: readonly FaultyMember[]
  readonly sink: LedgerSink
  readonly crowd: Crowd
  readonly #url: string
  readonly #start: (place: number, port: number) => Promise<ServerProcess>

  static async open(t: TestContext, options: FaultOptions = {}): Promise<FaultScene> {
    const stack = new AsyncDisposableStack()
    t.after(() => stack.disposeAsync())
    const disk = options.diskKib === undefined ? null : stack.use(new SmallDisk(options.diskKib))
    const postgres = stack.adopt(await startPostgres(placeOn(disk)), (it) => it.discard())
    const { url } = await aSchema(postgres.url)
    const sink = stack.adopt(await openLedgerSink(endpoints, fitful), (it) => it.close())
    const start = (place: number, port: number) =>
      startServer({
        database: url,
        port,
        env: { POSTHORN_ENCRYPTION_KEY: testKey.toString('hex'), ...options.env },
        enter: options.enter?.(place) ?? [],
      })
    const members: FaultyMember[] = []
    stack.defer(async () => {
      for (const { server } of members) await server.kill()
    })
    for (let place = 0; place < (options.members ?? 3); place++) {
      const port = await freePort()
      const server = await start(place, port)
      members.push({ url: server.url, port, server })
    }
    await createEndpoints(members[0]!.url, sink.url)
    await Promise.all(members.map(knowsAll))
    const scene = new FaultScene({ postgres, disk, url, members, sink, start, senders: options.senders ?? 6 })
    stack.defer(() => scene.crowd.abandon())
    return scene
  }

  private constructor(
    parts: Readonly<{
      postgres: Service
      disk: SmallDisk | null
      url: string
      members: readonly FaultyMember[]
      sink: LedgerSink
      start: (place: number, port: number) => Promise<ServerProcess>
      senders: number
    }>,
  ) {
    this.postgres = parts.postgres
    this.disk = parts.disk
    this.#url = parts.url
    this.members = parts.members
    this.sink = parts.sink
    this.#start = parts.start
    const urls = parts.members.map(({ url }) => url)
    this.crowd = new Crowd(urls, parts.senders, { paceMs: 10, patienceMs })
  }

  query<Row extends Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<Row[]> {
    return query<Row>(this.#url, sql, values)
  }

  /** What is asked of Postgres until it answers so; it may be away meanwhile. */
  until(what: string, sql: string, waitMs?: number): Promise<unknown> {
    return eventually(what, async () => (await this.query(sql).catch(() => []))[0] ?? null, waitMs)
  }

  /** Starts one again, at its address. */
  async start(member: FaultyMember): Promise<void> {
    member.server = await this.#start(this.members.indexOf(member), member.port)
  }

  /** Resolves when the sink got so many more. */
  arrived(count: number): Promise<void> {
    const wanted = this.sink.arrived.length + count
    return this.sink.until(() => this.sink.arrived.length >= wanted)
  }

  /** Stops a member by a signal until the others have taken its work over, and lets it go on. */
  async stopBeyondLease({ server: { child } }: FaultyMember): Promise<void> {
    const rows = await this.query<{ no: number }>('SELECT no FROM members WHERE pid = $1 AND NOT fenced', [child.pid])
    const { no } = rows[0]!
    child.kill('SIGSTOP')
    await this.until('its work is taken over', `SELECT 1 FROM members WHERE no = ${no} AND fenced AND swept`)
    child.kill('SIGCONT')
    await this.until('it has joined again', `SELECT 1 FROM members WHERE pid = ${child.pid} AND NOT fenced`)
  }

  /** All members, each with what it says of itself. */
  readiness(): Promise<readonly Readiness[]> {
    return Promise.all(
      this.members.map(async ({ url }) => {
        const response = await fetch(`${url}/readyz`)
        const { reasons } = (await response.json()) as { reasons: readonly string[] }
        return { status: response.status, retryAfter: response.headers.get('retry-after'), reasons }
      }),
    )
  }

  /** What each member answers to an event that nobody wants. */
  sendToEach(): Promise<readonly Refusal[]> {
    return Promise.all(this.members.map(({ url }) => refusalOf(url)))
  }

  /** Ends some of the connections that members have. */
  async terminate(share: number): Promise<void> {
    await this.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE application_name LIKE 'posthorn %' AND pid <> pg_backend_pid() AND random() < $1`,
      [share],
    )
  }

  /**
   * Waits until everything has ended and compares the ledgers. `cuts`: at how many moments work can have been cut off with
   * what was in flight, of which a part may have come twice. Where nothing was, nothing may.
   */
  async check(t: TestContext, { cuts }: Readonly<{ cuts: number }>): Promise<void> {
    await this.crowd.finish()
    await this.#settled(t)
    const first = this.members[0]!
    const history = {
      sent: this.crowd.sent,
      arrived: this.sink.arrived,
      endpoints,
      dead: await deadLetters(first),
      overlaps: this.sink.overlaps,
      inFlightAtCrashes: cuts * 2 * concurrency * Object.keys(endpoints).length,
    }
    const problems = [...brokenPromises(history), ...(await this.#spent())]
    if (problems.length > 0) for (const { server } of this.members) t.diagnostic(server.said().slice(-6_000))
    t.diagnostic(`${history.sent.length} acknowledged, ${history.arrived.length} arrivals, ${history.dead.length} dead`)
    assert.deepEqual(problems.slice(0, 20), [])
  }

  async #settled(t: TestContext): Promise<void> {
    try {
      const nothing = 'SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM live)'
      await this.until('everything has ended', nothing, settleMsMax)
    } catch (error) {
      for (const { server } of this.members) t.diagnostic(server.said().slice(-6_000))
      t.diagnostic(JSON.stringify(await this.query('SELECT * FROM live LIMIT 5')))
      t.diagnostic(JSON.stringify(await this.query('SELECT * FROM members')))
      throw error
    }
  }

  /** Tries that were counted without having reached the sink, and ends that the sink has not asked for. */
  async #spent(): Promise<readonly string[]> {
    const reached = new Map<string, number>()
    for (const { deliveryId } of this.sink.arrived) reached.set(deliveryId, (reached.get(deliveryId) ?? 0) + 1)
    const arrivals = this.sink.arrived.length
    const [row] = await this.query<{ tries: string; others: string }>(
      `SELECT sum(attempts) AS tries, count(*) FILTER (WHERE reason IS NOT NULL AND reason <> 'permanent_status') AS others FROM ended`,
    )
    const problems: string[] = []
    if (Number(row?.tries) > arrivals) problems.push(`spent: ${row?.tries} tries were counted, ${arrivals} arrived`)
    if (Number(row?.others) > 0) problems.push(`dead: ${row?.others} for another reason than the answer of the sink`)
    return problems
  }
}

/** Status 0: what was under way when the database went away is answered when it is known what became of it. */
async function refusalOf(url: string): Promise<Refusal> {
  const headers = { 'content-type': 'application/json' }
  const body = '{"type":"for.nobody","data":1}'
  try {
    const signal = AbortSignal.timeout(patienceMs)
    const response = await fetch(`${url}/v1/events`, { method: 'POST', headers, body, signal })
    const { type = null } = (await response.json()) as { type?: string }
    return { status: response.status, retryAfter: response.headers.get('retry-after'), type }
  } catch {
    return { status: 0, retryAfter: null, type: null }
  }
}

/** On a small disk its log keeps small too. */
function placeOn(disk: SmallDisk | null): PostgresOptions {
  if (disk === null) return { settings: notDurable }
  return { settings: { ...notDurable, min_wal_size: '32MB', max_wal_size: '48MB' }, folder: disk.path }
}

/** What a member takes in before it has heard of an endpoint is not for that endpoint. */
function knowsAll({ url }: FaultyMember): Promise<true> {
  return eventually('a member knows the endpoints', async () => {
    const { items } = (await (await fetch(`${url}/v1/endpoints`)).json()) as { items: unknown[] }
    return items.length === Object.keys(endpoints).length ? true : null
  })
}
