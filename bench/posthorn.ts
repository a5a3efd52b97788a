import type { ChildProcess } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { sleep, until } from './clock.ts'
import { encryptionKeyText } from './postgres.ts'
import { type Rig, root, type Target } from './rig.ts'

const startMsMax = 60_000
const callMsMax = 30_000
const linesKept = 10
const lineLengthMax = 300

export type PosthornOptions = Readonly<{
  /** The folder of the database; the same folder again opens the same database. */
  folder: string
  title?: string
  /** The checkout whose server is started; this one, unless said otherwise. */
  checkout?: string
  /** The Postgres database that it works on, and the main process of that server. Default: a SQLite file in the folder. */
  postgres?: Readonly<{ url: string; pid: number }>
  env?: Readonly<Record<string, string>>
}>

/** What a figure asks for when it creates an endpoint; everything else is the default. */
export type EndpointOptions = Readonly<{
  url: string
  types: readonly string[]
  concurrency: number
  ordering?: 'none' | 'endpoint'
}>
export type RelayEndpointOptions = Readonly<{ relay: string; types: readonly string[]; ordering: 'none' | 'endpoint' }>

export type UpkeepShown = Readonly<{
  running: boolean
  last: Readonly<{ deliveries: number; pagesFreed: number; tookMs: number }> | null
}>

export function databaseFile(folder: string): string {
  return path.join(folder, 'bench.db')
}

type Described = Readonly<{ title: string; postgres: PosthornOptions['postgres'] }>

/** The real server in a process of its own, as a user starts it. */
export class Posthorn implements Target {
  readonly title: string
  readonly postgres?: number
  readonly #rig: Rig
  readonly #child: ChildProcess
  readonly #base: string

  private constructor(rig: Rig, child: ChildProcess, base: string, { title, postgres }: Described) {
    this.#rig = rig
    this.#child = child
    this.#base = base
    this.title = title
    if (postgres !== undefined) this.postgres = postgres.pid
  }

