import type net from 'node:net'
import { WebSocket } from 'ws'
import { reportFailure } from '../http/failure.ts'
import { type DialSettings, dial } from './dial.ts'
import { closeReason } from './protocol.ts'

export type HubSocketSettings = DialSettings &
  Readonly<{
    key: string
    compress: boolean
    /** The largest message that is taken, also when it came compressed. */
    frameBytesMax: number
    beatMs: number
  }>

/** Why there is no link (any more). */
export type SocketEnd =
  /** It was answered, but not opened. */
  | Readonly<{ kind: 'refused'; statusCode: number }>
  | Readonly<{ kind: 'unreachable'; code: string; message: string }>
  /** Nothing came for too long, whatever the network says about the connection. */
  | Readonly<{ kind: 'silent' }>
  | Readonly<{ kind: 'closed'; code: number; reason: string }>

export type HubSocketListener = Readonly<{
  opened(): void
  message(data: string | Buffer): void
  /** Once, and nothing after it. */
  ended(end: SocketEnd): void
}>

/** The hub pings with every fourth beat. */
const beatsPerPing = 4
/** How long the other side has for the closing handshake. */
const closeMsMax = 2_000
const unanswered: SocketEnd = { kind: 'unreachable', code: 'ETIMEDOUT', message: 'it did not answer in time' }

/**
 * A WebSocket to the edge, from the first packet on, and its heartbeat. How long nothing came is counted in beats, not
 * read from a clock: neither a clock that jumps nor a process that slept can make a good link look dead.
 */
export class HubSocket {
  readonly #settings: HubSocketSettings
  readonly #listener: HubSocketListener
  readonly #stopped = new AbortController()
  #socket: net.Socket | null = null
  #ws: WebSocket | null = null
  #end: SocketEnd | null = null
  #hasEnded = false
  #beat: NodeJS.Timeout | undefined
  #opening: NodeJS.Timeout | undefined
  #closing: NodeJS.Timeout | undefined
  #silenceMsMax: number

  constructor(settings: HubSocketSettings, silenceMsMax: number, listener: HubSocketListener) {
    this.#settings = settings
    this.#silenceMsMax = silenceMsMax
    this.#listener = listener
    dial(settings, this.#stopped.signal).then(
      (socket) => this.#upgrade(socket),
      (error: unknown) => this.#finish(unreachable(error)),
    )
  }

  /** The edge may have an opinion of its own. */
  listenFor(silenceMsMax: number): void {
    this.#silenceMsMax = silenceMsMax
  }

  send(text: string): void {
    if (this.#ws?.readyState === WebSocket.OPEN) this.#ws.send(text)
  }

  /** What was sent before still goes out. */
  close(code: number, reason: string): void {
    if (this.#ws?.readyState !== WebSocket.OPEN) {
      this.#cut({ kind: 'closed', code, reason })
      return
    }
    this.#end ??= { kind: 'closed', code, reason }
    this.#ws.close(code, closeReason(reason))
    this.#closing ??= setTimeout(() => this.#ws?.terminate(), closeMsMax)
  }

  #upgrade(socket: net.Socket): void {
    if (this.#hasEnded) {
      socket.destroy()
      return
    }
    const { address, key, compress, frameBytesMax, connectMsMax, beatMs } = this.#settings
    this.#socket = socket
    const ws = new WebSocket(address.url, {
      createConnection: () => socket,
      headers: { authorization: `Bearer ${key}` },
      perMessageDeflate: compress,
      maxPayload: frameBytesMax,
      followRedirects: false,
    })
    this.#ws = ws
    // By hand: ws leaves this to the connection, which here is older than the request.
    this.#opening = setTimeout(() => this.#cut(unanswered), connectMsMax)
    ws.on('open', () => {
      clearTimeout(this.#opening)
      this.#listener.opened()
    })
    ws.on('message', (data: Buffer, isBinary: boolean) => {
      if (this.#end !== null) return
      this.#listener.message(isBinary ? data : data.toString())
    })
    ws.on('unexpected-response', (_request, response) => {
      response.destroy()
      this.#cut({ kind: 'refused', statusCode: response.statusCode ?? 0 })
    })
    ws.on('error', (error) => {
      this.#end ??= unreachable(error)
    })
    ws.on('close', (code, reason) => this.#finish({ kind: 'closed', code, reason: reason.toString() }))
    this.#listen(beatMs)
  }

  /** Bytes count, not messages: a large one may be long on its way. */
  #listen(beatMs: number): void {
    let bytesRead = -1
    let beats = 0
    let silentBeats = 0
    this.#beat = setInterval(() => {
      const read = this.#socket?.bytesRead ?? 0
      silentBeats = read === bytesRead ? silentBeats + 1 : 0
      bytesRead = read
      beats++
      if (silentBeats * beatMs >= this.#silenceMsMax) this.#cut({ kind: 'silent' })
      else if (beats % beatsPerPing === 0 && this.#ws?.readyState === WebSocket.OPEN) this.#ws.ping()
    }, beatMs)
  }

  #cut(end: SocketEnd): void {
    this.#end ??= end
    this.#stopped.abort()
    if (this.#ws === null) this.#finish(end)
    else this.#ws.terminate()
  }

  #finish(end: SocketEnd): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearInterval(this.#beat)
    clearTimeout(this.#opening)
    clearTimeout(this.#closing)
    this.#socket?.destroy()
    this.#listener.ended(this.#end ?? end)
  }
}

function unreachable(error: unknown): SocketEnd {
  const report = reportFailure(error)
  return report.kind === 'unreachable'
    ? { kind: 'unreachable', code: report.code, message: report.message }
    : { kind: 'unreachable', code: 'UNKNOWN', message: String(error) }
}
