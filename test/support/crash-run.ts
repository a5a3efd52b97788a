import { setTimeout as pause } from 'node:timers/promises'
import { Crowd } from './crowd.ts'
import { brokenPromises, type Ordering } from './ledger.ts'
import { openLedgerSink } from './ledger-sink.ts'
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
  const sink = await openLedgerSink(endpoints, fitful)
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

/** Fails by a fixed pattern; some take a while, so that two at once would be seen. */
async function fitful(n: number, attempt: number): Promise<number> {
  if (n % 5 === 0) await pause(n % 7)
  if (n % 97 === 0) return 422
  return (n * 7 + attempt * 13) % 11 === 0 ? 503 : 200
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