  static async start(rig: Rig, options: PosthornOptions): Promise<Posthorn> {
    const { folder, title = 'posthorn', checkout = root, postgres, env = {} } = options
    const database = postgres?.url ?? `sqlite:${databaseFile(folder)}`
    const key = postgres === undefined ? {} : { POSTHORN_ENCRYPTION_KEY: encryptionKeyText }
    const args = [path.join(checkout, 'src/cli/main.ts'), 'start', '--port', '0', '--database', database]
    const child = rig.spawn(process.execPath, args, {
      cwd: folder,
      env: {
        ...foreignEnvironment(),
        POSTHORN_ALLOW_PRIVATE: '127.0.0.0/8',
        POSTHORN_LOG_LEVEL: 'warn',
        ...key,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const lines: string[] = []
    rig.remember(title, lines)
    const base = await listeningUrl(child, lines)
    const posthorn = new Posthorn(rig, child, base, { title, postgres })
    await until('/readyz', startMsMax, () => posthorn.#isReady())
    return posthorn
  }

  get url(): string {
    return `${this.#base}/v1/events`
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  async createEndpoint(options: EndpointOptions): Promise<string> {
    return textIn(await this.#post('/v1/endpoints', { ordering: 'none', ...options, kind: 'http' }), 'id')
  }

  async createRelayEndpoint(options: RelayEndpointOptions): Promise<string> {
    return textIn(await this.#post('/v1/endpoints', { ...options, kind: 'relay', route: 'bench' }), 'id')
  }

  /** Answers its key. */
  async createRelay(name: string): Promise<string> {
    return textIn(await this.#post('/v1/relays', { name }), 'key')
  }

  /** Whether the hub of this relay is there. */
  async isConnected(relay: string): Promise<boolean> {
    const response = await fetch(`${this.#base}/v1/relays/${relay}`, { signal: AbortSignal.timeout(callMsMax) })
    return ((await response.json()) as Readonly<{ connected?: boolean }>).connected === true
  }

  get port(): number {
    return Number(new URL(this.#base).port)
  }

  /** Those that share its database. */
  async members(): Promise<readonly Readonly<{ id: string; pid: number }>[]> {
    const response = await fetch(`${this.#base}/v1/members`, { signal: AbortSignal.timeout(callMsMax) })
    return ((await response.json()) as { items: { id: string; pid: number }[] }).items
  }

  /** In one piece, and in this order. */
  async sendBatch(type: string, data: readonly unknown[]): Promise<void> {
    await this.#post(
      '/v1/events/batch',
      data.map((item) => ({ type, data: item })),
    )
  }

  /** A source for webhooks as GitHub sends them, and where to send them. */
  async createSource(secret: string): Promise<Target> {
    await this.#post('/v1/sources', { name: 'bench', provider: 'github', secret, type: 'bench.event' })
    return {
      title: '/in/:source, signed',
      url: `${this.#base}/in/bench`,
      pid: this.pid,
      dress: { kind: 'github', secret },
    }
  }

  async replay(filter: Readonly<Record<string, unknown>>): Promise<string> {
    return textIn(await this.#post('/v1/replays', { filter }), 'id')
  }

  async replayed(id: string): Promise<Readonly<{ status: string; requeued: number }>> {
    const response = await fetch(`${this.#base}/v1/replays/${id}`, { signal: AbortSignal.timeout(callMsMax) })
    return (await response.json()) as { status: string; requeued: number }
  }

  async upkeep(): Promise<UpkeepShown> {
    const response = await fetch(`${this.#base}/v1/upkeep`, { signal: AbortSignal.timeout(callMsMax) })
    return (await response.json()) as UpkeepShown
  }

  async send(type: string, data: unknown): Promise<void> {
    await this.#post('/v1/events', { type, data })
  }

  async pauseEndpoint(id: string): Promise<void> {
    await this.#post(`/v1/endpoints/${id}/pause`)
  }

  async resumeEndpoint(id: string): Promise<void> {
    await this.#post(`/v1/endpoints/${id}/resume`)
  }

  /** A clean stop: the database is whole, and may be opened by others. */
  stop(): Promise<void> {
    return this.#rig.stop(this.#child)
  }

  async #isReady(): Promise<boolean> {
    const response = await fetch(`${this.#base}/readyz`, { signal: AbortSignal.timeout(callMsMax) })
    await response.arrayBuffer()
    return response.ok
  }

  async #post(target: string, body?: unknown): Promise<unknown> {
    const response = await fetch(`${this.#base}${target}`, {
      method: 'POST',
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(callMsMax),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`POST ${target}: ${response.status} ${text}`)
    return text === '' ? null : JSON.parse(text)
  }
}

function textIn(answer: unknown, field: string): string {
  const text = (answer as Readonly<Record<string, unknown>> | null)?.[field]
  if (typeof text === 'string') return text
  throw new Error(`an answer without ${field}: ${JSON.stringify(answer)}`)
}

/** The settings of whoever runs the bench must not change what is measured. */
export function foreignEnvironment(): Record<string, string | undefined> {
  const own = /^(?:POSTHORN_|RETRY_|MAX_ATTEMPTS$|DLQ_|NODE_OPTIONS$)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)))
}

async function listeningUrl(child: ChildProcess, lines: string[]): Promise<string> {
  const found = Promise.withResolvers<string>()
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue
    readLines(stream, (line) => {
      lines.push(line.slice(0, lineLengthMax))
      if (lines.length > linesKept) lines.shift()
      const match = urlIn(line)
      if (match !== null) found.resolve(match)
    })
  }
  child.once('error', found.reject)
  child.once('exit', (code) => found.reject(new Error(`the server ended with ${code} before it listened`)))
  const late = sleep(startMsMax, null, { ref: false }).then(() => {
    throw new Error(`the server did not say where it listens within ${startMsMax} ms`)
  })
  return Promise.race([found.promise, late])
}

export function urlIn(line: string): string | null {
  return /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0] ?? null
}

/** Reads on to the end, so that a server that logs a lot never waits for the bench. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream }).on('line', onLine)
}
