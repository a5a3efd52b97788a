import { once } from 'node:events'
import http, { type IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import type { Event } from '../../src/core/event.ts'
import type { Parcel } from '../../src/transports/transport.ts'
import { anEndpoint, anEvent } from './builders.ts'
import type { Certificate } from './certificates.ts'

/** A request as it arrived. */
export type Received = Readonly<{
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** Names and values in turns, as they were on the wire. */
  rawHeaders: readonly string[]
  body: Buffer
  at: number
  serverName: string | null
}>

/** `hang`: the request is never answered. `drop`: the connection is closed instead. */
export type Answer =
  | Readonly<{ status?: number; headers?: Readonly<Record<string, string>>; body?: string | Uint8Array }>
  | 'hang'
  | 'drop'

/** What to answer to the request with this number, from 0. */
export type Script = (received: Received, index: number) => Answer | Promise<Answer>

export type ScriptedEndpoint = Readonly<{
  url: string
  port: number
  /** Everything that came, in order. */
  received: readonly Received[]
  /** The next request that nobody has taken yet; waits for it. */
  next(): Promise<Received>
  /** From now on answers by this script. A list is worked off, and its last answer repeats. */
  answer(script: Script | readonly Answer[]): void
  /** How many connections there have been. */
  connections(): number
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}>

/** A real HTTP server on the loopback address that answers by script and remembers what it got. */
export async function openScriptedEndpoint(
  script: Script | readonly Answer[] = [{}],
  options: Readonly<{ host?: string; port?: number; certificate?: Certificate }> = {},
): Promise<ScriptedEndpoint> {
  const { host = '127.0.0.1', port: wantedPort = 0, certificate } = options
  const received: Received[] = []
  const waiting: ((one: Received) => void)[] = []
  let taken = 0
  let current = asScript(script)
  let connections = 0

  const listener: http.RequestListener = async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>).catch(() => []))
    const one = describe(request, body)
    const index = received.push(one) - 1
    const waiter = waiting.shift()
    if (waiter !== undefined) {
      taken++
      waiter(one)
    }
    const answer = await current(one, index)
    if (answer === 'hang') return
    if (answer === 'drop') {
      request.socket.destroy()
      return
    }
    response.writeHead(answer.status ?? 200, answer.headers).end(answer.body)
  }
  const server = certificate === undefined ? http.createServer(listener) : https.createServer(certificate, listener)
  server.on('connection', () => {
    connections++
  })
  server.listen(wantedPort, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function close(): Promise<void> {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  return {
    url: `${certificate === undefined ? 'http' : 'https'}://${host}:${port}/hook`,
    port,
    received,
    next() {
      const one = received[taken]
      if (one === undefined) return new Promise((resolve) => waiting.push(resolve))
      taken++
      return Promise.resolve(one)
    },
    answer(script) {
      current = asScript(script)
    },
    connections: () => connections,
    close,
    [Symbol.asyncDispose]: close,
  }
}

function asScript(script: Script | readonly Answer[]): Script {
  if (typeof script === 'function') return script
  let index = 0
  return () => script[Math.min(index++, script.length - 1)] ?? {}
}

function describe(request: http.IncomingMessage, body: Buffer): Received {
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    headers: request.headers,
    rawHeaders: request.rawHeaders,
    body,
    at: Date.now(),
    serverName: (request.socket as Partial<TLSSocket>).servername || null,
  }
}

export const testSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** A parcel for this URL; what matters to a test can be said, the rest is ordinary. */
export function parcelFor(url: string, endpoint: Partial<HttpEndpoint> = {}, event: Partial<Event> = {}): Parcel {
  return {
    deliveryId: 'dlv_1',
    attempt: 1,
    sentAt: Date.now(),
    lane: null,
    bornAt: Date.now(),
    endpoint: anEndpoint({ url, secrets: [{ secret: testSecret, expiresAt: null }], ...endpoint }),
    event: anEvent({ id: 'evt_1', body: Buffer.from('{"n":1}'), ...event }),
  }
}
