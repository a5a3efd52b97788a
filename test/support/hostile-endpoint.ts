import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import tls from 'node:tls'
import { gzipSync } from 'node:zlib'
import type { Certificate } from './certificates.ts'

/** What it does to a connection on which a request has come in; `turn` counts all requests of the endpoint, from 0. */
export type Hostility = (socket: Socket, turn: number) => void

export type HostileEndpoint = Readonly<{
  url: string
  port: number
  /** How many requests began. */
  turns(): number
  connections(): number
  /** Resolves when every connection that there was is closed. */
  allClosed(): Promise<void>
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}>

const head = (lines: string): string => `HTTP/1.1 ${lines.trim().replaceAll('\n', '\r\n')}\r\n\r\n`
const ok = head('200 OK\ncontent-length: 2')

/** Writes for as long as the connection takes it, at the pace of the reader. */
function flood(socket: Socket, chunk: string | Buffer): void {
  const pump = (): void => {
    while (!socket.destroyed && socket.write(chunk));
  }
  socket.on('drain', pump)
  pump()
}

/** Writes the text again and again, slowly and for ever. */
function drip(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), 10)
  socket.once('close', () => clearInterval(timer))
}

/** Acts when undici, in this process, has read the headers of an answer and what came with them. */
export function afterHeaders(act: () => void): void {
  const onHeaders = (): void => {
    unsubscribe('undici:request:headers', onHeaders)
    setImmediate(act)
  }
  subscribe('undici:request:headers', onHeaders)
}

/** Everything an endpoint can do wrong after it got a request. */
export const hostilities = {
  silent: () => {},
  slowHeaders(socket) {
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ')
    drip(socket, 'a')
  },
  slowBody(socket) {
    socket.write(`${head('200 OK\ncontent-length: 100000')}begin`)
    drip(socket, '.')
  },
  endlessBody(socket) {
    socket.write(head('200 OK\nconnection: close'))
    flood(socket, Buffer.alloc(16_384, 97))
  },
  endlessInterim: (socket) => flood(socket, head('103 Early Hints\nlink: </a>').repeat(50)),
  /** Few enough to be patient with, and then nothing. */
  interimThenSilence: (socket) => socket.write(head('103 Early Hints\nlink: </a>').repeat(3)),
  endlessHeaders(socket) {
    socket.write('HTTP/1.1 200 OK\r\n')
    flood(socket, 'x-more: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n'.repeat(100))
  },
  hugeHeader: (socket) => socket.write(head(`200 OK\nx-huge: ${'a'.repeat(20_000)}`)),
  endlessStatusLine(socket) {
    socket.write('HTTP/1.1 200 ')
    flood(socket, 'a'.repeat(16_384))
  },
  resetBeforeAnswer: (socket) => socket.resetAndDestroy(),
  closeBeforeAnswer: (socket) => socket.destroy(),
  resetInsideHeaders: (socket) => socket.write('HTTP/1.1 200 OK\r\nx-a: ', () => socket.resetAndDestroy()),
  closeInsideHeaders: (socket) => socket.end('HTTP/1.1 200 OK\r\nx-a: '),
  closeInsideBody: (socket) => socket.end(`${head('200 OK\ncontent-length: 100')}begin`),
  resetInsideBody(socket) {
    socket.write(`${head('200 OK\ncontent-length: 100')}begin`)
    // A reset throws away what the other side has not read yet.
    afterHeaders(() => socket.resetAndDestroy())
  },
  lengthTooShort: (socket) => socket.write(`${ok}too much`),
  twoLengths: (socket) => socket.write(`${head('200 OK\ncontent-length: 2\ncontent-length: 5')}hello`),
  badChunks: (socket) => socket.write(`${head('200 OK\ntransfer-encoding: chunked')}5\r\nbegin\r\nzz\r\nrubbish`),
  noContentWithBody: (socket) => socket.write(`${head('204 No Content')}surprise`),
  http09: (socket) => socket.end('hello\n'),
  notHttp: (socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'),
  unasked100: (socket) => socket.write(`${head('100 Continue')}${ok}ok`),
  unasked101: (socket) => socket.write(head('101 Switching Protocols\nconnection: upgrade\nupgrade: websocket')),
  gzipBomb(socket) {
    const bomb = gzipSync(Buffer.alloc(8 * 1_024 * 1_024))
    socket.write(head(`200 OK\ncontent-encoding: gzip\ncontent-length: ${bomb.length}`))
    socket.write(bomb)
  },
  prototypeHeaders: (socket) => socket.write(`${head('200 OK\n__proto__: x\nconstructor: y\ncontent-length: 2')}ok`),
  manyHeaders: (socket) => socket.write(`${head(`200 OK\n${manyHeaders()}content-length: 2`)}ok`),
} satisfies Record<string, Hostility>

function manyHeaders(): string {
  return Array.from({ length: 500 }, (_, i) => `x-${i}: ${i}\n`).join('')
}

/** A raw TCP or TLS server on the loopback address that misbehaves as told. `onConnection` acts before TLS. */
export async function openHostileEndpoint(
  hostility: Hostility,
  options: Readonly<{ certificate?: Certificate; onConnection?: (socket: Socket) => void }> = {},
): Promise<HostileEndpoint> {
  const open = new Set<Socket>()
  const closed: (() => void)[] = []
  let connections = 0
  let turns = 0

  function watch(socket: Socket): void {
    connections++
    open.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => {
      open.delete(socket)
      if (open.size === 0) for (const done of closed.splice(0)) done()
    })
    options.onConnection?.(socket)
  }
  function serve(socket: Socket): void {
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      if (chunk.includes('HTTP/1.1\r\n')) hostility(socket, turns++)
    })
  }
  const { certificate } = options
  const server = certificate === undefined ? net.createServer(serve) : tls.createServer(certificate, serve)
  server.on('connection', watch)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  const allClosed = (): Promise<void> =>
    open.size === 0 ? Promise.resolve() : new Promise((resolve) => closed.push(resolve))
  async function close(): Promise<void> {
    if (!server.listening) return
    server.close()
    for (const socket of open) socket.destroy()
    await allClosed()
  }
  return {
    url: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}/hook`,
    port,
    turns: () => turns,
    connections: () => connections,
    allClosed,
    close,
    [Symbol.asyncDispose]: close,
  }
}
