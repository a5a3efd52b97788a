import { Buffer } from 'node:buffer'
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import type { Clock } from '../../core/clock.ts'
import type { LinkEnding, Relay, RelayLink } from '../../core/relay.ts'
import type { Compression } from './compression.ts'
import { HubWork } from './hub-work.ts'
import type { LinkLog } from './link-log.ts'
import {
  type Ack,
  closeCodes,
  closeReason,
  encode,
  type FromHub,
  type Hello,
  protocolVersion,
  readFromHub,
  type ToHub,
} from './protocol.ts'
import type { Timings } from './timings.ts'

export type LinkParts = Readonly<{
  clock: Clock
  log: LinkLog
  /** What the edge says it is. */
  software: string
  timings: Timings
  compression: Compression
  /** The oldest version of the protocol that is spoken here. */
  versionMin: number
  owner: LinkOwner
}>

/** Who keeps the links, and hears of each what concerns the others. */
export interface LinkOwner {
  /** The hub has said who it is: from now on it can have deliveries. */
  linkUp(link: Link): void
  /** Whether it takes deliveries may have changed. */
  servingChanged(link: Link): void
  /** It is over; nothing comes from it any more. */
  linkDown(link: Link, ending: LinkEnding, why: string): void
  /** There is more room for what is sent ahead. */
  roomChanged(endpointId: string): void
}

/** Why the edge ends a link: told to the hub in words, then closed with the code. */
export type Ending = Readonly<{ code: number; name: string; ending: LinkEnding; message: string }>

export const endings = {
  revoked: {
    code: closeCodes.revoked,
    name: 'revoked',
    ending: 'revoked',
    message: 'The key of this relay was revoked or replaced.',
  },
  replaced: {
    code: closeCodes.replaced,
    name: 'replaced',
    ending: 'replaced',
    message: 'Another hub came with the same key; the newest is the one that gets the deliveries.',
  },
} as const satisfies Record<string, Ending>

/** Pongs and refusals are small, but whoever asks for many and reads none would fill the memory with them. */
const unreadBytesMax = 1024 * 1024
const notText = { kind: 'malformed', problem: 'a hub sends texts only' } as const

/** One hub that is connected: its WebSocket, and what is between upgrade and end. */
export class Link {
  readonly relay: Relay
  readonly #parts: LinkParts
  readonly #ws: WebSocket
  readonly #socket: Duplex
  readonly #connectedAt: number
  #hello: Hello | null = null
  #work: HubWork | null = null
  #isOver = false
  #heardAt: number
  #pingedAt: number
  #roundTripMs: number | null = null
  #lastAckAt: number | null = null
  #strange = 0

