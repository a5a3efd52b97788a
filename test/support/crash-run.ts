import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Arrived, brokenPromises, laneName, type Ordering, type Sent } from './ledger.ts'
import { randomFrom } from './random.ts'
import { freePort, type ServerProcess, startServer } from './server-process.ts'

export type CrashOptions = Readonly<{ database: string; kills: number; senders: number; seed: number }>

export type CrashReport = Readonly<{
  problems: readonly string[]
  acknowledged: number
  arrivals: number
  dead: number
  restartsMs: readonly number[]
}>

const endpoints: Readonly<Record<string, Ordering>> = { any: 'none', key: 'key', all: 'endpoint' }
const concurrency = 8
const retry = {
  strategy: 'exponential',
  baseDelay: '20ms',
  multiplier: 2,
  maxDelay: '300ms',
  jitter: 0.1,
  maxAttempts: 30,
}

/**
 * Sends events to a real server that is killed again and again, and keeps two ledgers: what the sender was told and
 * what the sink got. The sink fails now and then, by a fixed pattern, so that retries are under way at the crashes.
 */
export async function crashRun(options: CrashOptions): Promise<CrashReport> {
  const random = randomFrom(options.seed)
  const sink = await openSink()
  const port = await freePort()
  const start = () => startServer({ database: options.database, port })
  let server = await start()
  await createEndpoints(server.url, sink.url)
  const crowd = new Crowd(server.url, options.senders)
  const restartsMs: number[] = []
  for (let kill = 0; kill < options.kills; kill++) {
    // Some lives end before the first answer, some in the middle of the traffic.
    if (random() < 0.75) await crowd.acknowledged(1 + Math.floor(random() * 150))
    await pause(random() * 90)
    await server.kill()
    const killedAt = performance.now()
    server = await start()
    restartsMs.push(Math.round(performance.now() - killedAt))
  }
  await crowd.finish()
  await settled(server)
  const dead = await deadLetters(server)
  await server.stop()
  await sink.close()
  const history = {
    sent: crowd.sent,
    arrived: sink.arrived,
    endpoints,
    dead,
    overlaps: sink.overlaps,
    // On the wire, and as many again that are answered and not yet on disk.
    inFlightAtCrashes: options.kills * 2 * concurrency * Object.keys(endpoints).length,
  }
  const acknowledged = crowd.sent.filter((event) => event.eventId !== null).length
  return {
    problems: brokenPromises(history),
    acknowledged,
    arrivals: sink.arrived.length,
    dead: dead.length,
    restartsMs,
  }
}

