import { Buffer } from 'node:buffer'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { PosthornError } from '../core/errors.ts'
import { Answer } from './answer.ts'
import { headersOf, Problem } from './problem.ts'

const secondMs = 1_000
/** A client that takes longer than this to say what it wants is cut off. */
const limits = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10 * secondMs,
  requestTimeout: 30 * secondMs,
  connectionsCheckingInterval: 2 * secondMs,
  keepAliveTimeout: 65 * secondMs,
}
export type Timeouts = Pick<typeof limits, 'headersTimeout' | 'requestTimeout' | 'connectionsCheckingInterval'> &
  Readonly<{ bodyWindow: number }>

/** Who takes connections over for another protocol. What it does not want is served as if it had not asked for one. */
export type Upgrades = Readonly<{
  wants: (request: IncomingMessage) => boolean
  take: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
}>

export type ServerLimits = Readonly<{ timeouts: Partial<Timeouts>; connectionsMax: number; upgrades: Upgrades }>

/** A server with the limits that every port has, not listening yet. */
export function boundedServer({ timeouts, connectionsMax, upgrades }: ServerLimits, serve: RequestListener): Server {
  const options = { ...limits, ...timeouts, shouldUpgradeCallback: upgrades.wants, ServerResponse: Answer }
  const inTurn = (request: IncomingMessage, response: Answer) => {
    if (response.hasTurn) serve(request, response)
    else response.waitForTurn(() => serve(request, response))
  }
  const server = createServer(options, inTurn)
  // By itself node would ask for every body, also for those that are refused by their head. An answer that comes instead
  // of the question ends the connection: node sees to that.
  server.on('checkContinue', inTurn)
  server.maxConnections = connectionsMax
  server.timeout = silenceMsMax
  const taken = new Set<Duplex>()
  takenOver.set(server, taken)
  server.on('upgrade', (request, socket, head) => {
    taken.add(socket)
    socket.once('close', () => taken.delete(socket))
    // From here on nobody else listens: a reset would be an error that nobody handles.
    socket.on('error', () => socket.destroy())
    upgrades.take(request, socket, head)
  })
  return server
}

/** Connections that are not HTTP any more, by their server. They end with whoever took them over. */
const takenOver = new WeakMap<Server, ReadonlySet<Duplex>>()

/** A connection on which nothing has moved for this long is nobody's. Longer than the longest try-out. */
const silenceMsMax = 600 * secondMs

/** Where to listen, and which setting says so. */
export type Place = Readonly<{ host: string; port: number; setting: string }>

export async function listenAt(server: Server, { host, port, setting }: Place): Promise<string> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      const detail = `Port ${port} on ${host} is in use; stop what listens there or set ${setting} to another.`
      throw new PosthornError('conflict', detail, { cause })
    }
    throw new PosthornError('config_invalid', `Cannot listen on ${host} port ${port}: ${message}.`, { cause })
  }
  const { address, family, port: actual } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${actual}`
}

/**
 * Takes no more connections and lets open requests finish, but not for ever. Connections that were taken over are not
 * waited for: what they carry is brought to its end after this.
 */
export async function closeWithin(server: Server, ms: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  const patience = new AbortController()
  const cut = wait(ms, undefined, { signal: patience.signal, ref: false }).then(
    () => server.closeAllConnections(),
    () => {},
  )
  await Promise.race([closed, requestsEnded(server, patience.signal)])
  patience.abort()
  await cut
}

const lookEveryMs = 20

/** Node tells when the last connection has ended, not when the last that is HTTP has. */
async function requestsEnded(server: Server, signal: AbortSignal): Promise<void> {
  const taken = takenOver.get(server)
  const areOpen = async () => (await connectionsOf(server)) > (taken?.size ?? 0)
  while (!signal.aborted && (await areOpen())) await wait(lookEveryMs)
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_, count) => resolve(count ?? 0)))
}

/** What is no HTTP, or too slow, or too large in its headers, never becomes a request. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  socket.write(rawAnswer(brokenRequestProblem(error)))
  // Not only our half: a client that keeps its own open would keep the connection.
  socket.destroySoon()
}

/** A problem as the bytes of a response, for connections that have no response. */
export function rawAnswer(problem: Problem): string {
  const body = problem.body()
  const headers = { ...headersOf(problem), 'content-length': Buffer.byteLength(body), connection: 'close' }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${problem.status} ${problem.code}\r\n${head.join('')}\r\n${body}`
}

function brokenRequestProblem(error: NodeJS.ErrnoException): Problem {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 'The request did not arrive in time.')
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('headers_too_large', `The headers are larger than ${limits.maxHeaderSize} bytes.`)
    default:
      return new Problem('malformed_request', 'This is not an HTTP request.')
  }
}
