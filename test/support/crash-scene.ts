import { setTimeout as pause } from 'node:timers/promises'
import type { Ordering } from './ledger.ts'
import type { ServerProcess } from './server-process.ts'

/** What a crash test delivers to, by name: one without order, one with an order by key, one with an order of all. */
export const endpoints: Readonly<Record<string, Ordering>> = { any: 'none', key: 'key', all: 'endpoint' }
export const concurrency = 8
const retry = {
  strategy: 'exponential',
  baseDelay: '20ms',
  multiplier: 2,
  maxDelay: '300ms',
  jitter: 0.1,
  maxAttempts: 30,
}

/** Fails by a fixed pattern; some take a while, so that two at once would be seen. */
export async function fitful(n: number, attempt: number): Promise<number> {
  if (n % 5 === 0) await pause(n % 7)
  if (n % 97 === 0) return 422
  return (n * 7 + attempt * 13) % 11 === 0 ? 503 : 200
}

export async function createEndpoints(server: string, sink: string): Promise<void> {
  for (const [name, ordering] of Object.entries(endpoints)) {
    const endpoint = {
      url: `${sink}/${name}`,
      ordering,
      concurrency,
      retry,
      breaker: false,
      description: name,
      types: ['crash.test'],
    }
    const response = await fetch(`${server}/v1/endpoints`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(endpoint),
    })
    if (response.status !== 201) throw new Error(`endpoint refused: ${await response.text()}`)
  }
}

type Listed = { items: { id: string; eventId: string; endpointId: string }[]; next: string | null }

export async function settled(server: Pick<ServerProcess, 'url'>): Promise<void> {
  for (let looks = 0; looks < 2_000; looks++) {
    const [pending, processing] = await Promise.all(
      ['pending', 'processing'].map((status) => list(server, `/v1/deliveries?limit=1&status=${status}`)),
    )
    if (pending?.items.length === 0 && processing?.items.length === 0) return
    await pause(30)
  }
  throw new Error('deliveries are still pending long after the last crash')
}

export async function deadLetters(
  server: Pick<ServerProcess, 'url'>,
): Promise<{ eventId: string; endpoint: string }[]> {
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

async function list(server: Pick<ServerProcess, 'url'>, path: string): Promise<Listed> {
  const response = await fetch(`${server.url}${path}`)
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}`)
  return (await response.json()) as Listed
}
