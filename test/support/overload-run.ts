// Many clients at once, an endpoint that is dead and a disk that is slow: what the server does then.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort, type ServerProcess, startServer } from './server-process.ts'
import { tempFolder } from './sqlite.ts'

export type OverloadSettings = Readonly<{
  clients: number
  requestsPerClient: number
  bodyBytes: number
  fsyncMs: number
  /** Of the server's JavaScript heap. */
  heapMb: number
}>

export type OverloadResult = Readonly<{
  accepted: number
  /** With 503 or 429, and when to come again. */
  refused: number
  /** With 408: on a busy machine a client among thousands may itself take too long to send. */
  tooSlow: number
  /** Answers that were neither, and requests that got none. */
  unclean: readonly string[]
  peakRssMb: number
  /** Acknowledged, and not there after a kill and a restart. */
  lost: readonly string[]
}>

/** Why the disk cannot be slowed down here; false when it can. */
export const noSlowDisk: string | false =
  spawnSync('cc', ['--version']).status === 0 ? false : 'there is no C compiler to slow the disk down with'

export async function runOverload(settings: OverloadSettings): Promise<OverloadResult> {
  const folder = await tempFolder()
  const library = join(folder.path, 'slow-fsync.so')
  const source = fileURLToPath(new URL('../../bench/slow-fsync.c', import.meta.url))
  const made = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl'], { timeout: 60_000 })
  if (made.status !== 0) throw new Error(`cc refused ${source}: ${made.stderr}`)
  const database = join(folder.path, 'posthorn.db')
  const env = {
    POSTHORN_CONNECTIONS_MAX: String(settings.clients + 100),
    POSTHORN_INTAKE_BYTES_MAX: '4MiB',
    POSTHORN_REQUEST_BYTES_MAX: '4MiB',
    POSTHORN_MEMORY_BYTES_MAX: '4MiB',
  }
  const slow = {
    LD_PRELOAD: library,
    SLOW_FSYNC_US: String(settings.fsyncMs * 1_000),
    NODE_OPTIONS: `--max-old-space-size=${settings.heapMb}`,
  }
  const server = await startServer({ database, env: { ...env, ...slow } })
  try {
    const answers = await attack(server, settings)
    await server.kill()
    const again = await startServer({ database, env })
    const kept = await keptIds(again)
    await again.kill()
    const lost = answers.acknowledged.filter((id) => !kept.has(id))
    const { acknowledged, ...rest } = answers
    return { accepted: acknowledged.length, ...rest, lost }
  } finally {
    server.child.kill('SIGKILL')
    await folder.remove()
  }
}

async function attack(server: ServerProcess, { clients, requestsPerClient, bodyBytes }: OverloadSettings) {
  const acknowledged: string[] = []
  const unclean: string[] = []
  let refused = 0
  let tooSlow = 0
  const dead = `http://127.0.0.1:${await freePort()}/`
  await send(server.url, new Agent(), '/v1/endpoints', JSON.stringify({ url: dead }))
  const body = JSON.stringify({ type: 'order.created', data: 'x'.repeat(bodyBytes) })
  const agent = new Agent({ keepAlive: true, maxSockets: clients, maxFreeSockets: clients })
  const stopped = new AbortController()
  const peak = peakRss(server, stopped.signal)
  const client = async () => {
    for (let i = 0; i < requestsPerClient; i++) {
      const answer = await send(server.url, agent, '/v1/events', body)
      if (answer.status === 202) acknowledged.push(JSON.parse(answer.text).id)
      else if (isCleanRefusal(answer)) refused += 1
      else if (answer.status === 408) tooSlow += 1
      else unclean.push(`${answer.status} ${answer.text.slice(0, 200)}`)
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  stopped.abort()
  agent.destroy()
  return { acknowledged, refused, tooSlow, unclean, peakRssMb: await peak }
}

type Answer = Readonly<{ status: number; retryAfter: string; type: string; text: string }>

function isCleanRefusal({ status, retryAfter, type }: Answer): boolean {
  return (status === 503 || status === 429) && /^\d+$/.test(retryAfter) && type === 'application/problem+json'
}

function send(url: string, agent: Agent, path: string, body: string): Promise<Answer> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const sent = request(`${url}${path}`, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => {
        const { 'retry-after': retryAfter = '', 'content-type': type = '' } = response.headers
        resolve({ status: response.statusCode ?? 0, retryAfter, type, text })
      })
    })
    sent.on('error', (error) => resolve({ status: 0, retryAfter: '', type: '', text: error.message }))
    sent.end(body)
  })
}

const lookEveryMs = 100

/** The most memory that the server ever had, as the kernel counts it. */
async function peakRss({ child }: ServerProcess, signal: AbortSignal): Promise<number> {
  let peakMb = 0
  while (!signal.aborted) {
    const kb = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]
    peakMb = Math.max(peakMb, Number(kb ?? 0) / 1024)
    await wait(lookEveryMs, undefined, { signal }).catch(() => {})
  }
  return Math.round(peakMb)
}

async function keptIds({ url }: ServerProcess): Promise<ReadonlySet<string>> {
  const ids = new Set<string>()
  for (let cursor: string | null = ''; cursor !== null; ) {
    const response: Response = await fetch(`${url}/v1/events?limit=500${cursor === '' ? '' : `&cursor=${cursor}`}`)
    const page = (await response.json()) as { items: { id: string }[]; next: string | null }
    for (const { id } of page.items) ids.add(id)
    cursor = page.next
  }
  return ids
}