  constructor(relay: Relay, ws: WebSocket, socket: Duplex, parts: LinkParts) {
    this.relay = relay
    this.#ws = ws
    this.#socket = socket
    this.#parts = parts
    this.#connectedAt = parts.clock.wall()
    this.#heardAt = parts.clock.steady()
    this.#pingedAt = this.#heardAt
    ws.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    ws.on('ping', (data) => this.#onPing(data))
    ws.on('pong', (data) => this.#onPong(data))
    ws.on('error', (error) => this.#over('lost', `the connection broke: ${error.message}`))
    ws.on('close', (code) => {
      if (code === closeCodes.broken) this.#over('lost', 'the connection was lost')
      else this.#over('left', `the hub closed it (${code})`)
    })
  }

  /** What the hub has of us; null before its hello and after the end. */
  get work(): HubWork | null {
    return this.#work
  }

  /** Empty before its hello. */
  get session(): string {
    return this.#hello?.session ?? ''
  }

  /** The connection itself is gone. */
  get isClosed(): boolean {
    return this.#ws.readyState === this.#ws.CLOSED
  }

  get facts(): RelayLink | null {
    const hello = this.#hello
    if (hello === null) return null
    return {
      connectedAt: this.#connectedAt,
      software: hello.software,
      protocol: Math.min(hello.version, protocolVersion),
      routes: hello.routes,
      roundTripMs: this.#roundTripMs,
      lastAckAt: this.#lastAckAt,
      outstanding: this.#work?.outstanding ?? 0,
    }
  }

  /** Ends it, with the reason. What it had is lost to it at once, whenever its connection goes. */
  end(ending: Ending): void {
    if (this.#isOver) return
    this.#send({ kind: 'error', code: ending.name, message: ending.message })
    this.#close(ending.code, ending.ending, ending.message)
  }

  /** Ends it because we go. */
  leave(code: number, why: string): void {
    this.#close(code, 'left', why)
  }

  #close(code: number, ending: LinkEnding, why: string): void {
    this.#over(ending, why)
    this.#ws.close(code, closeReason(why))
  }

  /** For a peer that does not listen. */
  terminate(): void {
    this.#over('lost', 'it was cut off')
    this.#ws.terminate()
  }

  /** Nothing new goes to the hub, and it is asked to answer what it has begun. */
  drain(): void {
    if (this.#work === null) return
    this.#send({ kind: 'drain' })
    this.#work.stop()
  }

  onClosed(listener: () => void): void {
    if (this.isClosed) listener()
    else this.#ws.once('close', listener)
  }

  /** Called by one timer for all links. `lateMs`: how much we have slept ourselves, which is not the hub's silence. */
  sweep(now: number, lateMs: number): void {
    const { helloMsMax, silenceMsMax, pingEveryMs } = this.#parts.timings
    this.#heardAt += lateMs
    const silentMs = now - this.#heardAt
    if (this.#hello === null) {
      if (silentMs >= helloMsMax) this.#silent('There was no hello in time.')
    } else if (silentMs >= silenceMsMax) {
      this.#silent('Nothing was heard for too long.')
      this.#ws.terminate()
    } else if (now - this.#pingedAt >= pingEveryMs) {
      this.#pingedAt = now
      this.#ws.ping(String(now))
    }
  }

  #silent(message: string): void {
    this.end({ code: closeCodes.silent, name: 'silent', ending: 'silent', message })
  }

  #onPing(data: Buffer): void {
    this.#heard()
    if (!this.#isOver && this.#ws.bufferedAmount < unreadBytesMax) this.#ws.pong(data)
  }

  #onPong(data: Buffer): void {
    this.#heard()
    if (data.toString('latin1') !== String(this.#pingedAt)) return
    this.#roundTripMs = Math.max(0, this.#parts.clock.steady() - this.#pingedAt)
  }

  /** Before the hello nothing else counts: a peer that only pings is not a hub. */
  #heard(): void {
    if (this.#hello !== null) this.#heardAt = this.#parts.clock.steady()
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#isOver) return
    const isText = !isBinary && Buffer.isBuffer(data)
    const message = isText ? readFromHub(data.toString()) : notText
    if (message.kind === 'malformed') this.#malformed(message.problem)
    else if (this.#hello === null && message.kind !== 'hello') this.#malformed('the first message must be hello')
    else {
      this.#heard()
      if (message.kind !== 'unknown') this.#take(message)
    }
  }

  #malformed(problem: string): void {
    const message = `This cannot be understood: ${problem}.`
    this.end({ code: closeCodes.protocol, name: 'malformed', ending: 'refused', message })
  }

  #take(message: FromHub): void {
    switch (message.kind) {
      case 'hello':
        this.#greet(message)
        break
      case 'ack':
        this.#takeAck(message)
        break
      case 'returned':
        for (const id of message.deliveries) if (this.#work?.returned(id) === false) this.#noteStrange('returned', id)
        this.#work?.flush()
        break
      case 'drain':
        this.#work?.stop()
        this.#parts.owner.servingChanged(this)
        break
      case 'error':
        this.#parts.log.complaint(this.relay, 'relay.error', { code: message.code, error: message.message })
    }
  }

  #greet(hello: Hello): void {
    const { versionMin } = this.#parts
    if (this.#hello !== null) this.#malformed('hello comes once')
    else if (hello.version >= versionMin) this.#welcome(hello)
    else {
      const message = `This edge speaks version ${versionMin} and later, the hub at most ${hello.version}: upgrade it.`
      this.end({ code: closeCodes.version, name: 'version', ending: 'refused', message })
    }
  }

  #welcome(hello: Hello): void {
    const { software, timings, clock } = this.#parts
    this.#hello = hello
    this.#heardAt = clock.steady()
    const version = Math.min(hello.version, protocolVersion)
    const { silenceMsMax } = timings
    this.#send({ kind: 'welcome', version, software, relay: this.relay.name, silenceMsMax })
    // Asked at once, so that there is a figure before the first round.
    this.#pingedAt = this.#heardAt
    this.#ws.ping(String(this.#pingedAt))
    this.#work = new HubWork(hello, {
      relay: this.relay.name,
      wire: { ws: this.#ws, socket: this.#socket, send: (message) => this.#send(message) },
      compression: this.#parts.compression,
      waits: timings,
      onRoom: (endpointId) => this.#parts.owner.roomChanged(endpointId),
    })
    this.#parts.owner.linkUp(this)
  }

  #takeAck(ack: Ack): void {
    this.#lastAckAt = this.#parts.clock.wall()
    if (this.#work?.acked(ack) === false) this.#noteStrange('ack', ack.delivery)
    this.#work?.flush()
  }

  /** Answered twice, too late or never asked: of no use, and no harm. */
  #noteStrange(kind: 'ack' | 'returned', deliveryId: string): void {
    this.#strange += 1
    this.#parts.log.complaint(this.relay, 'relay.answer_ignored', { kind, deliveryId, count: this.#strange })
  }

  #send(message: ToHub): void {
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.send(encode(message))
  }

  #over(ending: LinkEnding, why: string): void {
    if (this.#isOver) return
    this.#isOver = true
    const work = this.#work
    const outstanding = work?.outstanding ?? 0
    if (work !== null) {
      this.#parts.log.change(this.relay, 'relay.disconnected', { why, outstanding, strange: this.#strange })
    }
    this.#work = null
    this.#parts.owner.linkDown(this, ending, why)
    work?.lose(why)
  }
}
