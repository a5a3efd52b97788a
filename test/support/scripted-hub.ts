// The other end of a link, as a test wants it: it says what it is told to say, in any order, and nothing by itself.
import { once } from 'node:events'
import { type ClientOptions, WebSocket } from 'ws'
import {
  type Ack,
  type Deliver,
  encode,
  type FromHub,
  type Hello,
  readDeliver,
  readToHub,
  type ToHub,
} from '../../src/transports/relay/protocol.ts'

/** What the edge said. */
export type Heard = ToHub | Readonly<{ kind: 'deliver' } & Deliver>
export type Closed = Readonly<{ code: number; reason: string }>

export const ok = { kind: 'answered', statusCode: 200, headers: {}, body: '' } as const
export const down = { kind: 'answered', statusCode: 503, headers: {}, body: '' } as const

export function aHello(given: Partial<Hello> = {}): Hello {
  return {
    kind: 'hello',
    version: 1,
    software: 'scripted/1',
    session: 'session-1',
    routes: ['github'],
    credit: { frames: 100, bytes: 10_000_000 },
    frameBytesMax: 1_000_000,
    ...given,
  }
}

export class ScriptedHub {
  readonly ws: WebSocket
  /** How the connection ended. */
  readonly closed: Promise<Closed>
  /** Everything that was heard, in its order. */
  readonly heard: Heard[] = []
  #read = 0
  #wake: (() => void) | null = null

  constructor(url: string, options: ClientOptions = {}) {
    this.ws = new WebSocket(url, { perMessageDeflate: false, ...options })
    this.ws.on('error', () => {})
    this.ws.on('message', (data: Buffer, isBinary) => this.#take(data, isBinary))
    this.closed = new Promise((resolve) => {
      this.ws.on('close', (code, reason) => {
        resolve({ code, reason: reason.toString() })
        this.#wake?.()
      })
    })
  }

  /** Connected, and nothing said yet. */
  static async open(url: string, options: ClientOptions = {}): Promise<ScriptedHub> {
    const hub = new ScriptedHub(url, options)
    await once(hub.ws, 'open')
    return hub
  }

  /** Connected and welcome. */
  static async connect(url: string, given: Partial<Hello> = {}, options: ClientOptions = {}): Promise<ScriptedHub> {
    const hub = await ScriptedHub.open(url, options)
    hub.say(aHello(given))
    await hub.next('welcome')
    return hub
  }

  say(message: FromHub): void {
    this.ws.send(encode(message))
  }

  /** Whatever it is. */
  sayRaw(data: string | Uint8Array): void {
    this.ws.send(data)
  }

  ack({ head }: Deliver, report: Ack['report'] = ok, more: Partial<Ack> = {}): void {
    this.say({ kind: 'ack', delivery: head.delivery, bornAt: head.bornAt, report, tookMs: 1, ...more })
  }

  /** The next message of this kind; those before it are passed over. */
  async next<K extends Heard['kind']>(kind: K): Promise<Extract<Heard, { kind: K }>> {
    for (;;) {
      const message = this.heard[this.#read]
      if (message !== undefined) {
        this.#read += 1
        if (message.kind === kind) return message as Extract<Heard, { kind: K }>
      } else if (this.ws.readyState === WebSocket.CLOSED) {
        throw new Error(`the link was closed before there was ${kind}`)
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }

  /** Resolves when the edge has read everything that was said before. */
  async settled(): Promise<void> {
    const pong = once(this.ws, 'pong')
    this.ws.ping()
    await pong
  }

  #take(data: Buffer, isBinary: boolean): void {
    this.heard.push(isBinary ? delivered(data) : told(data.toString()))
    this.#wake?.()
  }
}

function delivered(frame: Buffer): Heard {
  const deliver = readDeliver(frame)
  if ('kind' in deliver) throw new Error(`the edge sent a frame that cannot be read: ${deliver.problem}`)
  return { kind: 'deliver', ...deliver }
}

function told(text: string): Heard {
  const message = readToHub(text)
  if (message.kind === 'malformed' || message.kind === 'unknown') throw new Error(`the edge sent ${text}`)
  return message
}
