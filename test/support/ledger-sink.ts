import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Arrived, laneName, type Ordering } from './ledger.ts'
import { openWatch } from './watch.ts'

/** The status for a try of event n; what it waits for is how long the try takes. */
export type SinkScript = (n: number, attempt: number) => number | Promise<number>

export type LedgerSink = Readonly<{
  url: string
  /** What was answered, in the order of arrival. */
  arrived: readonly Arrived[]
  /** Lanes of which two tries were in hand at the same time. */
  overlaps: readonly string[]
  answer(script: SinkScript): void
  /** Resolves when this holds; looked at after every answer. */
  until(holds: () => boolean): Promise<void>
  /** Nobody listens any more; connections are cut. */
  down(): Promise<void>
  /** Listens again on the same port. */
  up(): Promise<void>
  close(): Promise<void>
}>

/** A local target for the events of a `Crowd`, which writes down what arrived; paths name the endpoints. */
export async function openLedgerSink(
  endpoints: Readonly<Record<string, Ordering>>,
  script: SinkScript,
): Promise<LedgerSink> {
  const arrived: Arrived[] = []
  const overlaps: string[] = []
  const inHand = new Set<string>()
  const watch = openWatch()
  let current = script
  let port = 0
  let server: Server | null = null

  const take = async (request: IncomingMessage): Promise<number> => {
    const body = await bytesOf(request)
    const { n, key } = JSON.parse(body.toString()).data as { n: number; key: string }
    const endpoint = (request.url ?? '').slice(1)
    const attempt = Number(request.headers['posthorn-attempt'])
    const ordering = endpoints[endpoint] ?? 'none'
    const lane = ordering === 'none' ? null : laneName(endpoint, ordering, key)
    if (lane !== null && inHand.has(lane)) overlaps.push(lane)
    if (lane !== null) inHand.add(lane)
    const statusCode = await current(n, attempt)
    if (lane !== null) inHand.delete(lane)
    const webhookId = String(request.headers['webhook-id'])
    const deliveryId = String(request.headers['posthorn-delivery'])
    const one = { endpoint, webhookId, deliveryId, attempt, sha256: hashOfData(body), n, statusCode }
    arrived.push(one)
    return statusCode
  }
  const up = async () => {
    server = createServer((request, response) => {
      take(request).then(
        (statusCode) => {
          response.writeHead(statusCode).end(statusCode < 300 ? '' : `scripted answer ${statusCode}`)
          watch.look()
        },
        () => response.destroy(),
      )
    })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  }
  const down = async () => {
    if (server === null) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    server = null
    await closed
  }
  await up()
  return {
    url: `http://127.0.0.1:${port}`,
    arrived,
    overlaps,
    answer(script) {
      current = script
    },
    until: watch.until,
    down,
    up,
    close: down,
  }
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
