import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import {
  type Ack,
  type DeliverHead,
  type EndpointRulesMessage,
  encode,
  encodeDeliver,
  type FromHub,
  type Hello,
  readFromHub,
  type ToHub,
} from '../../src/transports/relay/protocol.ts'
import type { Certificate } from './certificates.ts'
import { testSecret } from './scripted-endpoint.ts'

export type EdgeDelivery = Partial<Omit<DeliverHead, 'event'>> &
  Readonly<{ delivery: string; body?: string; event?: Partial<DeliverHead['event']> }>

/** The edge's end of one link, after the hello. */
export type EdgeLink = Readonly<{
  hello: Hello
  upgrade: IncomingMessage
  ws: WebSocket
  socket: Socket
  /** All that the hub has said since its hello. */
  said: readonly FromHub[]
  send(message: ToHub): void
  /** Tells the rules of endpoint `ep_1` with route `main`, unless something else is said. */
  describe(more?: Partial<EndpointRulesMessage>): void
  /** Endpoint `ep_1`, bornAt 1, attempt 1, no lane, unless something else is said. */
  deliver(delivery: EdgeDelivery): void
  /** The next of this kind that nobody has taken yet; waits for it. Rejects when the link ends before. */
  next<K extends FromHub['kind']>(kind: K): Promise<Extract<FromHub, { kind: K }>>
  ack(): Promise<Ack>
  /** The next of whatever kind, apart from the others: what is taken here is there for them as well. */
  any(): Promise<FromHub>
  closed: Promise<Readonly<{ code: number; reason: string }>>
}>

export type ScriptedEdge = Readonly<{
  url: string
  port: number
  /** How often somebody came, let in or not. */
  visits(): number
  /** The next hub that comes, after its hello. */
  link(): Promise<EdgeLink>
  /** From now on answers upgrades with this status; null: lets them in. */
  refuse(status: number | null): void
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}>

export type ScriptedEdgeOptions = Readonly<{
  certificate?: Certificate
  port?: number
  /** What is said to the hello; null: nothing. */
  welcome?: Partial<Extract<ToHub, { kind: 'welcome' }>> | null
  compress?: boolean
}>

/** A real WebSocket server that speaks the edge's part as the test tells it to. */
export async function openScriptedEdge(options: ScriptedEdgeOptions = {}): Promise<ScriptedEdge> {
  const { certificate, port: wanted = 0, welcome = {}, compress = false } = options
  const server = certificate === undefined ? http.createServer() : https.createServer(certificate)
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: compress })
  const links = queueOf<EdgeLink>()
  let status: number | null = null
  let visits = 0
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    visits++
    if (status !== null) {
      socket.end(`HTTP/1.1 ${status} No\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n`)
      return
    }
    sockets.handleUpgrade(request, socket, head, (ws) => {
      ws.on('error', () => undefined)
      ws.once('message', (data: Buffer) => {
        const hello = readFromHub(data.toString())
        if (hello.kind !== 'hello') return ws.close(4400)
        const full = { version: 1, software: 'edge/test', relay: 'home', silenceMsMax: 25_000, ...welcome }
        if (welcome !== null) ws.send(encode({ kind: 'welcome', ...full }))
        links.push(linkOf(ws, socket, request, hello))
      })
    })
  })
  server.listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function close(): Promise<void> {
    for (const ws of sockets.clients) ws.terminate()
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  return {
    url: `${certificate === undefined ? 'ws' : 'wss'}://127.0.0.1:${port}`,
    port,
    visits: () => visits,
    link: () => links.take(),
    refuse(answer) {
      status = answer
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function linkOf(ws: WebSocket, socket: Socket, upgrade: IncomingMessage, hello: Hello): EdgeLink {
  const said: FromHub[] = []
  const queues = new Map<string, Queue<FromHub>>()
  const queue = (kind: string): Queue<FromHub> => {
    const known = queues.get(kind) ?? queueOf<FromHub>()
    queues.set(kind, known)
    return known
  }
  ws.on('message', (data: Buffer) => {
    const message = readFromHub(data.toString())
    if (message.kind === 'unknown' || message.kind === 'malformed') throw new Error(JSON.stringify(message))
    said.push(message)
    queue(message.kind).push(message)
    queue('any').push(message)
  })
  const closed = once(ws, 'close').then(([code, reason]) => ({ code: Number(code), reason: String(reason) }))
  const take = (kind: string): Promise<FromHub> => {
    const over = closed.then(({ code }) => Promise.reject(new Error(`the link ended with ${code}, without ${kind}`)))
    over.catch(() => undefined)
    return Promise.race([queue(kind).take(), over])
  }
  const next = async <K extends FromHub['kind']>(kind: K): Promise<Extract<FromHub, { kind: K }>> =>
    (await take(kind)) as Extract<FromHub, { kind: K }>
  const send = (message: ToHub): void => ws.send(encode(message))
  return {
    ...{ hello, upgrade, ws, socket, said, closed, send, next },
    ack: () => next('ack'),
    any: () => take('any'),
    describe: (more = {}) => send({ ...rules, ...more }),
    deliver: ({ body = '{"n":1}', event, ...head }) =>
      ws.send(encodeDeliver({ head: { ...plain, ...head, event: { ...anEvent, ...event } }, body: Buffer.from(body) })),
  }
}

const rules: EndpointRulesMessage = {
  kind: 'endpoint',
  endpoint: 'ep_1',
  route: 'main',
  timeoutMs: 10_000,
  classify: { '4xx': 'permanent' },
  headers: {},
  secrets: [{ secret: testSecret, expiresAt: null }],
}

const plain = { kind: 'deliver', endpoint: 'ep_1', bornAt: 1, attempt: 1, lane: null, behind: null } as const

const anEvent: DeliverHead['event'] = {
  ...{ id: 'evt_1', type: 'order.created', tenant: 'default', key: null, receivedAt: 1 },
  ...{ contentType: 'application/json', headers: {}, request: null },
}

export type Queue<T> = Readonly<{ push(item: T): void; take(): Promise<T>; size(): number }>

/** What came and was not taken yet, and who waits for what did not come yet. */
export function queueOf<T>(): Queue<T> {
  const items: T[] = []
  const waiting: ((item: T) => void)[] = []
  return {
    push(item) {
      const waiter = waiting.shift()
      if (waiter === undefined) items.push(item)
      else waiter(item)
    },
    take() {
      const item = items.shift()
      return item === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(item)
    },
    size: () => items.length,
  }
}