async function openSink() {
  const arrived: Arrived[] = []
  const inHand = new Set<string>()
  const overlaps: string[] = []
  const server = createServer(async (request, response) => {
    const body = await bytesOf(request)
    const n = JSON.parse(body.toString()).data.n as number
    const attempt = Number(request.headers['posthorn-attempt'])
    const lane = laneOf(request, body)
    if (lane !== null && inHand.has(lane)) overlaps.push(lane)
    if (lane !== null) inHand.add(lane)
    // Some take a while, so that two at once would be seen.
    if (n % 5 === 0) await pause(n % 7)
    if (lane !== null) inHand.delete(lane)
    const gone = n % 97 === 0
    const statusCode = gone ? 422 : (n * 7 + attempt * 13) % 11 === 0 ? 503 : 200
    arrived.push({
      endpoint: (request.url ?? '').slice(1),
      webhookId: String(request.headers['webhook-id']),
      deliveryId: String(request.headers['posthorn-delivery']),
      attempt,
      sha256: hashOfData(body),
      n,
      statusCode,
    })
    response.writeHead(statusCode).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived,
    overlaps,
    close: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** Senders that go on through crashes: an event without an answer is sent again under its idempotency key. */
class Crowd {
  readonly sent: Sent[] = []
  readonly #url: string
  readonly #senders: Promise<void>[]
  readonly #listeners = new Set<() => void>()
  #open = true

  constructor(url: string, senders: number) {
    this.#url = url
    this.#senders = Array.from({ length: senders }, (_, index) => this.#send(`key-${index}`, index))
  }

  async finish(): Promise<void> {
    this.#open = false
    await Promise.all(this.#senders)
  }

  /** Resolves when this many more events were acknowledged. */
  acknowledged(count: number): Promise<void> {
    const wanted = this.sent.length + count
    return new Promise((resolve) => {
      const look = (): void => {
        if (this.sent.length < wanted) return
        this.#listeners.delete(look)
        resolve()
      }
      this.#listeners.add(look)
    })
  }

  async #send(key: string, index: number): Promise<void> {
    for (let seq = 0; this.#open; seq++) {
      const n = seq * 1_000 + index + 1
      const data = `{"n":${n},"key":${JSON.stringify(key)},"exact":1.0,"big":12345678901234567890,"filler":"${'x'.repeat(n % 300)}"}`
      const body = `{"type":"crash.test","key":${JSON.stringify(key)},"data":${data}}`
      const sha256 = createHash('sha256').update(data).digest('hex')
      const sentAt = performance.now()
      const eventId = await this.#untilAnswered(body, `${n}`)
      this.sent.push({ n, key, sha256, eventId, sentAt, ackedAt: performance.now() })
      for (const look of this.#listeners) look()
    }
  }

  async #untilAnswered(body: string, idempotencyKey: string): Promise<string> {
    const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey }
    for (;;) {
      try {
        const response = await fetch(`${this.#url}/v1/events`, { method: 'POST', headers, body })
        const answer = (await response.json()) as { id: string }
        if (response.status === 202) return answer.id
        if (response.status !== 503) throw new TypeError(`unexpected answer ${response.status}`)
      } catch (error) {
        if (error instanceof TypeError && error.message.startsWith('unexpected')) throw error
      }
      await pause(10)
    }
  }
}

async function createEndpoints(server: string, sink: string): Promise<void> {
  for (const [name, ordering] of Object.entries(endpoints)) {
    const endpoint = { url: `${sink}/${name}`, ordering, concurrency, retry, breaker: false, description: name }
    const response = await fetch(`${server}/v1/endpoints`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(endpoint),
    })
    if (response.status !== 201) throw new Error(`endpoint refused: ${await response.text()}`)
  }
}

type Listed = { items: { id: string; eventId: string; endpointId: string }[]; next: string | null }

async function settled(server: ServerProcess): Promise<void> {
  for (let looks = 0; looks < 2_000; looks++) {
    const [pending, processing] = await Promise.all(
      ['pending', 'processing'].map((status) => list(server, `/v1/deliveries?limit=1&status=${status}`)),
    )
    if (pending?.items.length === 0 && processing?.items.length === 0) return
    await pause(30)
  }
  throw new Error('deliveries are still pending long after the last crash')
}

async function deadLetters(server: ServerProcess): Promise<{ eventId: string; endpoint: string }[]> {
  const named = await fetch(`${server.url}/v1/endpoints`)
  const { items } = (await named.json()) as { items: { id: string; description: string }[] }
  const names = new Map(items.map(({ id, description }) => [id, description]))
  const dead: { eventId: string; endpoint: string }[] = []
  let cursor = ''
  do {
    const page = await list(server, `/v1/deliveries?limit=500&status=failed${cursor}`)
    for (const { eventId, endpointId } of page.items) dead.push({ eventId, endpoint: names.get(endpointId) ?? '' })
    cursor = page.next === null ? '' : `&cursor=${encodeURIComponent(page.next)}`
  } while (cursor !== '')
  return dead
}

async function list(server: ServerProcess, path: string): Promise<Listed> {
  const response = await fetch(`${server.url}${path}`)
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}`)
  return (await response.json()) as Listed
}

function laneOf({ url = '' }: IncomingMessage, body: Buffer): string | null {
  const endpoint = url.slice(1)
  const ordering = endpoints[endpoint] ?? 'none'
  return ordering === 'none' ? null : laneName(endpoint, ordering, JSON.parse(body.toString()).data.key)
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** The hash of the bytes between the envelope's `"data":` and its closing brace. */
function hashOfData(envelope: Buffer): string {
  const begin = envelope.indexOf('"data":') + '"data":'.length
  return createHash('sha256')
    .update(envelope.subarray(begin, envelope.length - 1))
    .digest('hex')
}
