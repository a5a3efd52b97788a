// The application: a shop with one route. Selling something sends an event; who hears of it is Posthorn's business.
import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { json } from 'node:stream/consumers'

type Posthorn = Readonly<{ url: string; apiKey: string | undefined }>
type Order = Readonly<{ id: string; item: unknown; price: unknown }>

export function openShop(posthorn: Posthorn): Server {
  return createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== '/orders') {
      response.writeHead(404).end()
      return
    }
    try {
      const { item, price } = (await json(request)) as Omit<Order, 'id'>
      const order = { id: randomUUID(), item, price }
      const eventId = await sendOrder(posthorn, order)
      response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ ...order, eventId }))
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  })
}

/** Resolves when the event is on Posthorn's disk: from then on it will arrive, whatever happens to this process. */
async function sendOrder(posthorn: Posthorn, order: Order): Promise<string> {
  const { id } = await post(
    posthorn,
    '/v1/events',
    { type: 'order.created', key: order.id, data: order },
    // Sending the same order again, after a timeout say, makes no second event.
    { 'idempotency-key': `order-${order.id}` },
  )
  return String(id)
}

/** The customer's endpoint, made once; answers its signing secret. */
export async function subscribe(posthorn: Posthorn, url: string): Promise<string> {
  const listed = await call(posthorn, 'GET', '/v1/endpoints')
  const known = (listed.items as { id: string; url: string }[]).find((endpoint) => endpoint.url === url)
  if (known !== undefined) return String((await call(posthorn, 'GET', `/v1/endpoints/${known.id}/secret`)).secret)
  return String((await post(posthorn, '/v1/endpoints', { url, types: ['order.*'], ordering: 'key' })).secret)
}

function post(posthorn: Posthorn, path: string, body: unknown, headers: Record<string, string> = {}) {
  return call(posthorn, 'POST', path, JSON.stringify(body), { 'content-type': 'application/json', ...headers })
}

async function call(
  { url, apiKey }: Posthorn,
  method: string,
  path: string,
  body: string | null = null,
  headers: Record<string, string> = {},
): Promise<Record<string, unknown>> {
  const key = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  const response = await fetch(`${url}${path}`, { method, body, headers: { ...headers, ...key } })
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(`Posthorn answered ${response.status}: ${answer.detail}`)
  return answer
}
