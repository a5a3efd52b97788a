import { setTimeout as pause } from 'node:timers/promises'

export type Shown = Readonly<{
  id: string
  eventId: string
  status: string
  reason: string | null
  attempts: number
  lastError: string | null
  retryAfter: string | null
  lastAttemptAt: string | null
}>

export type EdgeApi = ReturnType<typeof openApi>

/** The API of an edge, as a test asks it. */
export function openApi(url: string, apiKey = '') {
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const headers = {
      ...(apiKey !== '' && { authorization: `Bearer ${apiKey}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    }
    const response = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return (text === '' ? null : JSON.parse(text)) as T
  }
  /** Asks until the answer is the one that is waited for. */
  const until = async <T>(path: string, holds: (answer: T) => boolean): Promise<T> => {
    for (;;) {
      const answer = await call<T>('GET', path)
      if (holds(answer)) return answer
      await pause(25)
    }
  }
  return { call, until }
}

export type RelayReads = ReturnType<typeof readsOf>

/** What becomes of events that go to the hub of the relay `home`. */
export function readsOf({ call, until }: EdgeApi, endpointId: string) {
  return {
    connected: (wanted = true) =>
      until<{ connected: boolean }>('/v1/relays/home', ({ connected }) => connected === wanted),
    send: (data: unknown) => call<{ id: string }>('POST', '/v1/events', { type: 'test.sent', data }),
    /** The delivery of an event to the relay, when it is as wanted. */
    async delivery(eventId: string, holds: (delivery: Shown) => boolean): Promise<Shown> {
      const path = `/v1/deliveries?event=${eventId}&endpoint=${endpointId}`
      const { items } = await until<{ items: Shown[] }>(path, ({ items: [one] }) => one !== undefined && holds(one))
      const [one] = items
      if (one === undefined) throw new Error('it was there a moment ago')
      return one
    },
    /** When nothing waits any more and nothing is under way. */
    async settled(): Promise<void> {
      // The lane ends in its order, so that its last one is over when all are. Waiting and under way are seen one after
      // the other, and a delivery may be the one now and the other then.
      const newest = `/v1/deliveries?limit=1&endpoint=${endpointId}`
      const isOver = ({ status }: Shown) => status !== 'pending' && status !== 'processing'
      await until<{ items: Shown[] }>(newest, ({ items }) => items.every(isOver))
      for (const status of ['pending', 'processing', 'pending']) {
        const path = `/v1/deliveries?limit=1&status=${status}`
        await until<{ items: Shown[] }>(path, ({ items }) => items.length === 0)
      }
    },
    /** Deliveries in a status, as the ledger wants them. */
    async listed(status: string): Promise<readonly Readonly<{ eventId: string; endpoint: string }>[]> {
      const found: { eventId: string; endpoint: string }[] = []
      let cursor = ''
      do {
        type Page = { items: Shown[]; next: string | null }
        const page = await call<Page>('GET', `/v1/deliveries?limit=500&status=${status}${cursor}`)
        for (const { eventId } of page.items) found.push({ eventId, endpoint: 'home' })
        cursor = page.next === null ? '' : `&cursor=${encodeURIComponent(page.next)}`
      } while (cursor !== '')
      return found
    },
  }
}
