import type { Logger } from '../log.ts'
import { HubSocket, type HubSocketSettings, type SocketEnd } from '../transports/relay/hub-socket.ts'
import {
  closeCodes,
  encode,
  type Hello,
  protocolVersion,
  readDeliver,
  readToHub,
  type ToHub,
} from '../transports/relay/protocol.ts'
import type { AnswerLine, Deliveries } from './deliveries.ts'

export type EdgeLinkSettings = Readonly<{
  socket: HubSocketSettings
  hello: Omit<Hello, 'kind' | 'version'>
  deliveries: Deliveries
  silenceMsMax: number
  log: Logger
  onWelcome: (welcome: Welcome) => void
}>

export type Welcome = Extract<ToHub, { kind: 'welcome' }>

/** How a link was, for who decides whether there is another. */
export type EdgeLinkEnd = Readonly<{
  socket: SocketEnd
  /** The edge's own words, if it had any. */
  message: string | null
  /** From the edge's welcome on. */
  lastedMs: number
}>

/** Ids in one message: far from what an edge takes at once. */
const returnedMax = 1_000
const silentEdge = 'the edge did not answer the hello'

/** One link, from the connection to its end. */
export class EdgeLink {
  readonly ended: Promise<EdgeLinkEnd>
  readonly #settings: EdgeLinkSettings
  readonly #socket: HubSocket
  readonly #resolve: (end: EdgeLinkEnd) => void
  #welcomeTimer: NodeJS.Timeout | null = null
  #welcomedAt: number | null = null
  #message: string | null = null
  #isDraining = false

  constructor(settings: EdgeLinkSettings) {
    const { promise, resolve } = Promise.withResolvers<EdgeLinkEnd>()
    this.ended = promise
    this.#resolve = resolve
    this.#settings = settings
    this.#socket = new HubSocket(settings.socket, settings.silenceMsMax, {
      opened: () => this.#greet(),
      message: (data) => (typeof data === 'string' ? this.#read(data) : this.#take(data)),
      ended: (end) => this.#end(end),
    })
  }

  /** Tells the edge that nothing new is taken. */
  drain(): void {
    this.#socket.send(encode({ kind: 'drain' }))
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
  }

  #greet(): void {
    const { hello, socket } = this.#settings
    this.#socket.send(encode({ kind: 'hello', version: protocolVersion, ...hello }))
    this.#welcomeTimer = setTimeout(() => this.#refuse('no_welcome', silentEdge), socket.connectMsMax)
  }

  #read(data: string): void {
    const message = readToHub(data)
    const { deliveries, log } = this.#settings
    switch (message.kind) {
      case 'welcome':
        this.#welcomed(message)
        break
      case 'endpoint':
        if (!deliveries.describe(message)) this.#refuse('endpoints', 'there are too many endpoints')
        break
      case 'recall':
        deliveries.recall(message.endpoint)
        break
      case 'drain':
        if (!this.#isDraining) log.info({}, 'hub.edge_drains')
        this.#isDraining = true
        break
      case 'error':
        this.#message = message.message
        break
      case 'unknown':
        log.debug({ name: message.name }, 'hub.message_unknown')
        break
      case 'malformed':
        this.#refuse('malformed', message.problem)
    }
  }

  #take(data: Buffer): void {
    const deliver = readDeliver(data)
    if ('kind' in deliver) this.#refuse('malformed', deliver.problem)
    else if (this.#welcomedAt === null) this.#refuse('no_welcome', 'a delivery came before the welcome')
    else if (!this.#settings.deliveries.take(deliver)) this.#refuse('credit', 'more was sent than there is credit')
  }

  #welcomed(welcome: Welcome): void {
    if (this.#welcomedAt !== null) return
    if (welcome.version > protocolVersion) {
      this.#refuse('version', `version ${welcome.version} is not one that this hub speaks`)
      return
    }
    this.#welcomedAt = performance.now()
    this.#stopWaiting()
    const { silenceMsMax, socket, deliveries, onWelcome } = this.#settings
    // Not so short that one beat that is late would end the link.
    this.#socket.listenFor(Math.min(Math.max(welcome.silenceMsMax, 2 * socket.beatMs), silenceMsMax))
    deliveries.connected(this.#line())
    onWelcome(welcome)
  }

  #line(): AnswerLine {
    return {
      ack: (ack) => this.#socket.send(encode({ kind: 'ack', ...ack })),
      returned: (ids) => {
        for (let at = 0; at < ids.length; at += returnedMax) {
          this.#socket.send(encode({ kind: 'returned', deliveries: ids.slice(at, at + returnedMax) }))
        }
      },
    }
  }

  /** The edge does not keep to the protocol: what it says after this counts for nothing. */
  #refuse(code: string, message: string): void {
    this.#settings.log.warn({ code, problem: message }, 'hub.edge_not_understood')
    this.#message ??= message
    this.#socket.send(encode({ kind: 'error', code, message }))
    this.#socket.close(closeCodes.protocol, message)
  }

  #end(socket: SocketEnd): void {
    this.#stopWaiting()
    this.#settings.deliveries.disconnected()
    const lastedMs = this.#welcomedAt === null ? 0 : performance.now() - this.#welcomedAt
    this.#resolve({ socket, message: this.#message, lastedMs })
  }

  #stopWaiting(): void {
    if (this.#welcomeTimer !== null) clearTimeout(this.#welcomeTimer)
    this.#welcomeTimer = null
  }
}
