import { Buffer } from 'node:buffer'
import { dataOf, type Event } from '../../core/event.ts'
import { fatal } from '../../core/handler-errors.ts'
import type { HandledEvent } from '../../engines/engine.ts'

const jsonType = /^[\w.+-]+\/(?:[\w.-]+\+)?json *(?:;|$)/i
const notRead = Symbol()

/** An event as handlers see it. */
export class EventForHandler implements HandledEvent {
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly tenant: string
  readonly body: Uint8Array
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  readonly receivedAt: Date
  #data: unknown = notRead

  constructor(event: Event) {
    this.id = event.id
    this.type = event.type
    this.key = event.key
    this.tenant = event.tenant
    this.body = dataOf(event)
    this.contentType = event.contentType
    this.headers = event.request === null ? event.headers : { ...event.request.headers, ...event.headers }
    this.receivedAt = new Date(event.receivedAt)
  }

  get data(): unknown {
    if (this.#data === notRead) this.#data = jsonType.test(this.contentType) ? this.#parsed() : undefined
    return this.#data
  }

  /** Bytes that are no JSON will not become any by being tried again. */
  #parsed(): unknown {
    const { body } = this
    try {
      return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString())
    } catch (cause) {
      throw fatal(`The body of ${this.id} is not JSON although it says ${this.contentType}; read event.body.`, {
        cause,
      })
    }
  }
}
