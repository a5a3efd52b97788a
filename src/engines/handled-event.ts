import { Buffer } from 'node:buffer'
import { fatal } from '../core/handler-errors.ts'
import type { EventFacts, HandledEvent } from './engine.ts'

const jsonType = /^[\w.+-]+\/(?:[\w.-]+\+)?json *(?:;|$)/i
const notRead = Symbol()

/** The event of a task as its handler sees it; a class, because an object with getters of its own is slow to make. */
export class EventForHandler implements HandledEvent {
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly tenant: string
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  readonly receivedAt: Date
  /** The event's own, which others send on: no handler gets hold of them. */
  readonly #bytes: Uint8Array
  #body: Uint8Array | null = null
  #data: unknown = notRead

  constructor(event: EventFacts, bytes: Uint8Array) {
    this.id = event.id
    this.type = event.type
    this.key = event.key
    this.tenant = event.tenant
    this.#bytes = bytes
    this.contentType = event.contentType
    this.headers = event.headers
    this.receivedAt = new Date(event.receivedAt)
  }

  get body(): Uint8Array {
    this.#body ??= Buffer.from(this.#bytes)
    return this.#body
  }

  get data(): unknown {
    if (this.#data === notRead) this.#data = jsonType.test(this.contentType) ? this.#parsed() : undefined
    return this.#data
  }

  /** Bytes that are not JSON will not become any by being tried again. */
  #parsed(): unknown {
    const encoding = this.headers['content-encoding']
    if (encoding !== undefined) {
      throw fatal(`The body of ${this.id} is encoded (${encoding}): decode event.body, event.data reads plain JSON.`)
    }
    const { buffer, byteOffset, byteLength } = this.#bytes
    try {
      return JSON.parse(Buffer.from(buffer, byteOffset, byteLength).toString())
    } catch (cause) {
      throw fatal(`The body of ${this.id} is not JSON although it says ${this.contentType}; read event.body.`, {
        cause,
      })
    }
  }
}
