import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort, type ServerProcess, startServer } from './server-process.ts'

export type ReplayRunOptions = Readonly<{
  database: string
  kills: number
  events: number
  rate: number | null
  random: () => number
}>

export type ReplayRunReport = Readonly<{
  problems: readonly string[]
  deliveries: number
  killsDuringTheJob: number
  job: Readonly<{
    status: string
    matched: number
    requeued: number
    delivered: number
    failedAgain: number
    waiting: number
    skipped: number
  }>
}>

const endpoints = { any: 'none', key: 'key', all: 'endpoint' } as const
const keys = 5

type Arrived = Readonly<{ endpoint: string; deliveryId: string; attempt: number; n: number; key: string }>
type Listed = { items: { id: string; status: string; attempts: number }[]; next: string | null }
type Job = ReplayRunReport['job'] & { id: string }

/**
 * Makes dead letters of everything, then brings it all back with one job while the server is killed again and again.
 * The job asks for delivered ones too, so that progress which is lost would show as a third attempt.
 */
export async function replayRun(options: ReplayRunOptions): Promise<ReplayRunReport> {
  const sink = await openSink()
  const port = await freePort()
  const start = () => startServer({ database: options.database, port })
  let server = await start()
  try {
    await fill(server, sink.url, options.events)
    const deliveries = options.events * Object.keys(endpoints).length
    await until(server, '/v1/dead-letters?group=error', ({ groups }) => groups[0]?.count === deliveries)
    const filter = { status: ['failed', 'delivered'] }
    const { id } = await call<Job>(server, 'POST', '/v1/replays', { filter, rate: options.rate })
    let killsDuringTheJob = 0
    for (let kill = 0; kill < options.kills; kill++) {
      // Some lives end before the first delivery, some in the middle of a step, some right after one.
      if (options.random() < 0.75) await sink.replayed(Math.floor((options.random() * deliveries) / options.kills))
      await pause(options.random() * 40)
      const { status } = await call<Job>(server, 'GET', `/v1/replays/${id}`)
      if (status === 'running') killsDuringTheJob += 1
      await server.kill()
      server = await start()
    }
    const job = await until<Job>(server, `/v1/replays/${id}`, ({ status }) => status === 'settled')
    for (const status of ['pending', 'processing']) {
      await until<Listed>(server, `/v1/deliveries?limit=1&status=${status}`, ({ items }) => items.length === 0)
    }
    const problems = [...brokenPromises(await everything(server), job, deliveries), ...outOfOrder(sink.arrived)]
    return { problems, deliveries, killsDuringTheJob, job }
  } finally {
    await server.stop()
    await sink.close()
  }
}

/** What the sink refuses a second time. */
const refusedAgain = (n: number) => n % 7 === 0

/** Refuses every first try for good, some a second time, and takes everything else. */
async function openSink() {
  const arrived: Arrived[] = []
  const listeners = new Set<() => void>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { n, key } = JSON.parse(Buffer.concat(chunks).toString()).data
    const attempt = Number(request.headers['posthorn-attempt'])
    response.writeHead(attempt === 1 || refusedAgain(n) ? 422 : 200).end()
    if (attempt === 1) return
    const endpoint = (request.url ?? '').slice(1)
    arrived.push({ endpoint, deliveryId: String(request.headers['posthorn-delivery']), attempt, n, key })
    for (const look of listeners) look()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived,
    /** Resolves when this many more have come back, or all that there are. */
    replayed(count: number): Promise<void> {
      const wanted = arrived.length + count
      const { promise, resolve } = Promise.withResolvers<void>()
      const look = () => {
        if (arrived.length >= wanted) resolve()
      }
      listeners.add(look)
      look()
      // What is left may be fewer.
      return Promise.race([promise, pause(500)]).finally(() => listeners.delete(look))
    },
    close: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

async function fill(server: ServerProcess, sink: string, events: number): Promise<void> {
  for (const [name, ordering] of Object.entries(endpoints)) {
    await call(server, 'POST', '/v1/endpoints', { url: `${sink}/${name}`, ordering, breaker: false })
  }
  const batch = Array.from({ length: events }, (_, n) => {
    const key = `key-${n % keys}`
    return { type: 'replay.test', key, data: { n, key } }
  })
  await call(server, 'POST', '/v1/events/batch', batch)
}

function brokenPromises(listed: readonly Listed['items'][number][], job: Job, deliveries: number): string[] {
  const problems = listed.flatMap(({ id, status, attempts }) => {
    if (attempts > 2) return [`repeated: ${id} had ${attempts} attempts`]
    return attempts === 2 && status !== 'pending' ? [] : [`skipped: ${id} is ${status}`]
  })
  if (listed.length !== deliveries) problems.push(`lost: ${deliveries} deliveries became ${listed.length}`)
  const { status, matched, requeued, delivered, failedAgain, waiting, skipped } = job
  const counts = `${status} ${matched} ${requeued} ${delivered} ${failedAgain} ${waiting} ${skipped}`
  const good = listed.filter((one) => one.status === 'delivered').length
  const right = `settled ${deliveries} ${deliveries} ${good} ${deliveries - good} 0 0`
  return counts === right ? problems : [...problems, `miscounted: ${counts} instead of ${right}`]
}

/** In a lane the replayed come in their first order; what was in flight at a crash may come twice in a row. */
function outOfOrder(arrived: readonly Arrived[]): string[] {
  const latest = new Map<string, number>()
  const problems: string[] = []
  for (const { endpoint, n, key, attempt, deliveryId } of arrived) {
    if (attempt > 2) problems.push(`repeated: ${deliveryId} was tried a third time`)
    if (endpoint === 'any') continue
    const lane = endpoint === 'key' ? `key ${key}` : endpoint
    if (n < (latest.get(lane) ?? 0)) problems.push(`overtaken: ${n} came after ${latest.get(lane)} in lane ${lane}`)
    latest.set(lane, n)
  }
  return problems
}

async function everything(server: ServerProcess): Promise<Listed['items']> {
  const found: Listed['items'] = []
  let cursor = ''
  do {
    const page = await call<Listed>(server, 'GET', `/v1/deliveries?limit=500${cursor}`)
    found.push(...page.items)
    cursor = page.next === null ? '' : `&cursor=${page.next}`
  } while (cursor !== '')
  return found
}

// biome-ignore lint/suspicious/noExplicitAny: an answer is whatever the server sent
async function until<T = any>(server: ServerProcess, path: string, isThere: (answer: T) => boolean): Promise<T> {
  for (let looks = 0; looks < 2_000; looks++) {
    const answer = await call<T>(server, 'GET', path)
    if (isThere(answer)) return answer
    await pause(20)
  }
  throw new Error(`${path} does not become what it should`)
}

async function call<T>(server: ServerProcess, method: string, path: string, body?: unknown): Promise<T> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`)
  return (await response.json()) as T
}
