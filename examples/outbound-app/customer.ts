// A customer of the shop: checks each webhook's signature with the library of Standard Webhooks, as anybody could.
import { createServer, type Server } from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

/** `secret` is asked for when a webhook comes: the shop tells it after the customer has told its address. */
export function openCustomer(secret: () => string, onOrder: (order: unknown, attempt: string) => void): Server {
  const seen = new Set<string>()
  return createServer(async (request, response) => {
    const body = await text(request)
    const headers = request.headers as Record<string, string>
    try {
      const { data } = new Webhook(secret()).verify(body, headers) as { data: unknown }
      // At least once means now and then twice: the id is the same on every try.
      const id = String(headers['webhook-id'])
      if (!seen.has(id)) onOrder(data, String(headers['posthorn-attempt']))
      seen.add(id)
      response.writeHead(204).end()
    } catch (error) {
      response.writeHead(400).end(String(error))
    }
  })
}
